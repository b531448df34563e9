"""Retrying a run: what is kept, what runs again, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from sqlalchemy import Connection, select

from osmosis.platform.datasets.service import dataset_path
from osmosis.platform.db.models import Dataset, Run, Sample
from osmosis.platform.evals import retry
from osmosis.platform.platform import Platform
from osmosis.platform.runners.records import COUNTERS
from tests.platform.conftest import Account
from tests.platform.local_runs import local_run
from tests.platform.runs import (
    claimed,
    record,
    submitted,
)
from tests.platform.test_imports import Importer

pytestmark = pytest.mark.usefixtures("commit")

RUNS = "/api/cli/eval-runs"


async def retried(client: httpx.AsyncClient, name: str, **body: Any) -> dict[str, Any]:
    answer = await client.post(f"{RUNS}/{name}/retry", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def counters(platform: Platform, name: str) -> dict[str, float]:
    async with platform.db.read() as session:
        run = (await session.execute(select(Run).where(Run.name == name))).scalar_one()
    return {counter: getattr(run, counter) for counter in COUNTERS}


async def test_a_retry_keeps_what_is_graded_and_runs_the_rest_again(
    client: httpx.AsyncClient, worker_client: httpx.AsyncClient, platform: Platform
) -> None:
    name = await submitted(client, limit=4)
    first = await claimed(worker_client)
    kept = record(0, judge_tokens=7, judge_cost_usd=0.25)
    await first.send(kept)
    expected = await counters(platform, name)
    failed = record(1, status="failed", reward=None, error_type="timeout", cost_usd=None)
    await first.send(failed, record(2, status="skipped", reward=None))
    await first.finish("stopped")

    answer = await retried(client, name)
    assert answer["status"] == "pending" and answer["generation"] == 2
    assert answer["workflow_id"] and answer["retryable_samples"] == 3
    assert await counters(platform, name) == expected
    shown = (await client.get(f"{RUNS}/{name}")).json()
    assert shown["eval_run"]["status"] == "pending" and shown["eval_run"]["stage"] == "queued"
    assert "stop_reason" not in shown and shown["eval_run"]["completed_at"] is None
    assert shown["results"]["resumed_count"] == 1 and shown["results"]["total_runs"] == 1

    late = await first.send(record(3))
    assert late.status_code == 409 and late.json()["code"] == "LEASE_LOST"
    second = await claimed(worker_client)
    assert second.spec["generation"] == 2 and second.spec["resume"] is True
    assert (await second.get("done")).text == "[0,0]\n"
    await second.send(record(1), record(2), record(3, reward=0.0))
    assert (await second.finish()).status_code == 200
    shown = (await client.get(f"{RUNS}/{name}")).json()
    assert shown["eval_run"]["status"] == "finished"
    assert shown["results"]["graded"] == 4 and shown["results"]["score"] == 0.75

    files = (await client.get(f"{RUNS}/{name}/samples/manifest?types=trajectories")).json()
    items = [item for item in files["files"] if item["path"] == "summary.jsonl"]
    urls = (await client.post(f"{RUNS}/{name}/samples/download-urls", json={"items": items})).json()
    rows = (await client.get(urls["items"][0]["url"])).text.splitlines()
    assert [json.loads(row).get("resumed", False) for row in rows] == [True, False, False, False]


async def test_a_run_that_recorded_nothing_is_retried_from_the_start(
    client: httpx.AsyncClient, worker_client: httpx.AsyncClient
) -> None:
    name = await submitted(client, limit=2)
    error = {"kind": "dependencies_failed", "message": "no such package"}
    await (await claimed(worker_client)).finish("failed", error=error)
    assert (await retried(client, name))["retryable_samples"] == 0
    assert (await claimed(worker_client)).spec["resume"] is False
    shown = (await client.get(f"{RUNS}/{name}")).json()
    assert "error" not in shown and shown["results"]["resumed_count"] == 0


async def test_a_run_that_goes_on_or_is_all_graded_is_not_retried(
    client: httpx.AsyncClient, worker_client: httpx.AsyncClient
) -> None:
    name = await submitted(client, limit=1)
    refused = await client.post(f"{RUNS}/{name}/retry", json={})
    assert refused.status_code == 409 and refused.json()["code"] == "RUN_ACTIVE"
    worker = await claimed(worker_client)
    await worker.send(record(0))
    await worker.finish()
    refused = await client.post(f"{RUNS}/{name}/retry", json={})
    assert refused.status_code == 409 and refused.json()["code"] == "NOTHING_TO_RETRY"
    missing = await client.post(f"{RUNS}/no-such-run-1/retry", json={})
    assert missing.status_code == 404


async def test_values_that_were_given_for_the_run_alone_are_asked_for_again(
    client: httpx.AsyncClient, worker_client: httpx.AsyncClient
) -> None:
    secrets = {"required": ["MINE"], "provided": {"MINE": "first value"}}
    name = await submitted(client, limit=1, secrets=secrets)
    await (await claimed(worker_client)).finish("stopped")
    refused = await client.post(f"{RUNS}/{name}/retry", json={})
    assert refused.json()["run_secret_names"] == ["MINE"]
    wrong = await client.post(f"{RUNS}/{name}/retry", json={"secrets": {"OTHER": "x"}})
    assert wrong.status_code == 400 and "OTHER" in wrong.json()["error"]
    await retried(client, name, secrets={"MINE": "second value"})
    assert (await claimed(worker_client)).spec["secrets"] == {"MINE": "second value"}


async def test_a_run_whose_rows_are_gone_is_not_retried(
    client: httpx.AsyncClient, worker_client: httpx.AsyncClient, platform: Platform
) -> None:
    name = await submitted(client, limit=1)
    await (await claimed(worker_client)).finish("stopped")
    async with platform.db.read() as session:
        dataset = (await session.execute(select(Dataset))).scalar_one()
    dataset_path(platform.settings, dataset).unlink()
    refused = await client.post(f"{RUNS}/{name}/retry", json={})
    assert refused.status_code == 409 and refused.json()["code"] == "DATASET_GONE"


async def test_an_imported_run_is_retried_where_it_ran(
    client: httpx.AsyncClient, account: Account
) -> None:
    provenance = {"config_path": "configs/eval/sums.toml"}
    made = await Importer(client, account).whole(local_run(), provenance=provenance)
    refused = await client.post(f"{RUNS}/{made['eval_run_name']}/retry", json={})
    assert refused.status_code == 400
    assert refused.json()["local_run"] == {"eval_run_name": "calm-otter-1", **provenance}


async def test_the_page_of_a_reopened_run_shows_what_is_kept(
    client: httpx.AsyncClient, worker_client: httpx.AsyncClient, page_client: httpx.AsyncClient
) -> None:
    name = await submitted(client, limit=2)
    worker = await claimed(worker_client)
    await worker.send(record(0))
    await worker.finish("stopped")
    await retried(client, name)
    page = await page_client.get(f"/agents/runs/{name}")
    assert page.status_code == 200 and "pending" in page.text and "had the run retried" in page.text


async def test_what_is_run_again_is_found_without_a_look_at_what_stays(platform: Platform) -> None:
    def steps(connection: Connection, condition: Any) -> list[str]:
        query = select(Sample.id).where(Sample.run_id == "r", condition)
        text = query.compile(connection, compile_kwargs={"literal_binds": True})
        return [row[3] for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}")]

    found = [
        await platform.db.examine(lambda connection, again=again: steps(connection, again))
        for again in retry._AGAIN  # pyright: ignore[reportPrivateUsage]
    ]
    assert "ix_samples_by_status (run_id=? AND status=?)" in found[0][0]
    assert "ix_samples_by_reward (run_id=? AND reward=?)" in found[1][0]
