"""The engine: runs one evaluation; knows nothing of the platform."""
