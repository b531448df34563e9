"""Osmosis, self-hosted: evaluate LLM agents from your own git repository."""

__version__ = "0.1.0"
