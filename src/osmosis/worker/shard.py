"""A shard: one process that executes a run, or a slice of a big one.

It is forked by a nursery (``shard_nursery.py``), or started plainly, by ``python -m
osmosis.worker.shard WORKER_PID``. Its stdin is the channel to the worker (``channel.py``), where
its job comes from; whatever is printed in it goes to ``shard-N.log`` in the run's directory.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
import traceback
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import uvloop

from osmosis.evaluation.budget import Budget
from osmosis.evaluation.engine import Progress, evaluate
from osmosis.evaluation.plan import EvaluationPlan, KeptSample, Outcome, ReplaySource
from osmosis.evaluation.process_life import adopt_orphans, shield_memory
from osmosis.evaluation.real_parts import real_parts
from osmosis.evaluation.redaction import Redactor
from osmosis.evaluation.wall_clock import wall_clock
from osmosis.event_loop import LoopLag, collect_seldom
from osmosis.processes import die_with_my_parent
from osmosis.rollout.descriptor_table import grow_descriptor_table
from osmosis.wire.errors import RunFailed
from osmosis.wire.runner import FinishRequest, LostCalls, ReplayedRun, RunError, Stage
from osmosis.wire.samples import SampleRecord
from osmosis.wire.spending import Spending
from osmosis.worker.call_ledger import CallLedger
from osmosis.worker.channel import (
    ABANDON,
    DRAIN,
    EXIT_ABANDONED,
    EXIT_ENDED,
    EXIT_LEASE_LOST,
    STOP,
    ShardJob,
    ShardState,
    log_of_slice,
    read_job,
)
from osmosis.worker.client import RunClient, RunnerClient
from osmosis.worker.code_archive import unpack
from osmosis.worker.done_set import DoneSet
from osmosis.worker.errors import LeaseLost, Refused, RunnerError, Unavailable
from osmosis.worker.http_sink import HttpSink
from osmosis.worker.kept_samples import kept_samples
from osmosis.worker.patience import RETRY_FIRST_S, RETRY_MOST_S, until_answered
from osmosis.worker.record_log import log_records
from osmosis.worker.response_store import HttpResponseStore
from osmosis.worker.row_stream import RowStream
from osmosis.worker.shard_log import shard_log
from osmosis.worker.stored_samples import RemoteSamples
from osmosis.worker.strays import collect_zombies
from osmosis.workspace.advanced import AdvancedSection

SIGN_OF_LIFE_S = 1.0
BROKEN_DOWNLOADS = 5
ABANDON_FLUSH_S = 2.0


class Reporter:
    """Tells the worker, over the channel, how the shard is doing."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.state = ShardState()
        self._lag = LoopLag()
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self._tasks = [
            asyncio.create_task(self._keep_alive()),
            asyncio.create_task(self._lag.watch()),
        ]

    def stage(self, stage: Stage) -> None:
        self.state.stage = stage
        self.send()

    def effective(self, values: dict[str, Any]) -> None:
        self.state.effective = {**(self.state.effective or {}), **values}
        self.send()

    def progress(self, progress: Progress) -> None:
        self.state.in_flight = progress.in_flight
        self.state.waiting_for = progress.waiting_for
        if progress.halted is not None and self.state.halted is None:
            self.state.halted = _told(progress.halted)
            self.send()

    def acknowledged(self, count: int) -> None:
        self.state.acknowledged += count

    def send(self) -> None:
        # A worker that does not listen must not hold the run up: the next sign comes in a second.
        with suppress(ConnectionError, BlockingIOError):
            os.write(self._descriptor, self._line())

    def end(self, outcome: Outcome) -> None:
        """The last word; it waits until the worker has it."""
        self.state.end = _told(outcome)
        os.set_blocking(self._descriptor, True)
        # An earlier word may have got stuck half-way.
        with suppress(ConnectionError), os.fdopen(self._descriptor, "wb", closefd=False) as channel:
            channel.write(b"\n" + self._line())

    def _line(self) -> bytes:
        self.state.loop_lag_ms = round(self._lag.worst_s * 1000, 1)
        return self.state.model_dump_json(exclude_none=True).encode() + b"\n"

    async def _keep_alive(self) -> None:
        while True:
            self.send()
            await asyncio.sleep(SIGN_OF_LIFE_S)


def _told(outcome: Outcome) -> FinishRequest:
    return FinishRequest(
        status=outcome.status,  # type: ignore[arg-type]  # Outcome's status is a plain str
        stop_reason=outcome.stop_reason,
        stop_message=outcome.stop_message,
        error=outcome.error,
    )


class Shard:
    """One job, from its beginning to its end."""

    def __init__(self, job: ShardJob, client: RunnerClient, reporter: Reporter) -> None:
        self._job = job
        self._spec = job.claim.spec
        self._client = client
        self._run: RunClient = client.run(self._spec.run_id, job.claim.lease_token)
        self._reporter = reporter
        self._work_dir = Path(job.work_dir)
        self._stop = asyncio.Event()
        self._drain = asyncio.Event()
        self._abandoned = False
        self._ledger = CallLedger.create(Path(job.ledger_dir), self._spec.run_id)
        self._accounted = False
        advanced = AdvancedSection.model_validate(self._spec.advanced)
        self._budget = Budget(advanced, self._spec.spent)
        self._budget.on_own = self._ledger.unrecorded
        self._sink = HttpSink(
            self._run,
            on_stage=reporter.stage,
            on_effective=reporter.effective,
            on_acknowledged=self._acknowledged,
            on_stop=self._stop.set,
            on_lease_lost=self._stop.set,
        )

    def stop(self) -> None:
        self._stop.set()

    def drain(self) -> None:
        self._drain.set()

    def abandon(self) -> None:
        self._abandoned = True
        self._stop.set()

    async def execute(self) -> int:
        """The process's exit status."""
        self._sink.start()
        try:
            outcome = await self._outcome()
            if self._abandoned:
                with suppress(TimeoutError, RunFailed):
                    async with asyncio.timeout(ABANDON_FLUSH_S):
                        await self._sink.flush()
                return EXIT_ABANDONED
            # However the slice ended, what is graded is kept; a lost lease ends the wait.
            with suppress(RunFailed):
                await self._sink.flush()
            if self._sink.lease_lost:
                return EXIT_LEASE_LOST
            await self._account_for_lost_calls()
        except LeaseLost:
            return EXIT_LEASE_LOST
        finally:
            await self._sink.close()
            lost = self._ledger.lost or self._ledger.spent != Spending()
            self._ledger.close(settled=self._accounted or not lost)
        self._reporter.end(outcome)
        return EXIT_ENDED

    async def _outcome(self) -> Outcome:
        part = self._job.slice
        rows = RowStream(self._run, first=part.index, step=part.count)
        rows.open()
        fetching = asyncio.create_task(self._fetch())
        stopping = asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait({fetching, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not fetching.done():
                return Outcome("stopped", stop_reason="user")
            done = fetching.result()
        except RunFailed as error:
            self._sink.log("error", "run", error.message, {"kind": error.kind})
            return Outcome(
                "failed", RunError(kind=error.kind, message=error.message, hint=error.hint)
            )
        finally:
            stopping.cancel()
            fetching.cancel()
            await asyncio.gather(stopping, fetching, return_exceptions=True)
        return await evaluate(
            self._plan(),
            rows,
            done,
            self._sink,
            self._stop,
            parts=real_parts(on_upstream=self._ledger.sent),
            on_progress=self._reporter.progress,
            budget=self._budget,
            drain=self._drain,
        )

    def _acknowledged(self, records: Sequence[SampleRecord], spent: Spending | None) -> None:
        self._budget.acknowledged(spent, records)
        self._reporter.acknowledged(len(records))
        log_records(self._spec.run_id, records)
        # The policy's calls of a sample that was graded again are not of this life.
        calls = (
            call
            for record in records
            for call in record.calls
            if not call.scripted and not (self._spec.regrade and call.route == "policy")
        )
        self._ledger.recorded(sum(call.upstream_requests for call in calls))

    async def _account_for_lost_calls(self) -> None:
        """Tell of the calls of lost tries before the end; what fails here the worker tells."""
        lost, spent = self._ledger.lost, self._ledger.spent
        if lost or spent != Spending():
            report = LostCalls(shard_id=self._ledger.shard_id, calls=lost, spent=spent)
            with suppress(RunnerError):
                await self._client.lost_calls(self._spec.run_id, report)
                self._accounted = True

    async def _fetch(self) -> DoneSet:
        """The code, and the samples that are done."""
        await self._sink.stage("cloning")
        archive = self._work_dir / "code.tar"
        done, _ = await asyncio.gather(
            self._done(), self._download("code", archive, "code_unavailable")
        )
        left_out = await asyncio.to_thread(unpack, archive, self._work_dir / "code")
        archive.unlink(missing_ok=True)
        if left_out:
            self._sink.log(
                "warning",
                "cloning",
                f"{len(left_out)} entries of the repository were left out.",
                {"entries": left_out[:20]},
            )
        return done

    async def _done(self) -> DoneSet:
        async def read() -> DoneSet:
            done = DoneSet(self._spec.n)
            async for row_index, run_index in self._run.done():
                if self._job.slice.holds(row_index):
                    done.add(row_index, run_index)
            return done

        return await until_answered(read)

    async def _download(self, what: str, target: Path, kind: str) -> None:
        """Fetch a stream whole. One that keeps breaking is broken at its source."""
        for attempt in range(BROKEN_DOWNLOADS):
            try:
                await self._run.download(what, target)
            except Refused as error:
                raise RunFailed(kind, error.message, hint=error.hint) from error
            except Unavailable as error:
                if attempt == BROKEN_DOWNLOADS - 1:
                    raise RunFailed(
                        kind, f"The {what} of the run could not be fetched: {error}"
                    ) from error
                await asyncio.sleep(min(RETRY_FIRST_S * 2**attempt, RETRY_MOST_S))
            else:
                return

    def _replay(self, replayed: ReplayedRun) -> ReplaySource:
        async def fetch() -> Iterable[KeptSample]:
            path = self._work_dir / f"replay-{replayed.run_id}.ndjson"
            await self._download(f"replays/{replayed.run_id}", path, "replay_unavailable")
            return kept_samples(path)

        return ReplaySource(replayed.name, replayed.run_name, replayed.model_path, fetch)

    def _plan(self) -> EvaluationPlan:
        spec = self._spec
        return EvaluationPlan(
            run_id=spec.run_id,
            name=spec.name,
            code_dir=self._work_dir / "code",
            work_dir=self._work_dir / "run",
            cache_dir=Path(self._job.cache_dir),
            rollout=spec.rollout,
            entrypoint=spec.entrypoint,
            model_path=spec.model_path,
            n=spec.n,
            batch_size=spec.batch_size,
            pass_threshold=spec.pass_threshold,
            agent_workflow_timeout_s=spec.agent_workflow_timeout_s,
            grader_timeout_s=spec.grader_timeout_s,
            selected_rows=spec.selected_rows,
            advanced=AdvancedSection.model_validate(spec.advanced),
            env=spec.env,
            secrets=spec.secrets,
            endpoints=tuple(spec.endpoints),
            response_store=HttpResponseStore(self._run),
            replays=tuple(self._replay(replayed) for replayed in spec.replays),
            private_dirs=tuple(Path(path) for path in self._job.private_dirs),
            slice=self._job.slice,
            has_place=self._job.has_place,
            checked=self._job.checked,
            stored=RemoteSamples(self._run, on_lease_lost=self._stop.set) if spec.regrade else None,
        )


def main() -> None:
    """``WORKER_PID`` is the only argument."""
    serve(int(sys.argv[1]))


def serve(worker_pid: int) -> NoReturn:
    """Wait for a job, execute it, exit with what became of it."""
    die_with_my_parent(worker_pid)
    adopt_orphans()
    shield_memory()
    collect_seldom()
    grow_descriptor_table()
    channel = _take_channel()
    job = read_job(channel)
    if job is None:
        os._exit(EXIT_ABANDONED)
    wall_clock.follow(job.platform_ahead_s)
    work_dir = Path(job.work_dir)
    (work_dir / "run").mkdir(parents=True, exist_ok=True)
    log_stream = os.fdopen(os.dup(2), "w", encoding="utf-8", errors="replace")
    _print_to(log_of_slice(work_dir.parent, job.slice))
    logging.basicConfig(level=logging.WARNING)
    with shard_log(log_stream, Redactor(_secrets(job)).text):
        try:
            status = uvloop.run(_execute(job, channel))
        except BaseException:
            traceback.print_exc()
            status = 1
    # Threads of a hung download or a left-over executor must not keep the process.
    sys.stderr.flush()
    os._exit(status)


async def _execute(job: ShardJob, channel: int) -> int:
    os.set_blocking(channel, False)
    reporter = Reporter(channel)
    reporter.start()
    client = RunnerClient(job.url, job.token)
    shard = Shard(job, client, reporter)
    beside = [asyncio.create_task(_listen(shard, channel)), asyncio.create_task(collect_zombies())]
    try:
        return await shard.execute()
    finally:
        for task in beside:
            task.cancel()
        await client.close()


async def _listen(shard: Shard, channel: int) -> None:
    """Obey the worker's words; without a worker there is nothing to live for."""
    # The descriptor stays the reporter's: it is written to directly.
    reader, _ = await asyncio.open_unix_connection(sock=socket.socket(fileno=os.dup(channel)))
    while line := await reader.readline():
        if line == STOP:
            shard.stop()
        elif line == DRAIN:
            shard.drain()
        elif line == ABANDON:
            shard.abandon()
    os._exit(EXIT_ABANDONED)


def _take_channel() -> int:
    """The channel, moved away from stdin: no child may inherit it."""
    channel = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return channel


def _secrets(job: ShardJob) -> list[str]:
    spec = job.claim.spec
    keys = [endpoint.api_key for endpoint in spec.endpoints if endpoint.api_key]
    return [job.token, *spec.secrets.values(), *keys]


def _print_to(path: Path) -> None:
    """From here on, file descriptors 1 and 2 are the log file."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)


if __name__ == "__main__":
    main()
