"""``[advanced]``: our own knobs. Every client forwards them untouched; we type and bound them."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from osmosis.workspace.advanced_keys import ADVANCED_KEYS


def _means(key: str) -> str:
    return ADVANCED_KEYS[key].meaning


class AdvancedSection(BaseModel):
    """Each field's ``description`` is its line in the documentation."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    sample_seed: int | None = Field(default=None, ge=0, lt=2**63, description=_means("sample_seed"))
    model_seed: int | None = Field(default=None, ge=0, lt=2**31, description=_means("model_seed"))
    temperature: float | None = Field(default=None, ge=0, le=2, description=_means("temperature"))
    top_p: float | None = Field(default=None, gt=0, le=1, description=_means("top_p"))
    max_tokens: int | None = Field(
        default=None, ge=1, le=10_000_000, description=_means("max_tokens")
    )
    max_total_tokens: int | None = Field(
        default=None, ge=1, lt=2**53, description=_means("max_total_tokens")
    )
    max_cost_usd: float | None = Field(
        default=None, gt=0, le=1e9, description=_means("max_cost_usd")
    )
    max_retries: int = Field(default=4, ge=0, le=20, description=_means("max_retries"))
    max_retry_s: float = Field(default=300, ge=0, le=86_400, description=_means("max_retry_s"))
    max_concurrent_calls: int | None = Field(
        default=None, ge=1, le=4096, description=_means("max_concurrent_calls")
    )
    judge_model: str | None = Field(default=None, min_length=1, description=_means("judge_model"))
    teardown_grace_s: float = Field(
        default=60, ge=1, le=3600, description=_means("teardown_grace_s")
    )
    export_timeout_s: float = Field(
        default=120, ge=1, le=3600, description=_means("export_timeout_s")
    )
    outage_wait_s: float = Field(default=60, ge=0, le=86_400, description=_means("outage_wait_s"))
    cache: bool = Field(default=False, description=_means("cache"))
    network: Literal["on", "loopback"] = Field(default="on", description=_means("network"))
