"""Traces of runs: run → sample → model call, as a collector receives them."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from osmosis.platform.app import create_app
from osmosis.platform.platform import Platform
from osmosis.platform.settings import Settings
from tests.platform.conftest import BASE_URL, make_account
from tests.platform.observability.collector import Collector, values
from tests.platform.runs import Worker, add_dataset, push_workspace, record, submission

CANARY = "what-the-user-asked"


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as listening:
        yield listening


class Bench:
    """A platform that traces, with one claimed run."""

    def __init__(self, app: FastAPI, worker: Worker) -> None:
        self.platform: Platform = app.state.platform
        self.worker = worker

    @property
    def run_id(self) -> str:
        return self.worker.spec["run_id"]


@pytest.fixture
async def bench(
    request: pytest.FixtureRequest, tmp_path: Path, collector: Collector
) -> AsyncIterator[Bench]:
    more: dict[str, Any] = getattr(request, "param", {})
    settings = Settings(
        data_dir=tmp_path / "data",
        embedded_worker=False,
        **{"otlp_endpoint": collector.url, **more},
    )
    app = create_app(settings)
    async with app.router.lifespan_context(app):
        platform: Platform = app.state.platform
        account = await make_account(
            platform, email="a@example.test", workspace="agents", identity="ada/agents"
        )
        await push_workspace(platform, account, tmp_path)
        await add_dataset(platform, account)
        token = settings.worker_token_file.read_text().strip()
        transport = httpx.ASGITransport(app)
        async with (
            httpx.AsyncClient(
                transport=transport, base_url=BASE_URL, headers=account.headers
            ) as client,
            httpx.AsyncClient(
                transport=transport, base_url=BASE_URL, headers={"Authorization": f"Bearer {token}"}
            ) as workers,
        ):
            body = submission(limit=2)
            assert (await client.post("/api/cli/eval-runs", json=body)).status_code == 201
            worker = await Worker.claims(workers)
            assert worker is not None
            yield Bench(app, worker)


def traced(row: int, **changes: Any) -> dict[str, Any]:
    """A record whose model call is named as the gateway names it."""
    item = record(row, **changes)
    item["calls"][0] |= {"model": "openai/gpt-5-mini", "finish_reason": "stop", "queue_s": 0.5}
    item["trajectory"]["steps"][0]["message"] = CANARY
    return item


async def until(condition: Any, limit_s: float = 15.0) -> None:
    async with asyncio.timeout(limit_s):
        while not condition():  # noqa: ASYNC110  another thread's doing
            await asyncio.sleep(0.02)


async def test_a_run_is_one_trace_of_run_sample_and_call(
    bench: Bench, collector: Collector
) -> None:
    failed = traced(1, status="failed", reward=None, error_type="provider_error")
    failed |= {"error_message": CANARY}
    failed["calls"][0] |= {"http_status": 429, "error_kind": "rate_limit"}
    await bench.worker.send(traced(0), failed)
    await bench.worker.finish()
    await until(lambda: collector.named("evaluate"))

    (root,) = collector.named("evaluate")
    samples, calls = collector.named("invoke_agent multiply"), collector.named("chat gpt-5-mini")
    assert len(samples) == len(calls) == 2
    assert {span.trace_id.hex() for span in collector.spans} == {bench.run_id}
    assert root.parent_span_id == b""
    assert {span.parent_span_id for span in samples} == {root.span_id}
    assert {span.parent_span_id for span in calls} == {span.span_id for span in samples}
    assert len({span.span_id for span in collector.spans}) == 5

    good, bad = sorted(samples, key=lambda s: values(s.attributes)["osmosis.row_index"])
    seen = values(good.attributes)
    assert seen["gen_ai.operation.name"] == "invoke_agent"
    assert seen["gen_ai.provider.name"] == "openai"
    assert seen["gen_ai.request.model"] == "gpt-5-mini"
    assert (seen["gen_ai.usage.input_tokens"], seen["gen_ai.usage.output_tokens"]) == (60, 40)
    assert seen["osmosis.run.name"] == bench.worker.spec["name"] and seen["osmosis.reward"] == 1.0
    assert good.start_time_unix_nano == 1_700_000_000 * 10**9
    assert good.end_time_unix_nano - good.start_time_unix_nano == 250_000_000
    assert good.status.code == 0 and bad.status.code == 2
    assert values(bad.attributes)["error.type"] == "provider_error"

    call = next(span for span in calls if span.parent_span_id == good.span_id)
    seen = values(call.attributes)
    assert seen["gen_ai.operation.name"] == "chat" and seen["osmosis.route"] == "policy"
    assert seen["gen_ai.response.finish_reasons"] == ["stop"]
    assert call.kind == 3, "a client's span"
    assert call.end_time_unix_nano - call.start_time_unix_nano == 700_000_000
    other = next(span for span in calls if span is not call)
    assert values(other.attributes)["error.type"] == "rate_limit"
    assert collector.resources[0]["service.name"] == "osmosis"
    assert CANARY.encode() not in b"".join(collector.bodies), "contents were not asked for"


@pytest.mark.parametrize("bench", [{"trace_content": True}], indirect=True)
async def test_message_contents_are_sent_when_they_are_asked_for(
    bench: Bench, collector: Collector
) -> None:
    await bench.worker.send(traced(0))
    await until(lambda: collector.named("invoke_agent"))
    seen = values(collector.named("invoke_agent")[0].attributes)
    assert CANARY in seen["gen_ai.input.messages"]
    assert '"role":"assistant"' in seen["gen_ai.output.messages"]


async def test_a_repeated_record_makes_no_second_span(bench: Bench, collector: Collector) -> None:
    first = traced(0)
    await bench.worker.send(first)
    await bench.worker.send(first, traced(1))
    await bench.worker.finish()
    await until(lambda: collector.named("evaluate"))
    assert len(collector.named("invoke_agent")) == 2


async def test_a_collector_that_refuses_costs_the_run_nothing(
    bench: Bench, collector: Collector
) -> None:
    collector.status = 400
    assert (await bench.worker.send(traced(0), traced(1))).status_code == 200
    assert (await bench.worker.finish()).status_code == 200
    dropped = bench.platform.metrics.spans_dropped
    await until(lambda: dropped._value.get() >= 5)
    assert collector.requests >= 1


async def test_a_full_queue_drops_and_counts(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench.platform.traces._queue, "maxsize", 1)
    bench.platform.traces._closing.set()
    bench.platform.traces._thread.join(5)
    answer = await bench.worker.send(traced(0), traced(1))
    assert answer.json()["accepted"] == 2
    assert bench.platform.metrics.spans_dropped._value.get() == 2


@pytest.mark.parametrize("bench", [{"otlp_endpoint": None}], indirect=True)
async def test_without_an_endpoint_nothing_is_sent(bench: Bench, collector: Collector) -> None:
    assert not bench.platform.traces.enabled
    assert (await bench.worker.send(traced(0))).status_code == 200
    assert collector.requests == 0


def test_without_an_endpoint_nothing_is_loaded() -> None:
    code = (
        "import sys; import osmosis.platform.app; "
        "sys.exit('opentelemetry.sdk' in sys.modules or 'opentelemetry.exporter' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
