"""One module per group of commands; each holds a Typer ``app``. Commands return results."""
