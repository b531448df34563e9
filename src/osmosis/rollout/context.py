"""What a rollout knows while it runs: the prompt, the model's address, the sample to grade."""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, NamedTuple, TypeVar

from osmosis.rollout.types.config import AgentWorkflowConfig
from osmosis.rollout.types.sample import MessageDict, RolloutSample
from osmosis.rollout.types.status import RolloutStatus

TConfig = TypeVar("TConfig", bound=AgentWorkflowConfig)


class ModelLink(NamedTuple):
    """Where a model is reached: an API base and its bearer."""

    completions_url: str
    api_key: str | None


class ArtifactsDir:
    """The attribute ``artifacts_dir``: a directory, made when user code first asks for it.

    Most rollouts never do, and two directories for every rollout cost more than all the rest.
    A context may be given a path, None, or a function that makes one.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self._slot = f"_{name}"

    def __get__(self, instance: Any, owner: type | None = None) -> Path | None:
        if instance is None:
            return None  # the default of the dataclass field
        value: Any = getattr(instance, self._slot)
        if callable(value):
            value = value()
            setattr(instance, self._slot, value)
        return value

    def __set__(self, instance: Any, value: Path | Callable[[], Path | None] | None) -> None:
        setattr(instance, self._slot, value)


@dataclass
class AgentWorkflowContext(Generic[TConfig]):
    """What ``AgentWorkflow.run`` is given. ``prompt`` is the row's messages, maybe empty."""

    prompt: list[MessageDict]
    config: TConfig | None = None
    metadata: dict[str, Any] | None = None
    artifacts_dir: ArtifactsDir = ArtifactsDir()


@dataclass
class GraderContext:
    """What ``Grader.grade`` is given. ``sample`` is None when the workflow produced none."""

    label: str | None = None
    sample: RolloutSample | None = None
    project_path: str | None = None
    metadata: dict[str, Any] | None = None
    artifacts_dir: ArtifactsDir = ArtifactsDir()

    def set_reward(self, reward: float) -> None:
        """Grade the sample. Any finite number is taken; NaN and infinity are refused."""
        if self.sample is None:
            raise ValueError(
                "there is no sample to reward: the workflow returned no messages; "
                "return a message list from run()"
            )
        self.sample.reward = _finite(reward)


def _finite(reward: object) -> float:
    try:
        number = float(reward)  # pyright: ignore[reportArgumentType]  (numpy's numbers too)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if math.isfinite(number):
        return number
    raise ValueError(
        f"the reward must be a finite number, got {reward!r}; set sample.remove_sample = True "
        "to leave a row out of the scores"
    )


class SampleSource(ABC):
    """Hands over the sample when ``run`` returns None. Agent frameworks register one."""

    @abstractmethod
    async def get_sample(self) -> RolloutSample:
        """The finished sample."""

    async def get_preview(self, max_messages: int) -> RolloutSample | None:
        """The sample so far, with at most ``max_messages`` messages, or None."""
        return None


_active: ContextVar[RolloutContext | None] = ContextVar("osmosis_rollout_context", default=None)
# The judge's address is known from the start, but only a grader may use it.
judge_link: ContextVar[ModelLink | None] = ContextVar("osmosis_judge_link", default=None)
grading: ContextVar[bool] = ContextVar("osmosis_grading", default=False)


def get_rollout_context() -> RolloutContext | None:
    """The context of the rollout that runs here; None outside one and inside a grader."""
    return _active.get()


@dataclass
class RolloutContext:
    """The run's own model as seen by one rollout; ``with`` makes it the active one.

    Without an address, ``OSMOSIS_CHAT_COMPLETIONS_URL`` and ``OSMOSIS_API_KEY`` are used, and
    without an id ``OSMOSIS_ROLLOUT_ID``: a task container sets them.
    """

    chat_completions_url: str = ""
    api_key: str | None = field(default=None, repr=False)
    rollout_id: str = ""
    sample_source: SampleSource | None = None
    _on_status: Callable[[RolloutStatus], None] | None = field(
        default=None, repr=False, compare=False
    )
    _tokens: list[Token[RolloutContext | None]] = field(
        default_factory=list, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        if not self.chat_completions_url:
            # The key belongs to that address, and is never sent to one that a request named.
            self.chat_completions_url = os.environ.get("OSMOSIS_CHAT_COMPLETIONS_URL", "")
            self.api_key = self.api_key or os.environ.get("OSMOSIS_API_KEY") or None
        self.rollout_id = self.rollout_id or os.environ.get("OSMOSIS_ROLLOUT_ID", "")

    def __enter__(self) -> RolloutContext:
        self._tokens.append(_active.set(self))
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # Work that was left behind never leaves: its token belongs to another task's context.
        for token in reversed(self._tokens):
            try:
                _active.reset(token)
            except ValueError:
                continue
            self._tokens.remove(token)
            return

    def set_sample_source(self, source: SampleSource) -> None:
        """Register where the sample comes from; a rollout has exactly one sample."""
        if self.sample_source is not None:
            raise ValueError("a sample source is already registered; a rollout has one sample")
        self.sample_source = source

    async def get_sample(self) -> RolloutSample | None:
        """The registered source's sample, or None without a source."""
        return None if self.sample_source is None else await self.sample_source.get_sample()

    def set_status(self, status: RolloutStatus) -> None:
        """Tell the server which phase the rollout has reached. Called by backends."""
        if self._on_status is not None:
            self._on_status(status)


def enter_grading() -> None:
    """From here on, in this task, the policy is out of reach and the judge is within it."""
    _active.set(None)
    grading.set(True)
