"""What `eval retry` does with the platform's answers that the test's platform does not give."""

from __future__ import annotations

import json
from typing import Any

import pytest

from osmosis.cli.evals.run_view import hints
from osmosis.wire.errors import Conflict, OsmosisError, ValidationFailed
from tests.cli.conftest import Osmosis

ANSWER = {
    "id": "1",
    "name": "calm-otter-1",
    "status": "pending",
    "workflow_id": "w",
    "retryable_samples": 3,
}


@pytest.fixture
def asked(ready: object, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The secrets of each call; the first call fails with the error that a test appends."""
    calls: list[Any] = []

    def retry(self: object, ref: str, secrets: Any = None, advanced: Any = None) -> dict[str, Any]:
        if calls and isinstance(calls[0], OsmosisError):
            raise calls.pop(0)
        calls.append(secrets if not advanced else (secrets, advanced))
        return ANSWER

    monkeypatch.setattr("osmosis.client.api.Api.retry_eval", retry)
    return calls


def test_values_that_only_the_run_had_are_given_again(near: Osmosis, asked: list[Any]):
    asked.append(Conflict("Secrets.", details={"run_secret_names": ["A_KEY", "B_KEY"]}))
    words = ["--json", "eval", "retry", "calm-otter-1", "-y", "--secrets-file", "-"]
    done = near(*words, stdin="A_KEY=canary-1\nB_KEY=canary-2\n")
    assert done.code == 0, done
    assert asked == [{"A_KEY": "canary-1", "B_KEY": "canary-2"}]
    assert "canary" not in done.out + done.err
    assert done.json["resource"]["retryable_samples"] == 3
    assert "3 samples" in done.json["message"]


def test_all_values_that_are_missing_are_named_at_once(near: Osmosis, asked: list[Any]):
    asked.append(Conflict("Secrets.", details={"run_secret_names": ["A_KEY", "B_KEY"]}))
    error = near("--json", "eval", "retry", "calm-otter-1", "-y").error
    assert error["code"] == "INTERACTIVE_REQUIRED"
    assert error["details"]["missing"] == ["A_KEY", "B_KEY"]
    assert asked == []


def test_a_run_of_another_machine_is_retried_there(near: Osmosis, asked: list[Any]):
    local = {"config_path": "configs/eval/my job.toml", "eval_run_name": "here"}
    asked.append(ValidationFailed("Local.", details={"local_run": local}))
    error = near("--json", "eval", "retry", "calm-otter-1", "-y").error
    assert error["code"] == "VALIDATION"
    command = "osmosis eval run 'configs/eval/my job.toml' --name here --retry-failed --upload"
    assert command in json.dumps(error)


def test_a_higher_budget_goes_along(near: Osmosis, asked: list[Any]):
    done = near(
        "eval", "retry", "calm-otter-1", "-y", "--max-cost-usd", "2.5", "--max-retries", "0"
    )
    assert done.code == 0, done
    assert asked == [(None, {"max_cost_usd": 2.5, "max_retries": 0})]


def test_a_grading_that_its_budget_stopped_is_gone_on_with_by_the_same_grader():
    stopped = {"name": "calm-otter-1", "stop_reason": "budget"}
    budget = {"max_cost_usd": {"allowed": 1, "spent": 1.1}}
    document = {"eval_run": stopped, "commit_sha": "a" * 40, "budget": budget}
    for regrade, options in (
        (None, ""),
        ({"commit_sha": "a" * 40}, " --regrade"),
        ({"commit_sha": "b" * 40}, f" --regrade --commit-sha {'b' * 40}"),
    ):
        (step,) = hints({**document, "regrade": regrade})
        assert step.command == f"osmosis eval retry calm-otter-1{options} --max-cost-usd N"
