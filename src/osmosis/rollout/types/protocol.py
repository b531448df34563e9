"""Bodies of the rollout protocol, polling dialect. Unknown fields are ignored."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from osmosis.rollout.types.sample import MessageDict, RolloutSample
from osmosis.rollout.types.status import RolloutErrorCategory, RolloutStatus

POLLING_LEASE_HEADER = "X-Osmosis-Rollout-Lease"


def is_path_segment(text: str) -> bool:
    """Whether ``text`` names exactly one directory entry."""
    return bool(text) and text not in (".", "..") and not any(c in text for c in "/\\\0")


def _path_segment(text: str) -> str:
    if not is_path_segment(text):
        raise ValueError("must be a single path segment: no '/', '\\' or NUL, not '.' or '..'")
    return text


RolloutId = Annotated[str, AfterValidator(_path_segment)]
FiniteSeconds = Annotated[float, Field(allow_inf_nan=False)]


class StoredSample(BaseModel):
    """What a workflow returned in an earlier execution, to be graded again."""

    model_config = ConfigDict(defer_build=True)

    messages: list[MessageDict]
    metrics: dict[str, Any] = Field(default_factory=dict)
    extra_fields: dict[str, Any] = Field(default_factory=dict)


class RolloutInitRequest(BaseModel):
    """Body of ``POST /rollout``. Judge fields, ``compact_trajectory``, ``stored_sample`` are ours.

    With ``compact_trajectory`` the driver makes the trajectory from the result's messages where
    they are all there is to it, and no file is written then; the result's own key ``trajectory``
    says where it is: ``messages``, ``file`` or ``none``. With ``stored_sample`` the workflow does
    not run, and the grader gets that sample; ``/health`` says ``"regrade": true`` where this works.
    """

    model_config = ConfigDict(defer_build=True)

    initial_messages: list[MessageDict]
    label: str | None = None
    metadata: dict[str, Any] | None = None
    rollout_id: RolloutId
    chat_completions_url: str
    llm_api_key: Annotated[str, Field(min_length=1)] | None = None
    grade: bool = True
    agent_timeout_sec: FiniteSeconds | None = None
    grader_timeout_sec: FiniteSeconds | None = None
    extra_fields: dict[str, Any] | None = None
    judge_completions_url: str | None = None
    judge_api_key: str | None = None
    compact_trajectory: bool = False
    stored_sample: StoredSample | None = None


class RolloutInitResponse(BaseModel):
    """Answer 202 to an admitted rollout."""

    model_config = ConfigDict(defer_build=True)

    rollout_id: str
    status: RolloutStatus
    polling_lease_token: Annotated[str, Field(min_length=1)]
    result_wait_timeout_sec: float
    polling_lease_timeout_sec: float


class RolloutResultResponse(BaseModel):
    """Answer to a poll. Everything but id and status is None while the rollout is in flight."""

    model_config = ConfigDict(defer_build=True)

    rollout_id: str
    status: RolloutStatus
    sample: RolloutSample | None = None
    err_message: str | None = None
    err_category: RolloutErrorCategory | None = None


class CancelRolloutsRequest(BaseModel):
    """Body of ``POST /rollout/cancel``: exactly one of the three must be given."""

    model_config = ConfigDict(defer_build=True)

    ids: list[str] | None = None
    prefix: str | None = None
    all: bool = False


class CancelRolloutsResponse(BaseModel):
    """What became of each rollout: cancelled_queued, cancelled_running or not_found."""

    model_config = ConfigDict(defer_build=True)

    dispositions: dict[str, str]


class RolloutLifecycle(BaseModel):
    """Whether the server admits rollouts, and how many are unfinished."""

    model_config = ConfigDict(defer_build=True)

    accepting_rollouts: bool
    active_rollouts: int = Field(ge=0)
