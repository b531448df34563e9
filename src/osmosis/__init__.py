"""Osmosis, self-hosted: evaluate LLM agents from your own git repository."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from osmosis.client.client import Client as Client

__version__ = "0.1.0"
__all__ = ["Client", "__version__"]


def __getattr__(name: str) -> Any:
    """``Client`` is loaded when it is asked for: ``import osmosis`` stays light for user code."""
    if name != "Client":
        raise AttributeError(f"module 'osmosis' has no attribute '{name}'")
    try:
        return import_module("osmosis.client.client").Client
    except ModuleNotFoundError as missing:
        if missing.name != "osmosis.client":
            raise
        raise ImportError(
            "This is the SDK that the platform gives to a rollout; it has no Client. "
            "Install osmosis-platform where you want to use it."
        ) from None
