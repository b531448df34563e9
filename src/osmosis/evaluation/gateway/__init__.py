"""The model gateway that a rollout's calls go through."""

from osmosis.evaluation.gateway.app import Gateway
from osmosis.evaluation.gateway.session import GatewaySession

__all__ = ["Gateway", "GatewaySession"]
