"""The table of failures, and the types of samples that failed by a model call."""

from __future__ import annotations

import pytest

from osmosis.metrics import is_infrastructure
from osmosis.wire.failure_policy import (
    CALL_POLICIES,
    SAMPLE_POLICIES,
    error_type_of_call,
    policy_of_call,
    policy_of_sample,
)


@pytest.mark.parametrize("kind", CALL_POLICIES)
@pytest.mark.parametrize("route", ["policy", "judge"])
def test_a_sample_counts_as_the_call_that_failed_it(kind: str, route: str) -> None:
    error_type = error_type_of_call(kind, route)
    counts_as = policy_of_call(kind).counts_as
    if counts_as == "nothing":
        assert error_type is None
    elif (kind, route) == ("content_filter", "judge"):
        assert is_infrastructure(error_type)  # the judge's provider, not the agent's answer
    else:
        assert error_type in SAMPLE_POLICIES
        assert policy_of_sample(error_type).counts_as == counts_as


def test_what_is_wrong_with_a_judges_call_is_never_the_agents_doing() -> None:
    types = {error_type_of_call(kind, "judge") for kind in CALL_POLICIES} - {None}
    assert "agent" not in {policy_of_sample(str(error_type)).fault for error_type in types}


def test_what_cannot_succeed_is_not_repeated() -> None:
    hopeless = {"auth", "quota", "not_found", "content_filter", "context_length"}
    assert {policy_of_call(kind).retry for kind in hopeless} == {"no"}


def test_an_unknown_kind_is_the_agents_own() -> None:
    assert policy_of_call("surprise").counts_as == "failure"
    assert policy_of_sample("surprise").fault == "agent"
