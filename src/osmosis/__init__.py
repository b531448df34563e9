"""Osmosis, self-hosted: evaluate LLM agents from your own git repository."""
