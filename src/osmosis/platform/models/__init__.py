"""Models: named endpoints, and the lists that the CLI shows."""
