"""Keys, tokens, sessions, passwords, and which names a request may use."""
