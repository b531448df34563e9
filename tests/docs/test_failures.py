"""docs/failures.md holds the failure policy of the code, row by row."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from osmosis.wire.errors import RUN_ERROR_KINDS
from osmosis.wire.failure_policy import CALL_POLICIES, SAMPLE_POLICIES, FailurePolicy

TEXT = (Path(__file__).parents[2] / "docs" / "failures.md").read_text()
RETRIED_BY = {"no": "nobody", "call": "the gateway", "sample": "the engine"}


def table(heading: str) -> dict[str, list[str]]:
    part = TEXT.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    rows = (re.split(r" *\| *", line.strip("| ")) for line in part.splitlines() if "|" in line)
    return {row[0].strip("`"): row for row in rows if row[0].startswith("`")}


def row_of(policy: FailurePolicy) -> list[str]:
    retried = RETRIED_BY[policy.retry]
    return [policy.means, policy.fault, retried, policy.grade, policy.counts_as]


@pytest.mark.parametrize("policy", CALL_POLICIES.values(), ids=lambda policy: policy.kind)
def test_each_kind_of_call_failure_is_documented_as_it_is(policy: FailurePolicy) -> None:
    halts = f"`{policy.halts}`" if policy.halts else "–"
    assert table("Model calls")[policy.kind][1:] == [*row_of(policy), halts]


@pytest.mark.parametrize("policy", SAMPLE_POLICIES.values(), ids=lambda policy: policy.kind)
def test_each_type_of_sample_failure_is_documented_as_it_is(policy: FailurePolicy) -> None:
    assert table("Samples")[policy.kind][1:] == row_of(policy)


def test_nothing_is_documented_that_is_not_there() -> None:
    assert table("Model calls").keys() - {"error_kind"} == CALL_POLICIES.keys()
    assert table("Samples").keys() - {"error_type"} == SAMPLE_POLICIES.keys()


def test_what_halts_a_run_is_a_known_run_error() -> None:
    halts = {policy.halts for policy in CALL_POLICIES.values() if policy.halts}
    assert halts <= set(RUN_ERROR_KINDS)
