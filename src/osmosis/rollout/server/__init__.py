"""The HTTP server of a rollout, polling dialect."""

from osmosis.rollout.server.app import create_rollout_server

__all__ = ["create_rollout_server"]
