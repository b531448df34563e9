"""The ``osmosis`` command: thin commands that return results, and one place that prints them."""
