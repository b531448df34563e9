"""Makes the record of a sample: verdict, numbers of its model calls, trajectory, artifacts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from osmosis.evaluation.classification import Classified, is_finite_number
from osmosis.evaluation.plan import Sink
from osmosis.evaluation.redaction import Redactor
from osmosis.evaluation.regrading import regraded_trajectory, with_the_past_of
from osmosis.evaluation.rollout_files import (
    Leftover,
    has_artifacts,
    iter_artifacts,
    read_trajectory,
    remove_rollout_dir,
)
from osmosis.evaluation.sample import Sample
from osmosis.evaluation.strict_json import clean_text, loads
from osmosis.evaluation.trajectory_metrics import merge_call_metrics
from osmosis.evaluation.wall_clock import wall_clock
from osmosis.rollout.trajectory import build_trajectory, messages_of
from osmosis.wire.samples import ModelCall, SampleRecord

MAX_MESSAGE_CHARS = 4000
MAX_METRICS = 100
MAX_METRIC_NAME_CHARS = 200
MAX_DISCARDED = 2000
"""Directories of finished rollouts, small ones, that may wait for their removal."""
UNBILLED_STATUSES = frozenset(range(400, 600)) - {408, 499, 504}
"""Error answers cost nothing; a call that somebody hung up on may have been billed."""


@dataclass(slots=True)
class TryFacts:
    """What is known of one try once it is over. ``started_at`` is unix time; ``began`` is the
    same moment for :func:`time.monotonic`."""

    rollout_id: str
    directory: Path
    started_at: float = field(default_factory=wall_clock.now)
    began: float = field(default_factory=time.monotonic)
    duration_s: float = 0.0
    calls: Sequence[ModelCall] = ()
    kept_calls: str | None = None
    sample: dict[str, Any] | None = None
    trajectory: str | None = None
    workflow_metrics: dict[str, Any] | None = None
    stored: SampleRecord | None = None
    """The sample that was graded again, in place of a run of the workflow."""
    output: str | None = None
    queued_s: float = 0.0

    def end(self) -> None:
        """The try is over now."""
        self.duration_s = time.monotonic() - self.began

    def has_artifacts(self) -> bool:
        """Whether user code left files to be kept."""
        return has_artifacts(self.directory)


class Recorder:
    """Turns finished tries into records and sends them, with their artifacts, to the sink."""

    def __init__(
        self, sink: Sink, redactor: Redactor, outbox: Path, model_name: str, *, export_s: float
    ) -> None:
        self._sink = sink
        self._redactor = redactor
        self._outbox = outbox
        self._model_name = model_name
        self._export_s = export_s
        self._discarded: list[Path] = []

    async def record(self, sample: Sample, verdict: Classified, facts: TryFacts) -> None:
        """Send the terminal record of ``sample``; its rollout's directory is gone afterwards."""
        trajectory = self._trajectory(sample, facts)
        messages = self._messages(facts, trajectory)
        artifacts: list[str] = []
        if facts.has_artifacts():
            artifacts = await self._send_artifacts(facts)
        record = self._record(sample, verdict, facts, trajectory, artifacts)
        record.messages = messages
        await self._sink.record(with_the_past_of(facts.stored, record))
        if artifacts:
            await asyncio.to_thread(remove_rollout_dir, facts.directory)
        else:
            await self.discard(facts.directory)

    async def discard(self, rollout_dir: Path) -> None:
        """Remove, sooner or later, what a rollout left on disk.

        Removing a directory takes milliseconds on a busy disk, so it waits until many have come
        together; what is left at the end goes with the run's scratch directory.
        """
        self._discarded.append(rollout_dir)
        if len(self._discarded) >= MAX_DISCARDED:
            discarded, self._discarded = self._discarded, []
            await asyncio.to_thread(_remove_all, discarded)

    def _record(
        self,
        sample: Sample,
        verdict: Classified,
        facts: TryFacts,
        trajectory: dict[str, Any] | None,
        artifacts: list[str],
    ) -> SampleRecord:
        policy = [call for call in facts.calls if call.route == "policy"]
        judge = [call for call in facts.calls if call.route == "judge"]
        recalled = [call for call in facts.calls if call.cached or call.replayed]
        prompt, completion = _sum(policy, "prompt_tokens"), _sum(policy, "completion_tokens")
        tokens = _total(prompt, completion)
        if not policy and trajectory is not None:
            prompt, completion, tokens = _totals_of(trajectory)
        message = verdict.error_message
        if message is not None:
            message = clean_text(self._redactor.text(message))[:MAX_MESSAGE_CHARS]
        return SampleRecord(
            row_index=sample.row.row_index,
            run_index=sample.run_index,
            source_row=sample.row.source_row,
            rollout_id=facts.rollout_id,
            status=verdict.status,
            reward=verdict.reward,
            error_type=verdict.error_type,
            error_message=message,
            error_kind=verdict.error_kind,
            tokens=tokens,
            prompt_tokens=prompt,
            completion_tokens=completion,
            cost_usd=_cost(policy),
            judge_tokens=_total(_sum(judge, "prompt_tokens"), _sum(judge, "completion_tokens")),
            judge_cost_usd=_cost(judge),
            duration_ms=facts.duration_s * 1000,
            queue_ms=(facts.queued_s + sum(call.queue_s for call in facts.calls)) * 1000,
            started_at=facts.started_at,
            finished_at=facts.started_at + facts.duration_s,
            tries=max(1, sample.tries),
            interruptions=sample.interruptions,
            interrupted_tokens=sample.interrupted_tokens or None,
            interrupted_cost_usd=sample.interrupted_cost_usd or None,
            metrics=self._metrics(facts.sample),
            saved_calls=len(recalled),
            saved_usd=_saved(recalled),
            calls=list(facts.calls),
            kept_calls=facts.kept_calls,
            trajectory=trajectory,
            output=clean_text(facts.output) if facts.output else None,
            artifacts=artifacts,
        )

    def _metrics(self, sample: dict[str, Any] | None) -> dict[str, float]:
        found = (sample or {}).get("metrics")
        if not isinstance(found, dict):
            return {}
        numbers = (
            (clean_text(self._redactor.text(name))[:MAX_METRIC_NAME_CHARS], float(value))
            for name, value in found.items()
            if is_finite_number(value)
        )
        return {name: value for (name, value), _ in zip(numbers, range(MAX_METRICS), strict=False)}

    def _trajectory(self, sample: Sample, facts: TryFacts) -> dict[str, Any] | None:
        """The trajectory the rollout saved, else one made of its messages; redacted."""
        if facts.stored is not None:
            graded = regraded_trajectory(
                facts.stored, rollout_id=facts.rollout_id, sample=facts.sample
            )
            return None if graded is None else self._redacted(graded)
        if facts.sample is None or facts.trajectory == "none":
            return None
        trajectory = None
        if facts.trajectory != "messages":
            trajectory = _saved_trajectory(facts.directory, facts.rollout_id)
        if trajectory is None:
            trajectory = self._built_trajectory(sample, facts)
        if trajectory is None:
            return None
        merge_call_metrics(trajectory, facts.calls)
        if facts.workflow_metrics:
            extra = trajectory.setdefault("extra", {}).setdefault("osmosis", {})
            extra["workflow_metrics"] = facts.workflow_metrics
        return self._redacted(trajectory)

    def _messages(
        self, facts: TryFacts, trajectory: dict[str, Any] | None
    ) -> list[dict[str, Any]] | None:
        """What the workflow returned, where the trajectory does not tell it as it was."""
        if facts.stored is not None:
            return facts.stored.messages
        messages = (facts.sample or {}).get("messages")
        if trajectory is None or not isinstance(messages, list):
            return None
        if not all(isinstance(message, dict) for message in messages):
            return None
        if messages_of(trajectory) == messages:
            return None
        return self._redacted({"messages": messages})["messages"]

    def _redacted(self, document: dict[str, Any]) -> dict[str, Any]:
        """The document without secret values; one look at its text tells that there are none."""
        text = orjson.dumps(document).decode()
        return document if self._redactor.text(text) == text else self._redactor.json(document)

    def _built_trajectory(self, sample: Sample, facts: TryFacts) -> dict[str, Any] | None:
        given = facts.sample or {}
        messages = given.get("messages")
        if not isinstance(messages, list) or not messages:
            return None
        try:
            return build_trajectory(
                messages,
                rollout_id=facts.rollout_id,
                label=sample.row.label,
                reward=given.get("reward"),
                metrics=given.get("metrics"),
                extra_fields=given.get("extra_fields"),
                request_metadata=sample.row.metadata,
                request_extra_fields=request_extra_fields(sample),
                model_name=self._model_name,
            )
        except (ValueError, TypeError, KeyError) as error:
            self._sink.log(
                "warning",
                "results",
                f"No trajectory for {sample}: its messages are unusable.",
                {"rollout_id": facts.rollout_id, "error": self._redactor.text(str(error))[:500]},
            )
            return None

    async def _send_artifacts(self, facts: TryFacts) -> list[str]:
        """Copy the artifacts out of user code's reach, redacted, and send the copies."""
        rollout_id = facts.rollout_id
        outbox = self._outbox / rollout_id
        leftover = Leftover()
        sent: list[str] = []
        try:
            async with asyncio.timeout(self._export_s):
                paths = await asyncio.to_thread(
                    self._copy_artifacts, facts.directory, outbox, leftover
                )
                for path in paths:
                    await self._sink.artifact(rollout_id, path, outbox / path)
                    sent.append(path)
        except TimeoutError:
            leftover.reasons.append(
                f"the export did not end within {self._export_s:g} s; {len(sent)} files are kept"
            )
        finally:
            await asyncio.to_thread(remove_rollout_dir, outbox)
        if leftover.reasons:
            self._sink.log(
                "warning",
                "results",
                "Some artifacts were left out.",
                {
                    "rollout_id": rollout_id,
                    "reasons": [self._redactor.text(reason) for reason in leftover.reasons[:20]],
                },
            )
        return sent

    def _copy_artifacts(self, rollout_dir: Path, outbox: Path, leftover: Leftover) -> list[str]:
        paths: list[str] = []
        for artifact in iter_artifacts(rollout_dir, leftover):
            if self._redactor.text(artifact.path) != artifact.path:
                leftover.reasons.append(f"{artifact.path}: the name holds the value of a secret")
                continue
            target = outbox / artifact.path
            target.parent.mkdir(parents=True, exist_ok=True)
            # surrogateescape keeps bytes that are no UTF-8 exactly as they are.
            text = artifact.content.decode("utf-8", "surrogateescape")
            target.write_bytes(self._redactor.text(text).encode("utf-8", "surrogateescape"))
            paths.append(artifact.path)
        return paths


def request_extra_fields(sample: Sample) -> dict[str, int]:
    """What travels as ``extra_fields`` of a rollout and names its place in the results."""
    return {"row_index": sample.row.row_index, "run_index": sample.run_index}


def _saved_trajectory(rollout_dir: Path, rollout_id: str) -> dict[str, Any] | None:
    raw = read_trajectory(rollout_dir)
    if raw is None:
        return None
    try:
        parsed = loads(raw)
    except (ValueError, RecursionError):
        return None
    if not isinstance(parsed, dict) or not isinstance(parsed.get("steps"), list):
        return None
    return parsed if _identity(parsed) == rollout_id else None


def _remove_all(directories: list[Path]) -> None:
    for directory in directories:
        remove_rollout_dir(directory)


def _identity(trajectory: dict[str, Any]) -> str | None:
    """Whose trajectory it is: rollout-protocol.md §8, "Trajectory identity"."""
    extra = trajectory.get("extra")
    ours = extra.get("osmosis") if isinstance(extra, dict) else None
    if isinstance(ours, dict) and isinstance(ours.get("rollout_id"), str):
        return ours["rollout_id"]
    if isinstance(trajectory.get("session_id"), str):
        return trajectory["session_id"]
    name = trajectory.get("trajectory_id")
    return name.partition("/")[0] if isinstance(name, str) else None


def _sum(calls: Sequence[ModelCall], name: str) -> int | None:
    known = [value for call in calls if (value := getattr(call, name)) is not None]
    return sum(known) if known else None


def _total(prompt: int | None, completion: int | None) -> int | None:
    if prompt is None and completion is None:
        return None
    return (prompt or 0) + (completion or 0)


def _cost(calls: Sequence[ModelCall]) -> float | None:
    """The sum, or None as soon as the cost of one billed call is unknown."""
    costs = [
        0.0 if call.cost_usd is None and _is_unbilled(call) else call.cost_usd for call in calls
    ]
    known = [cost for cost in costs if cost is not None]
    return sum(known) if calls and len(known) == len(costs) else None


def _saved(recalled: Sequence[ModelCall]) -> float | None:
    """What the calls that no model answered would have cost; None when some price is unknown."""
    known = [call.saved_usd for call in recalled if call.saved_usd is not None]
    return sum(known) if recalled and len(known) == len(recalled) else None


def _is_unbilled(call: ModelCall) -> bool:
    return call.http_status in UNBILLED_STATUSES and not call.prompt_tokens


def _totals_of(trajectory: dict[str, Any]) -> tuple[int | None, int | None, int | None]:
    totals = trajectory.get("final_metrics")
    if not isinstance(totals, dict):
        return None, None, None
    prompt, completion = (
        value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
        for value in (totals.get("total_prompt_tokens"), totals.get("total_completion_tokens"))
    )
    return prompt, completion, _total(prompt, completion)
