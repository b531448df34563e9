"""Stored secrets: encrypted values by name, workspace-wide or personal."""
