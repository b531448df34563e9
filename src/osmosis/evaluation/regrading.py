"""Grading stored samples again: the workflow does not run, and the policy is not called.

What the sample was (its conversation, its tokens, cost and time, its artifacts) stays as it is;
what the grader said of it (reward, metrics, the judge's calls) is replaced.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from osmosis.evaluation.parts import RolloutPart
from osmosis.evaluation.plan import StoredSamples
from osmosis.evaluation.rollout_files import ARTIFACTS_NAME
from osmosis.evaluation.sample import Sample
from osmosis.rollout.trajectory import messages_of
from osmosis.wire.errors import RunFailed
from osmosis.wire.samples import ModelCall, SampleRecord


def require_regrade(process: RolloutPart, sdk: str | None) -> None:
    """RunFailed unless the rollout's server can grade without running the workflow."""
    if process.health.get("regrade") is True:
        return
    raise RunFailed(
        "regrade_unsupported",
        f"The rollout's SDK ({sdk or 'unknown'}) cannot grade a stored sample without running its "
        "workflow. The rewards are as they were.",
        hint="Let the rollout depend on osmosis-platform with a LocalBackend, push, and re-grade "
        "with --branch; or run the samples anew: submit the config again, with "
        'model_path = "replay/RUN" to answer from the stored calls.',
    )


async def fetch_stored(
    stored: StoredSamples, sample: Sample, rollout_directory: Path
) -> SampleRecord:
    """The sample's record, with its artifacts where the grader looks for them."""
    record = await stored.sample(*sample.key)
    for path in record.artifacts:
        target = rollout_directory / ARTIFACTS_NAME / path
        target.parent.mkdir(parents=True, exist_ok=True)
        await stored.artifact(record.rollout_id, path, target)
    return record


def sample_to_grade(record: SampleRecord) -> dict[str, Any]:
    """The stored sample as the rollout's server takes it."""
    about = _about(record.trajectory or {})
    messages = record.messages
    return {
        "messages": messages_of(record.trajectory or {}) if messages is None else messages,
        # Not those of the grader: what the new grading no longer sets must not live on.
        "metrics": about.get("workflow_metrics") or {},
        "extra_fields": about.get("sample_extra_fields") or {},
    }


def policy_calls(record: SampleRecord) -> list[ModelCall]:
    """The calls that made the sample what it is."""
    return [call for call in record.calls if call.route == "policy"]


def with_the_past_of(stored: SampleRecord | None, record: SampleRecord) -> SampleRecord:
    """The record of a new grading, with the time and tries of the execution that it is of."""
    if stored is None:
        return record
    kept = {name: getattr(stored, name) for name in KEPT_OF_THE_EXECUTION}
    return record.model_copy(update={**kept, "output": record.output or stored.output})


def regraded_trajectory(
    record: SampleRecord, *, rollout_id: str, sample: Mapping[str, Any] | None
) -> dict[str, Any] | None:
    """The stored trajectory under its new id, with the new grade."""
    document = record.trajectory
    if document is None:
        return None
    about = {key: value for key, value in _about(document).items() if key not in GRADE_KEYS}
    graded = sample or {}
    given = {
        "reward": graded.get("reward"),
        "sample_metrics": graded.get("metrics"),
        "sample_extra_fields": graded.get("extra_fields"),
    }
    about |= {"rollout_id": rollout_id, **{key: value for key, value in given.items() if value}}
    if given["reward"] is not None:
        about["reward"] = given["reward"]
    extra = {**(document.get("extra") or {}), "osmosis": about}
    return {**document, "session_id": rollout_id, "trajectory_id": rollout_id, "extra": extra}


GRADE_KEYS = frozenset({"reward", "sample_metrics", "sample_extra_fields"})
KEPT_OF_THE_EXECUTION = (
    "duration_ms",
    "queue_ms",
    "started_at",
    "finished_at",
    "tries",
    "interruptions",
    "interrupted_tokens",
    "interrupted_cost_usd",
    "saved_calls",
    "saved_usd",
)


def _about(document: Mapping[str, Any]) -> Mapping[str, Any]:
    extra = document.get("extra")
    about = extra.get("osmosis") if isinstance(extra, Mapping) else None
    return about if isinstance(about, Mapping) else {}
