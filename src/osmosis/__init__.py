"""Osmosis, self-hosted: evaluate LLM agents from your own git repository."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from osmosis.client.client import Client as Client
    from osmosis.rubric.evaluate import evaluate_rubric as evaluate_rubric

__version__ = "0.1.0"
__all__ = ["Client", "__version__", "evaluate_rubric"]

_HOMES = {"Client": "osmosis.client.client", "evaluate_rubric": "osmosis.rubric.evaluate"}


def __getattr__(name: str) -> Any:
    """Each is loaded when it is asked for: ``import osmosis`` stays light for user code."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'osmosis' has no attribute '{name}'")
    try:
        return getattr(import_module(home), name)
    except ModuleNotFoundError as missing:
        if missing.name != "osmosis.client":
            raise
        raise ImportError(
            "This is the SDK that the platform gives to a rollout; it has no Client. "
            "Install osmosis-platform where you want to use it."
        ) from None
