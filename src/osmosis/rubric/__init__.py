"""Grading by rubric: a judge model reads one answer and states a score.

``osmosis eval rubric`` grades a file of conversations; ``evaluate_rubric`` grades one answer from
Python, also inside a ``Grader``. The room stands on the gateway's adapters and its one retry layer.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from osmosis.rubric.errors import (
        MissingAPIKeyError,
        ModelNotFoundError,
        ProviderRequestError,
        UnscoredError,
    )
    from osmosis.rubric.evaluate import RubricResult, evaluate_rubric

__all__ = [
    "MissingAPIKeyError",
    "ModelNotFoundError",
    "ProviderRequestError",
    "RubricResult",
    "UnscoredError",
    "evaluate_rubric",
]

_IN_EVALUATE = ("RubricResult", "evaluate_rubric")


def __getattr__(name: str) -> Any:
    """Each name is loaded when it is first used: a client library takes 200 ms to import."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = "evaluate" if name in _IN_EVALUATE else "errors"
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value
