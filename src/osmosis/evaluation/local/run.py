"""One invocation of a local run: its directory opened, its open samples run, its files written."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import osmosis
from osmosis.dataset.selection import format_ranges
from osmosis.evaluation.budget import Budget
from osmosis.evaluation.engine import Progress, evaluate
from osmosis.evaluation.journal import Journal
from osmosis.evaluation.local.dataset import DatasetRows, LocalDataset
from osmosis.evaluation.local.failures import FailedSample, first_failures
from osmosis.evaluation.local.inputs import check_unchanged, resolved_inputs
from osmosis.evaluation.local.projections import RunFacts
from osmosis.evaluation.local.response_store import LocalResponseStore
from osmosis.evaluation.local.run_directory import RunDirectory, read_json, write_json
from osmosis.evaluation.local.sink import LocalSink, LogListener
from osmosis.evaluation.parts import Parts
from osmosis.evaluation.plan import EvaluationPlan, Outcome, ReplaySource
from osmosis.evaluation.redaction import Redactor
from osmosis.metrics.summary import Summary
from osmosis.wire.errors import Conflict
from osmosis.wire.runner import ModelEndpoint
from osmosis.wire.spending import Spending
from osmosis.workspace.config import EvalConfig

UPDATE_S = 0.5


@dataclass(frozen=True)
class LocalRun:
    """Everything that one invocation needs; secrets never reach its files."""

    root: Path
    directory: RunDirectory
    config: EvalConfig
    dataset: LocalDataset
    source_rows: Sequence[int]
    provenance: Mapping[str, Any]
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    endpoints: tuple[ModelEndpoint, ...] = field(default=(), repr=False)
    replays: tuple[ReplaySource, ...] = ()
    in_flight: int | None = None
    rollout_port: int | None = None
    retry_failed: bool = False
    fresh: bool = False

    @property
    def samples(self) -> int:
        return len(self.source_rows) * self.config.evaluation.n


@dataclass(frozen=True)
class Ended:
    """How an invocation ended. ``pending`` samples have no result yet."""

    outcome: Outcome
    facts: RunFacts
    summary: Summary
    pending: int
    ran: int
    effective: dict[str, Any]
    archived: Path | None
    completed_at: str | None
    failures: list[FailedSample]
    """The first of them."""


Update = Callable[[dict[str, Any]], None]


def check_resumable(run: LocalRun) -> dict[str, Any] | None:
    """The manifest of an earlier invocation; refuses other inputs than that one's."""
    directory = run.directory
    known = directory.read_manifest()
    if known is not None:
        check_unchanged(directory.name, known.get("inputs") or {}, _inputs(run))
    elif directory.journal.exists():
        raise Conflict(
            f"{directory.path} has results but no manifest, so nothing says what they are of.",
            hint="Start over with --fresh; that keeps them in an archive.",
        )
    return known


def open_manifest(run: LocalRun) -> dict[str, Any]:
    """The run's manifest: written once, compared ever after."""
    if (known := check_resumable(run)) is not None:
        return known
    directory = run.directory
    directory.path.mkdir(parents=True, exist_ok=True)
    manifest = {
        "schema_version": 1,
        "local_run_id": secrets.token_hex(16),
        "run_name": directory.name,
        "created_at": datetime.now(UTC).isoformat(),
        "inputs": _inputs(run),
        "provenance": {"sdk_version": osmosis.__version__, **run.provenance},
    }
    write_json(directory.manifest, manifest)
    return manifest


async def run_locally(
    run: LocalRun,
    stop: asyncio.Event,
    *,
    on_update: Update = lambda document: None,
    on_log: LogListener = lambda level, step, message: None,
    parts: Parts | None = None,
) -> Ended:
    """Run every open sample of ``run``, whose lock the caller holds."""
    directory = run.directory
    archived = directory.archive() if run.fresh else None
    manifest = open_manifest(run)
    facts = _facts(run, manifest)
    directory.clear_work()
    directory.work.mkdir()
    journal = Journal(directory.journal)
    kept = {
        key: record
        for key, record in journal.records.items()
        if not run.retry_failed or record.status == "success"
    }
    values = [*run.secrets.values(), *(e.api_key for e in run.endpoints if e.api_key)]
    sink = LocalSink(directory, facts, journal, Redactor(values), kept=kept, on_log=on_log)
    open_before = sink.pending
    responses = LocalResponseStore(run.root)
    spent = Spending.model_validate(read_json(directory.spending) or {})
    budget = Budget(run.config.advanced, spent)
    try:
        async with sink:
            watcher = _Watcher(sink, facts, on_update, keep=lambda: _keep(directory, budget))
            showing = asyncio.create_task(watcher.show())
            try:
                outcome = await evaluate(
                    _plan(run, manifest, responses),
                    DatasetRows(run.dataset, run.source_rows),
                    frozenset(kept),
                    sink,
                    stop,
                    parts=parts,
                    on_progress=watcher.progress,
                    budget=budget,
                )
            finally:
                showing.cancel()
            await sink.flush()
            _keep(directory, budget)
            summary = await sink.conclude("incomplete" if sink.pending else "finished")
            failures = await asyncio.to_thread(first_failures, directory, sink.records)
            watcher.end()
    finally:
        journal.close()
        responses.close()
        await asyncio.to_thread(directory.clear_work)
    return Ended(
        outcome=outcome,
        facts=facts,
        summary=summary,
        pending=sink.pending,
        ran=open_before - sink.pending,
        effective=sink.effective_values,
        archived=archived,
        completed_at=directory.completed_at(),
        failures=failures,
    )


def _inputs(run: LocalRun) -> dict[str, Any]:
    selected = format_ranges(run.source_rows)
    sha256 = run.dataset.sha256
    inputs = resolved_inputs(run.config, run.root, dataset_sha256=sha256, selected=selected)
    if run.replays:
        # Another run of the same name has other answers.
        inputs["replays"] = {replayed.name: replayed.run_id for replayed in run.replays}
    return inputs


def _facts(run: LocalRun, manifest: Mapping[str, Any]) -> RunFacts:
    experiment, evaluation = run.config.experiment, run.config.evaluation
    return RunFacts(
        local_run_id=manifest["local_run_id"],
        name=run.directory.name,
        dataset=experiment.dataset,
        model=experiment.model_path,
        rollout=experiment.rollout,
        n=evaluation.n,
        pass_threshold=evaluation.pass_threshold,
        sampled_rows=len(run.source_rows),
        total_dataset_rows=run.dataset.total_rows,
        started_at=manifest["created_at"],
    )


def _plan(
    run: LocalRun, manifest: Mapping[str, Any], responses: LocalResponseStore
) -> EvaluationPlan:
    config, evaluation = run.config, run.config.evaluation
    return EvaluationPlan(
        run_id=manifest["local_run_id"],
        name=run.directory.name,
        code_dir=run.root,
        work_dir=run.directory.work,
        cache_dir=run.root / ".osmosis" / "cache",
        rollout=config.experiment.rollout,
        entrypoint=config.experiment.entrypoint,
        model_path=config.experiment.model_path,
        n=evaluation.n,
        batch_size=run.in_flight or evaluation.batch_size,
        pass_threshold=evaluation.pass_threshold,
        agent_workflow_timeout_s=evaluation.agent_workflow_timeout_s,
        grader_timeout_s=evaluation.grader_timeout_s,
        selected_rows=len(run.source_rows),
        advanced=config.advanced,
        env=config.env,
        secrets=run.secrets,
        endpoints=run.endpoints,
        private_dirs=(run.directory.root,),
        response_store=responses,
        replays=run.replays,
        rollout_port=run.rollout_port,
    )


def _keep(directory: RunDirectory, budget: Budget) -> None:
    """Note what is spent, so that a later invocation knows; a kill forgets half a second of it."""
    spent = budget.spent
    if read_json(directory.spending) != (now := spent.model_dump()) and spent != Spending():
        write_json(directory.spending, now)


class _Watcher:
    """Tells the screen how the run is doing, in the shape of a run on the wire."""

    def __init__(
        self, sink: LocalSink, facts: RunFacts, on_update: Update, *, keep: Callable[[], None]
    ) -> None:
        self._sink, self._facts, self._on_update, self._keep = sink, facts, on_update, keep
        self._began = datetime.now(UTC).isoformat()
        self._waiting_for: str | None = None

    def progress(self, progress: Progress) -> None:
        self._waiting_for = progress.waiting_for

    async def show(self) -> None:
        while True:
            self._tell("running")
            await asyncio.to_thread(self._keep)
            await asyncio.sleep(UPDATE_S)

    def end(self) -> None:
        self._tell("stopped" if self._sink.pending else "finished")

    def _tell(self, status: str) -> None:
        facts, sink = self._facts, self._sink
        run = {
            "status": status,
            "stage": sink.stage_name,
            "started_at": self._began,
            "waiting_for": self._waiting_for,
        }
        results = {**sink.counts.results(), "sampled_rows": facts.sampled_rows}
        self._on_update({"eval_run": run, "results": results, "config": {"n": facts.n}})
