"""A typed client of the platform's HTTP API, and how it finds the platform and a token."""
