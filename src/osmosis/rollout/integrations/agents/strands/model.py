"""The run's own model as a model of Strands."""

# The framework is installed in rollouts, not where this is checked.
# pyright: reportMissingImports=false, reportUntypedBaseClass=false

from __future__ import annotations

from typing import Any

from strands.models.openai import OpenAIModel

from osmosis.rollout.integrations.openai_client import RolloutClient
from osmosis.rollout.links import PLACEHOLDER_MODEL


class OsmosisRolloutModel(OpenAIModel):
    """Calls the model of whichever rollout is active, as a stream.

    It may be made anywhere, also in a workflow config. ``params`` are the model's parameters,
    such as ``{"temperature": 0.7, "max_tokens": 512}``; further options go to ``OpenAIModel``.
    """

    def __init__(self, *, params: dict[str, Any] | None = None, **options: Any) -> None:
        super().__init__(
            client=RolloutClient(), model_id=PLACEHOLDER_MODEL, params=params or {}, **options
        )
