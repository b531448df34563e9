"""What an evaluation is given: the plan, the rows and the sink. Nothing here does work."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from osmosis.evaluation.slice import Slice
from osmosis.wire.runner import LogLevel, ModelEndpoint, RowItem, RunError, Stage
from osmosis.wire.samples import SampleRecord
from osmosis.workspace.advanced import AdvancedSection

DEFAULT_CALLS_AT_ONCE = 64
"""Model calls at once when nothing says more: one sample may make several side by side."""
DRAINED = "drained"
"""Why an evaluation stopped that was asked to drain. Why the run stopped, who asked knows."""
NO_PLACE = "no place"
"""Why an evaluation stopped whose slice has no share of what may be in flight, for the rollout
takes fewer samples at once than there are slices. It may go on when another has ended."""


@dataclass(frozen=True)
class EvaluationPlan:
    """One evaluation, fully decided. Times in seconds.

    ``code_dir`` is the workspace tree at the run's commit. ``work_dir`` is this run's scratch
    directory. ``cache_dir`` keeps built environments and uv's cache of this workspace.
    ``private_dirs`` must be invisible to user code (the platform's data directory).
    ``response_store`` is used when ``[advanced] cache`` asks for it; ``replays``
    are the runs that ``replay/RUN`` names.
    ``rollout_port`` pins the rollout server's port; otherwise a free one is taken. ``slice`` is
    the part of the run that this evaluation executes: ``selected_rows``, ``batch_size`` and the
    ceilings stay the whole run's. With ``has_place`` a slice without a share of its own runs one
    sample at a time, in the place of another that has ended. With ``checked`` another evaluation of
    the run has checked the models: what ``GatewayPart.describe`` said there. With ``stored`` the
    workflow does not run and the policy is not called: those samples are graded again.
    """

    run_id: str
    name: str
    code_dir: Path
    work_dir: Path
    cache_dir: Path
    rollout: str
    entrypoint: str
    model_path: str
    n: int = 1
    batch_size: int = 1
    pass_threshold: float = 1.0
    agent_workflow_timeout_s: float = 450.0
    grader_timeout_s: float = 150.0
    selected_rows: int = 0
    advanced: AdvancedSection = field(default_factory=AdvancedSection)
    env: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    endpoints: tuple[ModelEndpoint, ...] = field(default=(), repr=False)
    private_dirs: tuple[Path, ...] = ()
    rollout_port: int | None = None
    response_store: ResponseStore | None = field(default=None, repr=False)
    replays: tuple[ReplaySource, ...] = ()
    slice: Slice = field(default_factory=Slice)
    has_place: bool = False
    checked: Mapping[str, Any] | None = None
    stored: StoredSamples | None = field(default=None, repr=False)

    @property
    def planned_samples(self) -> int:
        """The samples of this evaluation's slice; 0 while the number of rows is unknown."""
        return self.slice.share(self.selected_rows) * self.n


def calls_allowed(plan: EvaluationPlan) -> int:
    """The most model calls in flight under one key, in the whole run."""
    return plan.advanced.max_concurrent_calls or max(DEFAULT_CALLS_AT_ONCE, plan.batch_size)


def calls_at_once(plan: EvaluationPlan) -> int:
    """This evaluation's share of them."""
    return max(1, plan.slice.share(calls_allowed(plan)))


class ResponseStore(Protocol):
    """Where answers are kept by key. Whatever it raises is taken for a miss."""

    async def lookup(self, key: str) -> bytes | None: ...

    async def put(self, key: str, value: bytes) -> None: ...


class KeptSample(NamedTuple):
    """A sample of an earlier run with its calls, as ``SampleRecord.kept_calls`` holds them."""

    source_row: int
    run_index: int
    packed: bytes


@dataclass(frozen=True)
class ReplaySource:
    """A run whose calls answer those of another. ``name`` is what follows ``replay/`` in the
    config, ``model_path`` the model of the run that answers; ``fetch`` brings the samples, which
    are then read once, in a thread."""

    name: str
    run_name: str
    model_path: str
    fetch: Callable[[], Awaitable[Iterable[KeptSample]]]
    run_id: str = ""


class RowSource(Protocol):
    """The selected rows, in ``row_index`` order, read once and lazily."""

    def __call__(self) -> AsyncIterator[RowItem]: ...


class StoredSamples(Protocol):
    """The samples of an earlier execution of the run, for grading them again."""

    async def sample(self, row_index: int, run_index: int) -> SampleRecord:
        """The whole record; waits while it cannot be had, RunFailed when there is none."""
        ...

    async def artifact(self, rollout_id: str, relative_path: str, target: Path) -> None:
        """Fetch one file of the sample; as :meth:`sample`."""
        ...


class Sink(Protocol):
    """Where an evaluation's results go. ``record`` waits while too many are unacknowledged."""

    async def stage(self, stage: Stage) -> None: ...

    def log(
        self, level: LogLevel, step: str, message: str, details: dict[str, Any] | None = None
    ) -> None: ...

    async def record(self, record: SampleRecord) -> None: ...

    async def artifact(self, rollout_id: str, relative_path: str, source: Path) -> None: ...

    async def effective(self, values: dict[str, Any]) -> None: ...

    async def flush(self) -> None: ...


@dataclass(frozen=True)
class Outcome:
    """How an evaluation ended: ``finished``, ``failed`` (with ``error``) or ``stopped``.

    ``stop_message``: for people, why it was stopped.
    """

    status: str
    error: RunError | None = None
    stop_reason: str | None = None
    stop_message: str | None = None


Done = Set[tuple[int, int]]
"""(row_index, run_index) pairs that are already recorded and must not run again."""
