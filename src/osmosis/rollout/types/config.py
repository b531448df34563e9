"""Configuration objects of workflows and graders. Any further attribute may be added."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class BaseConfig(BaseModel):
    """A named configuration; extra attributes of any type are allowed and kept."""

    model_config = ConfigDict(extra="allow", validate_assignment=True, arbitrary_types_allowed=True)

    name: str
    description: str | None = None


class ConcurrencyConfig(BaseModel):
    """How many rollouts may be in flight at once; None means no limit."""

    max_concurrent: int | None = Field(default=None, ge=1)


class AgentWorkflowConfig(BaseConfig):
    """Configuration of a workflow; deep-copied for every rollout."""

    concurrency: ConcurrencyConfig = Field(default_factory=ConcurrencyConfig)


class GraderConfig(BaseConfig):
    """Configuration of a grader; one object shared by all rollouts."""

    concurrency: ConcurrencyConfig = Field(default_factory=ConcurrencyConfig)
