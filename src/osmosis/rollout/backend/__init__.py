"""Backends that execute rollouts."""

from osmosis.rollout.backend.base import ExecutionBackend

__all__ = ["ExecutionBackend"]
