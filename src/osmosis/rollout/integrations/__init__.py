"""Agent frameworks on the run's own model. Each needs the extra of its name."""
