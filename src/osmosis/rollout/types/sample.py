"""The sample of a rollout: its conversation, its reward and what else was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from osmosis.rollout.json_values import deep_copy

MessageDict = dict[str, Any]
Messages = Sequence[Mapping[str, Any]]


class RolloutSample(BaseModel):
    """One conversation and its grade.

    ``messages`` keep the shape of the framework that made them. ``trajectory_messages`` is the
    chat-shaped copy that is written to disk: a deep copy of ``messages`` unless given, and
    nothing is written when it is explicitly None. ``remove_sample`` keeps the row out of the
    numbers without a reward. A reward is always finite.
    """

    model_config = ConfigDict(allow_inf_nan=False, validate_assignment=True)

    messages: Messages = Field(default_factory=list)
    trajectory_messages: Messages | None = None
    label: str | None = None
    reward: float | None = None
    remove_sample: bool = False
    metrics: dict[str, Any] = Field(default_factory=dict)
    extra_fields: dict[str, Any] = Field(default_factory=dict)

    def model_post_init(self, context: Any, /) -> None:
        if "trajectory_messages" not in self.model_fields_set:
            # Past the validation of assignments: these are messages that were just validated.
            vars(self)["trajectory_messages"] = deep_copy(self.messages)
            self.__pydantic_fields_set__.add("trajectory_messages")
