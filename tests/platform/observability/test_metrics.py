"""``/metrics``: what is measured, who may see it, and how many series there can be."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from prometheus_client.parser import text_string_to_metric_families
from pydantic import SecretStr

from osmosis.event_loop import LoopLag
from osmosis.platform.app import create_app
from osmosis.platform.platform import Platform
from osmosis.platform.settings import Settings
from tests.platform.conftest import BASE_URL, Account
from tests.platform.runs import Worker, add_dataset, push_workspace, record, submission

Scrape = Callable[[], Awaitable["Series"]]


class Series(dict[tuple[str, frozenset[tuple[str, str]]], float]):
    def of(self, name: str, **labels: str) -> float:
        return self[name, frozenset(labels.items())]


@pytest.fixture
def scrape(anonymous: httpx.AsyncClient) -> Scrape:
    async def get() -> Series:
        answer = await anonymous.get("/metrics")
        assert answer.status_code == 200, answer.text
        return Series(
            {
                (sample.name, frozenset(sample.labels.items())): sample.value
                for family in text_string_to_metric_families(answer.text)
                for sample in family.samples
            }
        )

    return get


async def test_a_run_moves_the_counters_and_gauges(
    platform: Platform,
    account: Account,
    client: httpx.AsyncClient,
    worker_client: httpx.AsyncClient,
    scrape: Scrape,
    tmp_path: Path,
) -> None:
    await push_workspace(platform, account, tmp_path)
    await add_dataset(platform, account)
    for _ in range(2):
        body = submission(limit=3)
        assert (await client.post("/api/cli/eval-runs", json=body)).status_code == 201
    before = await scrape()
    assert before.of("osmosis_runs", status="pending") == 2
    assert before.of("osmosis_queue_depth") == 2
    assert before.of("osmosis_queue_age_seconds") >= 0

    worker = await Worker.claims(worker_client)
    assert worker is not None
    await worker.post("heartbeat", stage="running", in_flight=2, loop_lag_ms=70.0)
    failed = record(1, status="failed", reward=None, error_type="provider_error")
    failed["calls"][0] |= {
        "model": "my-endpoint",
        "http_status": 429,
        "error_kind": "rate_limit",
        "cost_usd": None,
    }
    odd = record(2)
    odd["calls"][0] |= {"model": "my-own-name", "error_kind": "never heard of", "queue_s": 3.0}
    await worker.send(record(0), failed)
    await worker.send(record(0), odd)

    after = await scrape()
    assert after.of("osmosis_runs", status="running") == 1
    assert after.of("osmosis_queue_depth") == 1
    assert after.of("osmosis_samples_in_flight") == 2
    assert after.of("osmosis_claims_total", kind="first") == 1
    assert after.of("osmosis_samples", status="success") == 2
    assert after.of("osmosis_samples_recorded_total", status="failed") == 1
    assert after.of("osmosis_records_repeated_total") == 1
    assert after.of("osmosis_records_commit_seconds_count") == 2
    assert after.of("osmosis_shard_event_loop_lag_seconds") == pytest.approx(0.07)
    ours = {"provider": "endpoint", "route": "policy"}
    assert after.of("osmosis_model_calls_total", **ours, status="ok") == 1
    assert after.of("osmosis_model_calls_total", **ours, status="rate_limit") == 1
    assert after.of("osmosis_model_calls_total", **ours, status="other") == 1
    assert after.of("osmosis_model_call_queue_seconds_sum", **ours) == 3.0
    assert after.of("osmosis_model_tokens_total", **ours, type="input") == 180
    assert after.of("osmosis_model_cost_usd_total", **ours) == pytest.approx(0.002)
    records = {"method": "POST", "route": "/api/runner/runs/{run_id}/records", "status": "200"}
    assert after.of("osmosis_http_requests_total", **records) == 2
    labels = {value for _, pairs in after for _, value in pairs}
    assert not labels & {worker.spec["name"], worker.spec["run_id"], "my-own-name", "gpt-5-mini"}


async def test_paths_that_nobody_serves_make_one_series(
    anonymous: httpx.AsyncClient, scrape: Scrape
) -> None:
    for number in range(20):
        await anonymous.get(f"/api/nothing-{number}")
    found = [labels for name, labels in await scrape() if name == "osmosis_http_requests_total"]
    assert [dict(labels)["route"] for labels in found] == ["other"]


async def test_the_metrics_stay_on_this_machine(anonymous: httpx.AsyncClient) -> None:
    for headers in ({"X-Forwarded-For": "10.0.0.9"}, {"Forwarded": "for=10.0.0.9"}):
        answer = await anonymous.get("/metrics", headers=headers)
        assert answer.status_code == 401
        assert "OSMOSIS_METRICS_TOKEN" in answer.json()["hint"]


async def test_another_machine_is_refused(platform_app: FastAPI) -> None:
    transport = httpx.ASGITransport(platform_app, client=("10.0.0.9", 4711))
    async with httpx.AsyncClient(transport=transport, base_url=BASE_URL) as remote:
        assert (await remote.get("/metrics")).status_code == 401


@pytest.mark.parametrize(
    ("headers", "status"),
    [({}, 401), ({"Authorization": "Bearer wrong"}, 401), ({"Authorization": "Bearer open"}, 200)],
)
async def test_a_token_opens_them_and_then_nothing_else_does(
    tmp_path: Path, headers: dict[str, str], status: int
) -> None:
    settings = Settings(
        data_dir=tmp_path / "data", embedded_worker=False, metrics_token=SecretStr("open")
    )
    app = create_app(settings)
    transport = httpx.ASGITransport(app, client=("10.0.0.9", 4711))
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url=BASE_URL) as remote,
    ):
        assert (await remote.get("/metrics", headers=headers)).status_code == status


async def test_a_blocked_event_loop_shows_as_lag() -> None:
    lag = LoopLag()
    watching = asyncio.create_task(lag.watch())
    try:
        await asyncio.sleep(0.01)
        time.sleep(0.4)  # noqa: ASYNC251  what must be noticed
        async with asyncio.timeout(5):
            while lag.worst_s < 0.2:  # noqa: ASYNC110  a gauge has no event
                await asyncio.sleep(0.01)
    finally:
        watching.cancel()
