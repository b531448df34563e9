"""One module per group of commands; each holds it as ``app``. Commands return results."""
