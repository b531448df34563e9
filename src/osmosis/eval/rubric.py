"""``evaluate_rubric`` and its errors under the name that the vendor's package gives them."""

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
