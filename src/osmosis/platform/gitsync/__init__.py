"""Repositories of workspaces: bare copies, fetching, what is in them, commits for runs."""
