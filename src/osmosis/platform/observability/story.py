"""What a trace tells of: a run that ended, a sample that was recorded. Small enough to queue."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson

from osmosis.platform.db import models
from osmosis.wire.samples import SampleRecord

CONTENT_CHARS = 32_768
"""How much of a conversation each of the two attributes with message contents may hold."""


class Run(NamedTuple):
    """The identity of one generation of a run."""

    id: str
    name: str
    generation: int
    rollout: str
    model_path: str


class EndedRun(NamedTuple):
    run: Run
    dataset: str
    status: str
    stop_reason: str | None
    error_kind: str | None
    graded: int
    failed: int
    skipped: int
    cost_usd: float
    started_at: float
    ended_at: float

    @classmethod
    def of(cls, run: models.Run) -> EndedRun:
        ended_at = run.completed_at or run.updated_at
        return cls(
            run=Run(run.id, run.name, run.generation, run.rollout, run.model_path),
            dataset=run.dataset_name,
            status=run.status,
            stop_reason=run.stop_reason,
            error_kind=run.error.get("kind") if run.error else None,
            graded=run.graded_count,
            failed=run.failed_count,
            skipped=run.skipped_count,
            cost_usd=run.cost_sum,
            started_at=(run.started_at or ended_at).timestamp(),
            ended_at=ended_at.timestamp(),
        )


class TracedSample(NamedTuple):
    """A record without its bulk; message contents as JSON only where they were asked for."""

    run: Run
    record: SampleRecord
    error_message: str | None = None
    input_messages: str | None = None
    output_messages: str | None = None

    @classmethod
    def of(cls, run: Run, record: SampleRecord, *, content: bool) -> TracedSample:
        light = record.model_copy(update={"trajectory": None, "output": None})
        if not content:
            return cls(run, light)
        steps: list[Any] = (record.trajectory or {}).get("steps") or []
        given = [step for step in steps if isinstance(step, dict)]
        return cls(
            run,
            light,
            error_message=record.error_message,
            input_messages=_messages([s for s in given if s.get("source") != "agent"]),
            output_messages=_messages([s for s in given if s.get("source") == "agent"]),
        )


def _messages(steps: list[Mapping[str, Any]]) -> str | None:
    """The conventions' JSON of messages; a long list ends early."""
    parts: list[bytes] = []
    size = 0
    for step in steps:
        role = "assistant" if step.get("source") == "agent" else str(step.get("source"))
        content = step.get("message")
        text = content if isinstance(content, str) else orjson.dumps(content).decode()
        message = {"role": role, "parts": [{"type": "text", "content": text[:CONTENT_CHARS]}]}
        part = orjson.dumps(message)
        size += len(part)
        if parts and size > CONTENT_CHARS:
            break
        parts.append(part)
    return f"[{b','.join(parts).decode()}]" if parts else None
