"""The osmosis command."""
