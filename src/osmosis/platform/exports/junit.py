"""The JUnit report of a run, without a gate: one case for each sample."""

from __future__ import annotations

from pathlib import Path

from osmosis.metrics.junit import SampleCase, write_junit
from osmosis.platform.exports.stored import StoredRun, StoredSample


def write_report(run: StoredRun, path: Path) -> None:
    """The cases of a run, in the suite ``samples``."""
    group = f"{run.name_of('rollout')}.{run.name_of('dataset')}"
    samples = map(_case, run.samples())
    with path.open("w", encoding="utf-8") as out:
        write_junit(out, name=run.name, group=group, verdict=None, samples=samples)


def _case(sample: StoredSample) -> SampleCase:
    return SampleCase(
        row_index=sample.row_index,
        run_index=sample.run_index,
        status=sample.status,
        passed=bool(sample.passed),
        reward=sample.reward,
        error_type=sample.error_type,
        error_message=sample.record.get("error_message"),
        duration_ms=sample.duration_ms,
    )
