"""A typed client of the platform's API."""
