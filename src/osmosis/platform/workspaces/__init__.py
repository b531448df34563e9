"""Workspaces: who belongs to them, and the repository each is connected to."""
