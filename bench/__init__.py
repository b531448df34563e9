"""Reproducible speed figures; `python -m bench` prints one JSON object a line."""
