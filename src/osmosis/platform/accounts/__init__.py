"""People: the first account, tokens, device logins, one-time links."""
