"""Taking in the records of samples: the hot path of the platform.

The order makes a result durable before it is acknowledged, and counted once: the bulky part goes
to the run's segments and is fsynced; then one transaction inserts the rows that are new and moves
the run's counters by exactly those; then comes the answer. A replay finds its rows already there
and changes nothing.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import ValidationError
from sqlalchemy import Connection, bindparam, update
from sqlalchemy.dialects import postgresql, sqlite

from osmosis.platform.db.base import utc_now
from osmosis.platform.db.models import Run, Sample
from osmosis.platform.errors import is_out_of_space
from osmosis.platform.evals.lifecycle import run_topic
from osmosis.platform.evals.tallies import Counted, count_in
from osmosis.platform.observability.story import Run as TracedRun
from osmosis.platform.platform import Platform
from osmosis.platform.runners.leases import LeasedRow, LeaseLost, leased_row, leased_run
from osmosis.platform.runners.regrading import mark, take_out
from osmosis.platform.runners.writers import SegmentWriters
from osmosis.platform.segments import Place, SegmentWriter, encode_entry
from osmosis.wire.errors import Issue, OsmosisError, ValidationFailed
from osmosis.wire.runner import RecordsAck
from osmosis.wire.samples import SampleRecord
from osmosis.wire.spending import Spending

MAX_ERROR_CHARS = 32_768
MAX_LATENCIES = 200

Key = tuple[int, int]

COUNTERS = (
    "sample_count",
    "success_count",
    "failed_count",
    "skipped_count",
    "graded_count",
    "passed_count",
    "reward_sum",
    "tokens_sum",
    "judge_tokens_sum",
    "cost_sum",
    "cost_unknown_count",
    "saved_calls_count",
    "saved_sum",
    "saved_unknown_count",
    "kept_count",
)

MOVED = (*COUNTERS, "spent_tokens", "spent_usd")
"""What a batch adds to. A retry counts the counters anew; what was spent stays spent."""

_INSERTS = {
    name: dialect_insert(Sample)
    .on_conflict_do_nothing()
    .returning(Sample.row_index, Sample.run_index)
    for name, dialect_insert in (("sqlite", sqlite.insert), ("postgresql", postgresql.insert))
}
_COUNT = (
    update(Run)
    .where(Run.id == bindparam("counted_run"))
    .values(claims=1, **{name: getattr(Run, name) + bindparam(name) for name in MOVED})
)


class StorageFailed(OsmosisError):
    """The disk refused the records; the worker keeps them and tries again."""

    code, http_status = "STORAGE_FAILED", 507

    def __init__(self, reason: str | None) -> None:
        super().__init__(
            f"The server cannot write the run's results: {reason}.",
            hint="Free some space below the server's data directory; the run goes on then.",
        )


async def take_records(
    platform: Platform,
    writers: SegmentWriters,
    run_id: str,
    lease_token: str | None,
    body: bytes,
) -> RecordsAck:
    """Store a batch (NDJSON of :class:`SampleRecord`); returns once it is committed."""
    records = parse_records(body)
    fresh = {(record.row_index, record.run_index): record for record in records}
    if not writers.knows(run_id, lease_token):
        # The first batch of a lease: nothing is written for a worker that lost the run.
        async with platform.db.read() as session:
            await leased_run(session, run_id, lease_token)
        writers.remember(run_id, lease_token)
    began = time.perf_counter()
    try:
        rows = await asyncio.to_thread(_store, writers.of(run_id), run_id, [*fresh.values()])
    except OSError as error:
        if is_out_of_space(error):
            platform.storage.failed()
        raise StorageFailed(error.strerror) from error
    try:
        new, run = await platform.db.transact(
            lambda connection: _insert(connection, run_id, lease_token, fresh, rows)
        )
    except BaseException as error:
        # What was appended is referred to by nothing: a repeat must not pile it up.
        await asyncio.to_thread(writers.of(run_id).withdraw, rows_places(rows))
        if isinstance(error, LeaseLost):
            writers.close(run_id)
        if is_out_of_space(error):
            platform.storage.failed()
            raise StorageFailed("the disk of its database is full") from error
        raise
    platform.storage.worked()
    platform.metrics.commit.observe(time.perf_counter() - began)
    platform.metrics.recorded(new)
    story = TracedRun(run_id, run.name, run.generation, run.rollout, run.model_path)
    platform.traces.recorded(story, new)
    duplicates = len(records) - len(new)
    platform.metrics.duplicates.inc(duplicates)
    platform.events.publish(run_topic(run_id))
    stop = run.stop_requested_at is not None
    used = _used(new, graded_again=run.regrade is not None)
    spent = Spending(tokens=run.spent_tokens, usd=run.spent_usd) + used
    return RecordsAck(accepted=len(new), duplicates=duplicates, stop=stop, spent=spent)


def rows_places(rows: Iterable[Mapping[str, Any]]) -> list[Place]:
    """Where the bulky parts of rows to insert lie."""
    return [
        Place(row["segment"], row["offset"], row["length"])
        for row in rows
        if row["segment"] is not None
    ]


def parse_records(body: bytes) -> list[SampleRecord]:
    """The records of an NDJSON body; names the line that is not one."""
    records: list[SampleRecord] = []
    for number, line in enumerate(body.split(b"\n"), start=1):
        if not line or line.isspace():
            continue
        try:
            records.append(SampleRecord.model_validate_json(line))
        except ValidationError as error:
            problems = error.errors(include_url=False, include_input=False, include_context=False)
            issues = [
                Issue(key=f"line {number}: {'.'.join(map(str, p['loc']))}", message=p["msg"])
                for p in problems
            ]
            raise ValidationFailed(
                f"Line {number} of the batch is not a record: {issues[0].message}.", issues=issues
            ) from None
    return records


def check_range(run: LeasedRow, records: Iterable[SampleRecord]) -> None:
    """Refuse records of samples that the run does not have."""
    for record in records:
        if record.row_index >= run.selected_rows or record.run_index >= run.n:
            raise ValidationFailed(
                f"The run has {run.selected_rows} rows of {run.n} samples each; there is no "
                f"sample (row {record.row_index}, run {record.run_index})."
            )


def _store(
    writer: SegmentWriter, run_id: str, records: Sequence[SampleRecord]
) -> list[dict[str, Any]]:
    """Write the bulky parts to disk; returns the rows to insert. Runs in a thread."""
    now = utc_now()
    rows: list[dict[str, Any]] = []
    entries: list[bytes] = []
    bulky: list[dict[str, Any]] = []
    for record in records:
        row = sample_row(run_id, record)
        row["created_at"] = now
        kept = _kept_calls(record)
        if record.trajectory is not None or record.calls or record.output or kept:
            calls = [call.model_dump(exclude_none=True) for call in record.calls]
            entry = encode_entry(
                record.trajectory,
                calls=calls,
                output=record.output,
                kept_calls=kept,
                messages=record.messages or (),
            )
            entries.append(entry.data)
            bulky.append(row)
            if entry.document_bytes is not None:
                row["record"]["trajectory_bytes"] = entry.document_bytes
        rows.append(row)
    for row, place in zip(bulky, writer.append(entries), strict=True):
        row["segment"], row["offset"], row["length"] = place
    return rows


def _kept_calls(record: SampleRecord) -> bytes | None:
    try:
        return base64.b64decode(record.kept_calls) if record.kept_calls else None
    except binascii.Error as error:
        raise ValidationFailed(
            f"The kept calls of row {record.row_index}, run {record.run_index} are not base64: "
            f"{error}."
        ) from None


def sample_row(run_id: str, record: SampleRecord) -> dict[str, Any]:
    """The row of a record, without its place in the segments and without its verdict."""
    message = record.error_message
    more: dict[str, Any] = {
        "error_message": message[:MAX_ERROR_CHARS] if message else None,
        "error_kind": record.error_kind,
        "prompt_tokens": record.prompt_tokens,
        "completion_tokens": record.completion_tokens,
        "judge_tokens": record.judge_tokens,
        "judge_cost_usd": record.judge_cost_usd,
        "queue_ms": record.queue_ms,
        "started_at": record.started_at,
        "finished_at": record.finished_at,
        "tries": record.tries,
        "interruptions": record.interruptions or None,
        "interrupted_tokens": record.interrupted_tokens,
        "interrupted_cost_usd": record.interrupted_cost_usd,
        "metrics": record.metrics or None,
        "calls": len(record.calls),
        "latencies_ms": latencies_ms(record) or None,
        "artifacts": record.artifacts or None,
        "has_output": True if record.output else None,
        "cost_unknown": True if has_unknown_cost(record) else None,
        "saved_calls": record.saved_calls or None,
        "saved_usd": record.saved_usd,
        "saved_unknown": True if has_unknown_saving(record) else None,
        "kept_calls": True if record.kept_calls else None,
    }
    return {
        "run_id": run_id,
        "row_index": record.row_index,
        "run_index": record.run_index,
        "source_row": record.source_row,
        "rollout_id": record.rollout_id,
        "status": record.status,
        "reward": record.reward,
        "error_type": record.error_type,
        "tokens": record.tokens,
        "cost_usd": record.cost_usd,
        "duration_ms": record.duration_ms,
        "segment": None,
        "offset": None,
        "length": None,
        "record": {key: value for key, value in more.items() if value is not None},
    }


def latencies_ms(record: SampleRecord) -> list[float]:
    """How long each answered call of the policy took, of very many the first ones."""
    taken = [
        round(call.latency_s * 1000, 1)
        for call in record.calls
        if call.route == "policy" and call.http_status < 400
    ]
    return taken[:MAX_LATENCIES]


def _insert(
    connection: Connection,
    run_id: str,
    lease_token: str | None,
    fresh: dict[Key, SampleRecord],
    rows: list[dict[str, Any]],
) -> tuple[list[SampleRecord], LeasedRow]:
    """Insert what is new and count it; returns that, and the run.

    The row of the run is locked first, so batches of one run follow each other; the unique index
    then says which samples are new.
    """
    run = leased_row(connection, run_id, lease_token)
    check_range(run, fresh.values())
    new: list[SampleRecord] = []
    for row in rows:
        row["passed"] = has_passed(row["status"], row["reward"], run.pass_threshold)
    if rows and run.regrade is not None:
        mark(rows, run)
        replaced = take_out(connection, run_id, run, [*fresh])
        taken = {name: -value for name, value in replaced.items()}
        unspent = {"spent_tokens": 0, "spent_usd": 0.0}
        connection.execute(_COUNT, {"counted_run": run_id, **taken, **unspent})
    if rows:
        returned = connection.execute(_INSERTS[connection.dialect.name], rows)
        new = [fresh[row_index, run_index] for row_index, run_index in returned]
    if new:
        deltas = count_deltas(new, run.pass_threshold)
        used = _used(new, graded_again=run.regrade is not None)
        spending = {"spent_tokens": used.tokens, "spent_usd": used.usd}
        connection.execute(_COUNT, {"counted_run": run_id, **deltas, **spending})
    if new and run.regrade is None:
        inserted = {(record.row_index, record.run_index) for record in new}
        counted = [Counted.of(row) for row in rows]
        count_in(
            connection,
            run_id,
            [sample for sample in counted if (sample.row_index, sample.run_index) in inserted],
            first=not run.sample_count,
            pass_threshold=run.pass_threshold,
            n=run.n,
        )
    return new, run


def _used(records: Iterable[SampleRecord], *, graded_again: bool) -> Spending:
    """What the records' calls used; those of the policy, under a new grade, were paid before."""
    return Spending.of_calls(
        call
        for record in records
        for call in record.calls
        if not (graded_again and call.route == "policy")
    )


def count_deltas(records: Sequence[SampleRecord], pass_threshold: float) -> dict[str, float]:
    """By how much these samples move each counter of the run."""
    deltas: dict[str, float] = dict.fromkeys(COUNTERS, 0)
    deltas["sample_count"] = len(records)
    for record in records:
        deltas[f"{record.status}_count"] += 1
        if record.reward is not None and record.status != "skipped":
            deltas["graded_count"] += 1
            deltas["reward_sum"] += record.reward
        deltas["passed_count"] += bool(has_passed(record.status, record.reward, pass_threshold))
        deltas["tokens_sum"] += record.tokens or 0
        deltas["judge_tokens_sum"] += record.judge_tokens or 0
        deltas["cost_sum"] += (record.cost_usd or 0.0) + (record.judge_cost_usd or 0.0)
        deltas["cost_unknown_count"] += has_unknown_cost(record)
        deltas["saved_calls_count"] += record.saved_calls
        deltas["saved_sum"] += record.saved_usd or 0.0
        deltas["saved_unknown_count"] += has_unknown_saving(record)
        deltas["kept_count"] += record.kept_calls is not None
    return deltas


def has_passed(status: str, reward: float | None, pass_threshold: float) -> bool | None:
    """Whether a sample passed; None for a skipped one, which has no part in it."""
    if status == "skipped":
        return None
    return reward is not None and reward >= pass_threshold


def has_unknown_saving(record: SampleRecord) -> bool:
    """Whether a call was answered without a model, and nobody knows what it would have cost."""
    return record.saved_calls > 0 and record.saved_usd is None


def has_unknown_cost(record: SampleRecord) -> bool:
    """Whether some model call of the sample has no known price. No call at all costs nothing."""
    routes = {call.route for call in record.calls if call.http_status < 400}
    return ("policy" in routes and record.cost_usd is None) or (
        "judge" in routes and record.judge_cost_usd is None
    )
