"""Evaluations on this machine without a server: the run directory and the sink that fills it."""
