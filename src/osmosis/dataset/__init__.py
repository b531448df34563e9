"""Datasets as streams of rows: reading, checking, selecting. Knows nothing of the platform."""
