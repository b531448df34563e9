"""Claims runs from the platform and executes them in shards."""
