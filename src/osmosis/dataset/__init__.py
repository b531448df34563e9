"""Dataset files as streams of rows: formats, validation, selection."""
