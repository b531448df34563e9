"""The pages: what they show, to whom, and that hostile data stays text."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from osmosis.metrics.distribution import Distribution
from osmosis.metrics.histogram import histogram
from osmosis.platform.platform import Platform
from osmosis.platform.security.sessions import create_login_code
from osmosis.platform.web.chart import reward_chart
from osmosis.platform.web.conversation import label_of, turn_of
from osmosis.platform.web.formats import duration, money, number, percent, shortened
from osmosis.platform.web.run_view import flattened
from tests.platform.conftest import BASE_URL, Account
from tests.platform.runs import Running, Worker, record, submission

HOSTILE = "<script>alert('x')</script><img src=x onerror=alert(1)>"


@pytest.fixture
async def worker(running: Running) -> Worker:
    """The worker of a running run of 30 rows × 2."""
    return await running(limit=30, n=2, env={"LEVEL": HOSTILE})


def address(worker: Worker, what: str = "") -> str:
    return f"/agents/runs/{worker.spec['name']}{what}"


def text_of(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html))


async def test_the_start_leads_to_the_runs_of_the_only_workspace(
    page_client: httpx.AsyncClient, worker: Worker
) -> None:
    answer = await page_client.get("/", follow_redirects=True)
    assert answer.url.path == "/agents/runs"
    assert worker.spec["name"] in answer.text and "0 / 60" in text_of(answer.text)


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("integrations/git", "osmosis workspace connect"),
        ("billing", "no billing"),
        ("benchmarks", "no benchmarks"),
        ("api-keys", "osmosis auth login"),
    ],
)
async def test_a_link_of_the_vendors_command_says_what_to_do_here(
    page_client: httpx.AsyncClient, place: str, said: str
) -> None:
    answer = await page_client.get(f"/agents/{place}")
    assert answer.status_code == 404
    assert said in answer.text and "no such page" not in answer.text
    assert "no billing" not in (await page_client.get(f"/others/{place}")).text


async def test_pages_need_a_session_and_membership(
    anonymous: httpx.AsyncClient,
    platform_app: FastAPI,
    platform: Platform,
    stranger: Account,
    worker: Worker,
) -> None:
    paths = ["/agents/runs", address(worker), address(worker, "/live"), address(worker, "/logs")]
    paths.append(address(worker, "/samples/0/0"))
    await worker.send(record(0))
    for path in paths:
        answer = await anonymous.get(path, headers={"Accept": "text/html"})
        assert answer.status_code == 303 and answer.headers["location"].startswith("/login"), path
    async with platform.db.write() as session:
        code = await create_login_code(session, stranger.user_id, lifetime_s=60)
    transport = httpx.ASGITransport(platform_app)
    headers = {"Accept": "text/html"}
    async with httpx.AsyncClient(
        transport=transport, base_url=BASE_URL, headers=headers
    ) as browser:
        await browser.get(f"/login?code={code}")
        for path in paths:
            answer = await browser.get(path)
            assert answer.status_code == 404, path
            assert worker.spec["name"] not in answer.text.replace(path, "")


async def test_a_run_shows_its_numbers_and_where_its_rows_come_from(
    page_client: httpx.AsyncClient, worker: Worker
) -> None:
    await worker.post("heartbeat", stage="running", in_flight=4, waiting_for="row 7")
    failed = {"status": "failed", "reward": None, "error_type": "timeout"}
    await worker.send(record(0, 0), record(0, 1, reward=0.25), record(1, 0, **failed))
    html = (await page_client.get(address(worker))).text
    shown = text_of(html)
    for expected in (
        "3 / 60 samples",
        "running · 4 in flight · waiting for row 7",
        "Pass rate 33.3%",
        "Clean rate 50.0%",
        "30 of 40 the first ones",
        "a time limit",
        "openai/gpt-5-mini",
    ):
        assert expected in shown, expected
    assert "<svg" in html and 'class="bar pass"' in html
    assert f'data-live="{address(worker)}/live"' in html


async def test_a_scripted_model_is_labelled_on_every_page(
    page_client: httpx.AsyncClient,
    client: httpx.AsyncClient,
    worker_client: httpx.AsyncClient,
    worker: Worker,
) -> None:
    body = submission(limit=1, experiment={"model_path": "scripted/models/rules.toml"})
    name = (await client.post("/api/cli/eval-runs", json=body)).json()["name"]
    scripted = await Worker.claims(worker_client)
    assert scripted is not None
    await scripted.send(record(0))
    for path in ("", f"/{name}", f"/{name}/samples/0/0"):
        assert ">scripted" in (await page_client.get(f"/agents/runs{path}")).text, path


async def test_a_sample_shows_what_its_calls_read_and_wrote_and_thought(
    page_client: httpx.AsyncClient, worker: Worker
) -> None:
    whole = record(0)
    whole["calls"][0].update(cached_tokens=50, cache_write_tokens=7, reasoning_tokens=31)
    await worker.send(whole)
    page = (await page_client.get(address(worker, "/samples/0/0"))).text
    assert "31 reasoning" in page and "7 written" in page


async def test_hostile_data_stays_text_on_every_page(
    page_client: httpx.AsyncClient, worker: Worker
) -> None:
    whole = record(
        0,
        status="failed",
        error_type="agent_error",
        error_message=HOSTILE,
        output=HOSTILE,
        metrics={HOSTILE: 1.0},
        artifacts=["x"],
    )
    whole["calls"][0].update(model=HOSTILE, error_kind="odd", error_message=HOSTILE)
    whole["trajectory"]["steps"] = [
        {"step_id": HOSTILE, "source": HOSTILE, "message": HOSTILE, "model_name": HOSTILE},
        {"message": [{"type": "text", "text": HOSTILE}, {"type": HOSTILE}, 7]},
        {"source": "agent", "message": None, "tool_calls": [{"function_name": HOSTILE}, HOSTILE]},
        {"source": "agent", "reasoning_content": HOSTILE, "observation": {"results": [{}]}},
        {"source": "agent", "message": {"odd": HOSTILE}, "metrics": HOSTILE},
        HOSTILE,
        None,
    ]
    whole["trajectory"]["extra"]["osmosis"]["label"] = HOSTILE
    await worker.put(f"artifacts/{whole['rollout_id']}/%3Cscript%3Ealert(1)", b"x")
    await worker.send(whole)
    entry = {"timestamp": "x", "step": HOSTILE, "message": HOSTILE, "details": {"k": HOSTILE}}
    await worker.post("logs", entries=[entry])
    await worker.post("heartbeat", waiting_for=HOSTILE, effective={"note": HOSTILE})
    for path in (address(worker), address(worker, "/logs"), address(worker, "/samples/0/0")):
        answer = await page_client.get(path)
        assert answer.status_code == 200, path
        assert "&lt;script&gt;" in answer.text, path
        assert "<script>alert" not in answer.text and "<img" not in answer.text, path
    report = {"kind": HOSTILE, "message": HOSTILE}
    await worker.finish("failed", error=report)
    for path in ("/agents/runs", address(worker)):
        html = (await page_client.get(path)).text
        assert "<script>alert" not in html and "<img" not in html


async def test_no_page_has_inline_code_or_reaches_outside(
    page_client: httpx.AsyncClient, worker: Worker
) -> None:
    await worker.send(record(0))
    for path in ("/agents/runs", address(worker), address(worker, "/samples/0/0")):
        answer = await page_client.get(path)
        assert "script-src 'self'" in answer.headers["content-security-policy"]
        assert not re.search(r"<script(?![^>]*\bsrc=)", answer.text)
        assert not re.search(r"<[^>]+\s(on\w+|style)=|<style", answer.text)
        for link in re.findall(r'(?:src|href)="([^"]+)"', answer.text):
            ours = link.startswith(("/", "?", "#", BASE_URL, "data:image/svg+xml"))
            assert ours, link
    for link in re.findall(r'"(/static/[^"]+)"', answer.text):
        got = await page_client.get(link)
        assert got.status_code == 200 and "immutable" in got.headers["cache-control"]
    assert (await page_client.get("/static/../routes.py")).status_code == 404


async def test_samples_page_by_key_and_filter(
    page_client: httpx.AsyncClient, worker: Worker
) -> None:
    await worker.send(*(record(row, index) for row in range(30) for index in range(2)))
    first = (await page_client.get(address(worker))).text
    following = re.search(r'href="([^"]+cursor=[^"]+)"', first)
    assert following is not None
    second = (await page_client.get(following[1].replace("&amp;", "&"))).text
    assert 'samples/29/1"' in second and 'samples/0/0"' not in second
    none = (await page_client.get(address(worker, "?status=failed"))).text
    assert "No sample is like that" in none


async def test_a_long_conversation_pages_by_step(
    page_client: httpx.AsyncClient, worker: Worker
) -> None:
    whole = record(0)
    whole["trajectory"]["steps"] = [
        {"step_id": i + 1, "source": "agent", "message": f"said-{i}."} for i in range(120)
    ]
    await worker.send(whole, record(1))
    first = (await page_client.get(address(worker, "/samples/0/0"))).text
    assert "said-49." in first and "said-50." not in first
    assert "steps 1–50 of 120" in text_of(first) and 'href="?from=50"' in first
    assert f'href="{address(worker)}/samples/1/0"' in first
    last = (await page_client.get(address(worker, "/samples/0/0?from=100"))).text
    assert "said-119." in last and "Later steps" not in last


async def test_a_ground_truth_too_long_for_its_tile_can_be_read_whole(
    page_client: httpx.AsyncClient, worker: Worker
) -> None:
    whole, short = record(0), record(1)
    whole["trajectory"]["extra"]["osmosis"]["label"] = "four score and seven " * 5 + "years"
    await worker.send(whole, short)
    assert "seven years" in (await page_client.get(address(worker, "/samples/0/0"))).text
    assert "whole-truth" not in (await page_client.get(address(worker, "/samples/1/0"))).text


async def test_the_log_of_a_run_opens_at_its_newest_line(
    page_client: httpx.AsyncClient, worker: Worker
) -> None:
    assert 'class="log-box"' in (await page_client.get(address(worker))).text


async def test_trajectory_and_artifacts_download_from_the_page(
    page_client: httpx.AsyncClient, anonymous: httpx.AsyncClient, worker: Worker
) -> None:
    given = record(0, artifacts=["notes.txt"])
    await worker.put(f"artifacts/{given['rollout_id']}/notes.txt", b"noted")
    await worker.send(given)
    html = (await page_client.get(address(worker, "/samples/0/0"))).text
    links = [link.replace("&amp;", "&") for link in re.findall(r'href="([^"]+-/file[^"]+)"', html)]
    contents = [(await anonymous.get(link)).content for link in links]
    assert json.loads(contents[0]) == given["trajectory"] and contents[1] == b"noted"


async def test_what_is_not_there_has_a_page_that_says_so(
    page_client: httpx.AsyncClient, worker: Worker
) -> None:
    for path in (
        "/nowhere/runs",
        "/agents/runs/no-such-run",
        address(worker, "/samples/0/0"),
        address(worker, "/samples/x/0"),
        "/no/such/page",
    ):
        answer = await page_client.get(path)
        assert answer.status_code in (400, 404), path
        assert answer.headers["content-type"].startswith("text/html") and "<h1>" in answer.text


async def read_events(response: httpx.Response, wanted: int) -> list[tuple[str, dict[str, Any]]]:
    """The first events of a stream."""
    events: list[tuple[str, dict[str, Any]]] = []
    name = ""
    async for line in response.aiter_lines():
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            events.append((name, json.loads(line.removeprefix("data: "))))
            if len(events) >= wanted or name == "end":
                return events
    return events


async def test_a_live_page_gets_a_snapshot_then_what_changed_then_the_end(
    live_url: str, page_client: httpx.AsyncClient, worker: Worker
) -> None:
    cookies = dict(page_client.cookies)
    async with (
        asyncio.timeout(20),
        httpx.AsyncClient(base_url=live_url, cookies=cookies) as browser,
        browser.stream("GET", address(worker, "/live")) as stream,
    ):
        assert stream.headers["content-type"].startswith("text/event-stream")
        snapshot, later = asyncio.Event(), []

        async def follow() -> None:
            async for line in stream.aiter_lines():
                if line.startswith("data: "):
                    data = json.loads(line.removeprefix("data: "))
                    later.append(data)
                    if data.get("id") == "samples":
                        snapshot.set()
                elif line == "event: end":
                    return

        following = asyncio.create_task(follow())
        await snapshot.wait()
        assert [event["id"] for event in later] == [
            "status",
            "numbers",
            "chart",
            "errors",
            "spreads",
            "log",
            "samples",
        ]
        later.clear()
        await worker.send(*(record(row, index) for row in range(30) for index in range(2)))
        await worker.finish()
        await following
        regions = {event["id"]: event["html"] for event in later if "id" in event}
        assert "60 / 60 samples" in text_of(regions["status"])
        assert "finished" in regions["status"]


async def test_a_reconnecting_page_gets_a_whole_snapshot_again(
    live_url: str, page_client: httpx.AsyncClient, worker: Worker
) -> None:
    cookies = dict(page_client.cookies)
    await worker.send(record(0))
    async with (
        asyncio.timeout(20),
        httpx.AsyncClient(base_url=live_url, cookies=cookies) as browser,
    ):
        for _ in range(2):
            async with browser.stream("GET", address(worker, "/live")) as stream:
                events = await read_events(stream, 6)
            assert len(events) == 6 and "1 / 60" in text_of(events[0][1]["html"])


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (duration(250), "250 ms"),
        (duration(4200), "4.2 s"),
        (duration(185_000), "3 min 05 s"),
        (duration(7_800_000), "2 h 10 min"),
        (duration(None), "–"),
        (money(None), "unknown"),
        (money(0.0), "$0"),
        (money(0.00001234), "$1.2e-05"),
        (money(1234.5), "$1,234.50"),
        (percent(1 / 3), "33.3%"),
        (number(0.5), "0.5"),
        (number(1e12), "1e+12"),
        (number(0.9999999), "0.9999999"),
        (shortened("abcdef", 3), "abc\n… 3 more characters; the download has them all."),
    ],
)
def test_values_read_well(given: str, shown: str) -> None:
    assert given == shown


def rewards(values: list[float]) -> Distribution:
    made = Distribution()
    for value in values:
        made.add(value)
    return made


def test_the_chart_marks_what_passes_and_where_the_threshold_lies() -> None:
    chart = reward_chart(histogram(rewards([0.0] * 3 + [0.5] + [1.0] * 6)), 0.5, 7)
    assert chart is not None and chart.threshold_x == chart.width / 2
    assert [(bar.count, bar.passing) for bar in chart.bars if bar.count] == [
        (3, False),
        (1, True),
        (6, True),
    ]
    near = reward_chart(histogram(rewards([0.97, 0.98])), 1.0, 0)
    assert near is not None and not any(bar.passing for bar in near.bars)
    single = reward_chart(histogram(rewards([7.0, 7.0])), 1.0, 2)
    assert single is not None and len(single.bars) == 1 and single.bars[0].passing
    assert reward_chart(None, 1.0, 0) is None


def test_a_step_of_any_shape_becomes_a_turn() -> None:
    for step in (None, 5, [], {}, {"tool_calls": 1, "observation": [], "metrics": "x"}):
        assert turn_of(step).role == "user"
    assert label_of({"extra": {"osmosis": {"label": 7}}}) == "7"
    assert label_of({"extra": None}) is None


def test_a_table_in_a_table_is_told_in_one_line_too() -> None:
    check = {"prompt_tokens": 7, "cost_usd": None}
    assert flattened({"provider": "openai", "check": check, "wait_s": 3}) == (
        "provider: openai, check: (prompt tokens: 7), wait: 3 s"
    )
