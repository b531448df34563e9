"""``[advanced]``: our own knobs. Every client forwards them untouched; we type and bound them."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class AdvancedSection(BaseModel):
    """Each field's ``description`` is its line in the documentation."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    sample_seed: int | None = Field(
        default=None,
        ge=0,
        lt=2**63,
        description="Seed of the random row sample; drawn when absent.",
    )
    model_seed: int | None = Field(
        default=None, ge=0, lt=2**31, description="`seed` sent with each policy call."
    )
    temperature: float | None = Field(
        default=None, ge=0, le=2, description="`temperature` of policy calls that set none."
    )
    top_p: float | None = Field(
        default=None, gt=0, le=1, description="`top_p` of policy calls that set none."
    )
    max_tokens: int | None = Field(
        default=None, ge=1, description="`max_tokens` of policy calls that set none, per call."
    )
    max_retries: int = Field(
        default=4,
        ge=0,
        le=20,
        description="Retries of one model call after 429, 5xx or a broken link.",
    )
    max_concurrent_calls: int | None = Field(
        default=None,
        ge=1,
        le=4096,
        description="Model calls in flight at once, policy and judge together.",
    )
    judge_model: str | None = Field(
        default=None, min_length=1, description="Model of the judge route that graders may call."
    )
    network: Literal["on", "loopback"] = Field(
        default="on",
        description="`loopback` keeps the rollout process off every network but loopback.",
    )
