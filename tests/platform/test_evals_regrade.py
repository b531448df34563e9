"""Grading stored samples again: what is handed out, what replaces what, and what is refused."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import select

from osmosis.platform.db.models import Run
from osmosis.platform.evals import numbers
from osmosis.platform.platform import Platform
from tests.platform.conftest import Account
from tests.platform.runs import Worker, claimed, push_workspace, record, submitted
from tests.platform.test_evals_retry import RUNS, counters, retried

pytestmark = pytest.mark.usefixtures("commit")


FAILED: dict[str, Any] = {"status": "failed", "reward": None, "error_type": "grader_failed"}


async def graded_run(client: httpx.AsyncClient, worker_client: httpx.AsyncClient) -> str:
    """Four samples: graded, failed in grading, failed in its workflow, and one that never ran."""
    name = await submitted(client, limit=2, n=2)
    worker = await claimed(worker_client)
    lost = {"status": "failed", "reward": None, "error_type": "agent_error", "trajectory": None}
    await worker.put(f"artifacts/{'a' * 32}/deep/note.txt", b"kept")
    await worker.send(
        record(0, 0, reward=0.5, rollout_id="a" * 32, artifacts=["deep/note.txt"], output="said"),
        record(0, 1, messages=[{"role": "user", "content": "as it was", "odd": 1}], **FAILED),
        record(1, 0, **lost),
    )
    error = {"kind": "model_key_rejected", "message": "no"}
    await worker.finish("failed", error=error)
    return name


async def test_a_regrade_hands_out_what_is_stored_and_nothing_else(
    client: httpx.AsyncClient, worker_client: httpx.AsyncClient, commit: str
) -> None:
    name = await graded_run(client, worker_client)
    answer = await retried(client, name, regrade=True)
    assert (answer["status"], answer["generation"]) == ("pending", 2)
    assert answer["retryable_samples"] == 2
    assert answer["regrade"]["commit_sha"] == commit
    worker = await claimed(worker_client)
    assert worker.spec["regrade"] is True and worker.spec["commit_sha"] == commit
    assert (await worker.get("done")).text == "[1,0]\n[1,1]\n"
    stored = (await worker.get("stored/0/0")).json()
    assert stored["calls"][0]["model"] == "gpt-5-mini" and stored["output"] == "said"
    assert stored["trajectory"]["steps"][1]["message"] == "#### 0"
    artifact = await worker.get(f"artifacts/{stored['rollout_id']}/{stored['artifacts'][0]}")
    assert artifact.content == b"kept"
    outside = await worker.get(f"artifacts/{stored['rollout_id']}/..%2F..%2Fx")
    assert outside.status_code in (400, 404)
    assert (await worker.get("stored/0/1")).json()["messages"][0]["odd"] == 1


async def test_a_new_grade_replaces_the_old_one_once_and_the_counters_follow(
    client: httpx.AsyncClient, worker_client: httpx.AsyncClient, platform: Platform
) -> None:
    name = await graded_run(client, worker_client)
    before = await counters(platform, name)
    await retried(client, name, regrade=True)
    worker = await claimed(worker_client)
    assert await counters(platform, name) == before, "old grades stay until they are replaced"
    await worker.send(record(0, 0, reward=1.0, judge_tokens=5, judge_cost_usd=0.25))
    repeated = await worker.send(record(0, 0, reward=0.0))
    assert repeated.json()["duplicates"] == 1
    after = await counters(platform, name)
    changed = {key: after[key] - before[key] for key in after if after[key] != before[key]}
    assert changed == pytest.approx(
        {"reward_sum": 0.5, "passed_count": 1, "judge_tokens_sum": 5, "cost_sum": 0.25}
    )
    second = await Worker.claims(worker_client)
    assert second is None, "the lease is held"
    assert (await worker.get("done")).text == "[0,0]\n[1,0]\n[1,1]\n", "one is left to grade"
    await worker.send(record(0, 1, reward=0.25))
    assert (await worker.finish()).status_code == 200
    shown = (await client.get(f"{RUNS}/{name}")).json()
    assert shown["eval_run"]["status"] == "failed", "one sample never ran: as it had ended before"
    assert shown["error"]["kind"] == "model_key_rejected"
    assert shown["results"]["graded"] == 2 and shown["results"]["failed"] == 1
    assert shown["results"]["score"] == pytest.approx(0.625)


async def test_the_numbers_of_a_big_run_that_is_graded_again_never_wait_for_a_count(
    client: httpx.AsyncClient, worker_client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(numbers, "AWAITED_SAMPLES", 2)
    monkeypatch.setattr(numbers, "PAUSE_FACTOR", 0.0)

    async def score() -> float:
        return (await client.get(f"{RUNS}/{name}")).json()["results"]["score"]

    name = await graded_run(client, worker_client)
    await retried(client, name, regrade=True)
    worker = await claimed(worker_client)
    await worker.send(record(0, 0, reward=1.0))
    assert await score() == 0.5, "as it was a moment ago"
    async with asyncio.timeout(10):
        while await score() != 1.0:  # noqa: ASYNC110  another task's count
            await asyncio.sleep(0.01)


async def test_a_retry_after_a_regrade_runs_on_the_runs_own_commit(
    client: httpx.AsyncClient,
    worker_client: httpx.AsyncClient,
    platform: Platform,
    account: Account,
    tmp_path: Path,
    commit: str,
) -> None:
    name = await graded_run(client, worker_client)
    newer = await push_workspace(
        platform, account, tmp_path, {"rollouts/multiply/main.py": "print('newer')\n"}
    )
    answer = await retried(client, name, regrade=True, branch="main")
    assert answer["regrade"]["commit_sha"] == newer != commit
    worker = await claimed(worker_client)
    assert worker.spec["commit_sha"] == newer
    await worker.send(record(0, 0), record(0, 1))
    await worker.finish()
    await retried(client, name)
    worker = await claimed(worker_client)
    assert (worker.spec["commit_sha"], worker.spec["regrade"]) == (commit, False)
    assert (await worker.get("done")).text == "[0,0]\n[0,1]\n"


async def test_what_cannot_be_graded_again_is_refused_with_the_way_out(
    client: httpx.AsyncClient, worker_client: httpx.AsyncClient, platform: Platform
) -> None:
    name = await graded_run(client, worker_client)
    async with platform.db.write() as session:
        run = (await session.execute(select(Run).where(Run.name == name))).scalar_one()
        run.effective = {"sdk": "osmosis-ai 0.3.8"}
    refused = await client.post(f"{RUNS}/{name}/retry", json={"regrade": True})
    assert (refused.status_code, refused.json()["code"]) == (409, "REGRADE_UNSUPPORTED")
    assert "osmosis-ai 0.3.8" in refused.json()["message"]
    assert f"replay/{name}" in refused.json()["hint"]
    async with platform.db.write() as session:
        run = (await session.execute(select(Run).where(Run.name == name))).scalar_one()
        run.config = {**run.config, "advanced": {"max_cost_usd": 0.001}}
        run.spent_usd = 0.001
    again = {"regrade": True, "branch": "main"}
    refused = await client.post(f"{RUNS}/{name}/retry", json=again)
    command = f"osmosis eval retry {name} --regrade --branch main --max-cost-usd N"
    assert command in refused.json()["hint"]
    again["advanced"] = {"max_cost_usd": 1.0}
    assert (await retried(client, name, **again))["status"] == "pending"


async def test_a_run_without_stored_samples_and_an_unknown_commit_are_refused(
    client: httpx.AsyncClient, worker_client: httpx.AsyncClient
) -> None:
    name = await submitted(client, limit=1)
    active = await client.post(f"{RUNS}/{name}/retry", json={"regrade": True})
    assert active.json()["code"] == "RUN_ACTIVE"
    await (await claimed(worker_client)).finish("stopped")
    nothing = await client.post(f"{RUNS}/{name}/retry", json={"regrade": True})
    assert nothing.json()["code"] == "NOTHING_TO_REGRADE"
    other = await graded_run(client, worker_client)
    body = {"regrade": True, "commit_sha": "abcdef1234"}
    unknown = await client.post(f"{RUNS}/{other}/retry", json=body)
    assert unknown.status_code in (400, 404) and "abcdef1234" in unknown.json()["message"]
    both = {"regrade": True, "branch": "main", "commit_sha": "abcdef1"}
    assert (await client.post(f"{RUNS}/{other}/retry", json=both)).status_code == 400


async def test_a_run_that_ended_early_with_every_sample_graded_is_summed_up(
    client: httpx.AsyncClient, worker_client: httpx.AsyncClient
) -> None:
    name = await submitted(client, limit=1)
    worker = await claimed(worker_client)
    await worker.send(record(0))
    await worker.finish("failed", error={"kind": "internal", "message": "at the very end"})
    assert (await retried(client, name))["resumed_count"] == 1
    worker = await claimed(worker_client)
    assert (await worker.get("done")).text == "[0,0]\n"
    await worker.finish()
    shown = (await client.get(f"{RUNS}/{name}")).json()
    assert shown["eval_run"]["status"] == "finished" and shown["results"]["graded"] == 1
