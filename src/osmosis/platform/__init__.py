"""The server: accounts, workspaces, git, datasets, secrets, runs, pages."""
