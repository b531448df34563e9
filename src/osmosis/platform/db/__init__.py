"""The database: models, sessions, migrations. Only the platform touches it."""
