"""The directory that a user keeps in git: layout, configs, identity, scaffolds."""
