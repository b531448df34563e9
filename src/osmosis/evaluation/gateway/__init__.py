"""The model gateway that a rollout's calls go through."""
