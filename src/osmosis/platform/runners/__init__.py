"""The platform's side of the runner API: leases, claims, records, logs, artifacts."""
