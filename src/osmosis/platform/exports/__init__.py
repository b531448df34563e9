"""Exports: a run in the file formats of other tools, made by a job and fetched when it is done."""
