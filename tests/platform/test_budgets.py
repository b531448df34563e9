"""Budgets of a run on the platform: what is counted, over what, and how a stopped run goes on."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.platform.runs import claimed, record, submission

pytestmark = pytest.mark.usefixtures("commit")

RUNS = "/api/cli/eval-runs"
MESSAGE = "The budget is used up: $0.004 of max_cost_usd = 0.004 are spent."
SHARD = "0123456789abcdef"


async def submitted(client: httpx.AsyncClient, **advanced: Any) -> str:
    answer = await client.post(RUNS, json=submission(limit=4, n=1, advanced=advanced))
    assert answer.status_code == 201, answer.text
    return answer.json()["name"]


def judged(row: int, **more: Any) -> dict[str, Any]:
    """A record with a policy call, a judge call, and an answer out of the cache."""
    made = record(row, **more)
    policy = made["calls"][0]
    judge = {**policy, "route": "judge"}
    cached = {**policy, "cached": True, "cost_usd": 0.0, "saved_usd": 0.001}
    return {**made, "calls": [policy, judge, cached]}


async def test_policy_judge_and_lost_tries_are_spent_and_cached_answers_are_not(
    client: httpx.AsyncClient, worker_client: httpx.AsyncClient
) -> None:
    name = await submitted(client, max_cost_usd=0.5, max_total_tokens=10_000)
    worker = await claimed(worker_client)
    assert worker.spec["spent"] == {"tokens": 0, "usd": 0.0}
    ack = (await worker.send(judged(0))).json()
    assert ack["spent"] == {"tokens": 200, "usd": pytest.approx(0.002)}
    again = (await worker.send(judged(0))).json()
    assert again["spent"]["tokens"] == 200, "a replay spends nothing"
    lost = {"shard_id": SHARD, "calls": 1, "spent": {"tokens": 50, "usd": 0.01}}
    path = f"/api/runner/runs/{worker.spec['run_id']}/lost-calls"
    for _ in range(2):
        assert (await worker_client.post(path, json=lost)).status_code == 200
    shown = (await client.get(f"{RUNS}/{name}")).json()
    assert shown["budget"] == {
        "max_cost_usd": {"allowed": 0.5, "spent": pytest.approx(0.012)},
        "max_total_tokens": {"allowed": 10_000, "spent": 250},
    }


async def test_a_run_stopped_by_its_budget_says_so_everywhere_and_is_partial(
    client: httpx.AsyncClient, worker_client: httpx.AsyncClient
) -> None:
    name = await submitted(client, max_cost_usd=0.004)
    worker = await claimed(worker_client)
    await worker.send(judged(0), judged(1))
    await worker.finish("stopped", stop_reason="budget", stop_message=MESSAGE)
    shown = (await client.get(f"{RUNS}/{name}")).json()
    assert shown["eval_run"]["status"] == "stopped"
    assert (shown["stop_reason"], shown["stop_message"]) == ("budget", MESSAGE)
    assert shown["results"]["partial"] is True and shown["results"]["pending"] == 2
    assert shown["results"]["graded"] == 2 and shown["results"]["pass_rate"] == 1.0
    (listed,) = (await client.get(RUNS)).json()["eval_runs"]
    assert listed["results"]["partial"] is True
    log = (await client.get(f"{RUNS}/{name}/logs")).json()
    assert any(MESSAGE in entry["message"] for entry in log["logs"])


async def test_a_full_run_is_not_partial(
    client: httpx.AsyncClient, worker_client: httpx.AsyncClient
) -> None:
    name = await submitted(client)
    worker = await claimed(worker_client)
    await worker.send(*(record(row) for row in range(4)))
    await worker.finish()
    shown = (await client.get(f"{RUNS}/{name}")).json()
    assert "partial" not in shown["results"] and "budget" not in shown


async def test_a_retry_needs_a_higher_budget_and_what_was_spent_stays_spent(
    client: httpx.AsyncClient, worker_client: httpx.AsyncClient
) -> None:
    name = await submitted(client, max_cost_usd=0.004)
    worker = await claimed(worker_client)
    failed = judged(1, status="failed", reward=None, error_type="timeout")
    await worker.send(judged(0), failed)
    await worker.finish("stopped", stop_reason="budget", stop_message=MESSAGE)

    refused = await client.post(f"{RUNS}/{name}/retry", json={})
    assert refused.status_code == 409 and refused.json()["code"] == "BUDGET_SPENT"
    assert f"osmosis eval retry {name} --max-cost-usd N" in refused.json()["hint"]
    same = await client.post(f"{RUNS}/{name}/retry", json={"advanced": {"max_cost_usd": 0.004}})
    assert same.status_code == 409

    raised = await client.post(f"{RUNS}/{name}/retry", json={"advanced": {"max_cost_usd": 0.1}})
    assert raised.status_code == 200, raised.text
    shown = (await client.get(f"{RUNS}/{name}")).json()
    assert "stop_message" not in shown and "partial" not in shown["results"]
    again = await claimed(worker_client)
    assert again.spec["advanced"] == {"max_cost_usd": 0.1}
    assert again.spec["spent"] == {"tokens": 400, "usd": pytest.approx(0.004)}
    log = (await client.get(f"{RUNS}/{name}/logs")).json()
    assert any("New limits: max_cost_usd = 0.1" in entry["message"] for entry in log["logs"])


async def test_a_budget_can_be_taken_away(
    client: httpx.AsyncClient, worker_client: httpx.AsyncClient
) -> None:
    name = await submitted(client, max_total_tokens=1)
    worker = await claimed(worker_client)
    await worker.send(judged(0))
    await worker.finish("stopped", stop_reason="budget", stop_message="spent")
    answer = await client.post(
        f"{RUNS}/{name}/retry", json={"advanced": {"max_total_tokens": None}}
    )
    assert answer.status_code == 200
    assert (await claimed(worker_client)).spec["advanced"] == {}


@pytest.mark.parametrize(
    ("advanced", "said"),
    [
        ({"temperature": 1}, "cannot change temperature"),
        ({"max_cost": 1}, "Did you mean 'max_cost_usd'?"),
        ({"max_retries": -1}, "not valid"),
        ([1], "must be a table"),
    ],
)
async def test_a_retry_changes_limits_and_nothing_else(
    client: httpx.AsyncClient, worker_client: httpx.AsyncClient, advanced: Any, said: str
) -> None:
    name = await submitted(client)
    worker = await claimed(worker_client)
    await worker.finish("stopped", stop_reason="user")
    answer = await client.post(f"{RUNS}/{name}/retry", json={"advanced": advanced})
    assert answer.status_code == 400
    assert said in answer.json()["message"]
