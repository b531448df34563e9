"""Samples and downloads: paged by key and by step, with sizes that are true."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from itertools import product
from typing import Any

import httpx
import pytest
from sqlalchemy import Connection, select

from osmosis.dataset.selection import parse_ranges
from osmosis.platform.db.models import Run, Sample
from osmosis.platform.evals import sample_walks
from osmosis.platform.evals.sample_page import (
    SamplePage,
    decode_place,
    lanes_of,
    page_of_samples,
)
from osmosis.platform.evals.sample_walks import Place
from osmosis.platform.platform import Platform
from tests.platform.runs import Running, Worker, record, submission

RUNS = "/api/cli/eval-runs"


@pytest.fixture
async def worker(running: Running) -> Worker:
    """The worker of a running run of 40 rows × 2."""
    return await running(limit=40, n=2)


def path_of(worker: Worker, what: str) -> str:
    return f"{RUNS}/{worker.spec['name']}/samples{what}"


async def fetch(
    client: httpx.AsyncClient, anonymous: httpx.AsyncClient, worker: Worker, query: str
) -> dict[str, bytes]:
    """Everything that a manifest lists, fetched without a token; sizes checked."""
    manifest = (await client.get(path_of(worker, f"/manifest?{query}"))).json()
    items = [{"path": file["path"], "token": file["token"]} for file in manifest["files"]]
    answer = await client.post(path_of(worker, "/download-urls"), json={"items": items})
    assert answer.status_code == 200, answer.text
    sizes = {file["path"]: file["size"] for file in manifest["files"]}
    contents: dict[str, bytes] = {}
    for item in answer.json()["items"]:
        file = await anonymous.get(item["url"])
        assert file.status_code == 200, file.text
        assert len(file.content) == sizes[item["path"]], item["path"]
        contents[item["path"]] = file.content
    return contents


async def test_samples_page_by_key_and_filter_by_status(
    client: httpx.AsyncClient, worker: Worker
) -> None:
    failed = {"status": "failed", "reward": None, "error_type": "agent_error"}
    await worker.send(
        *(
            record(row, run, **(failed if row % 3 == 0 else {}))
            for row in reversed(range(30))
            for run in (1, 0)
        )
    )
    seen: list[tuple[int, int]] = []
    cursor = ""
    while True:
        query = f"?limit=17{cursor and f'&cursor={cursor}'}"
        page = (await client.get(path_of(worker, query))).json()
        seen += [(item["row_index"], item["run_index"]) for item in page["samples"]]
        if (cursor := page["next_cursor"]) is None:
            break
    assert seen == [(row, run) for row in range(30) for run in (0, 1)]
    page = (await client.get(path_of(worker, "?status=failed&limit=50"))).json()
    assert {item["row_index"] for item in page["samples"]} == set(range(0, 30, 3))
    assert (await client.get(path_of(worker, "?status=odd"))).status_code == 400


async def read_all(
    client: httpx.AsyncClient, worker: Worker, query: str, limit: int = 7
) -> list[dict[str, Any]]:
    """Every sample of a filter, page by page."""
    found: list[dict[str, Any]] = []
    cursor = ""
    while True:
        more = f"&cursor={cursor}" if cursor else ""
        answer = await client.get(path_of(worker, f"?limit={limit}&{query}{more}"))
        assert answer.status_code == 200, answer.text
        page = answer.json()
        found += page["samples"]
        if (cursor := page["next_cursor"]) is None:
            return found


async def send_a_mixture(worker: Worker) -> None:
    """Of each row: 0 and 1 of 5 pass, 2 is below the threshold, 3 is broken, 4 is skipped."""
    kinds = (
        {"reward": 1.0},
        {"reward": 1.5},
        {"reward": 0.1},
        {"status": "failed", "reward": None, "error_type": "timeout"},
        {"status": "skipped", "reward": None},
    )
    await worker.send(*(record(row, run, **kinds[row % 5]) for row in range(40) for run in (0, 1)))


@pytest.mark.parametrize(
    ("query", "kinds"),
    [
        ("passed=true", {0, 1}),
        ("passed=false", {2, 3}),
        ("status=failed", {3}),
        ("status=skipped", {4}),
        ("error=timeout", {3}),
        ("error=agent_error", set()),
        ("passed=false&error=timeout", {3}),
    ],
)
async def test_a_filter_gives_exactly_its_samples(
    client: httpx.AsyncClient, worker: Worker, query: str, kinds: set[int]
) -> None:
    await send_a_mixture(worker)
    found = await read_all(client, worker, query)
    expected = [(row, run) for row in range(40) for run in (0, 1) if row % 5 in kinds]
    assert [(item["row_index"], item["run_index"]) for item in found] == expected


async def test_rows_are_picked_by_ranges(client: httpx.AsyncClient, worker: Worker) -> None:
    await send_a_mixture(worker)
    found = await read_all(client, worker, "rows=3,7,10-12,100", limit=3)
    assert [item["row_index"] for item in found] == [3, 3, 7, 7, 10, 10, 11, 11, 12, 12]
    many = ",".join(str(2 * n) for n in range(300))
    for rows in ("x", "5-3", many):
        assert (await client.get(path_of(worker, f"?rows={rows}"))).status_code == 400


async def test_the_worst_come_first_and_ties_in_order(
    client: httpx.AsyncClient, worker: Worker
) -> None:
    await send_a_mixture(worker)
    found = await read_all(client, worker, "order=reward", limit=5)
    keys = [(item["reward"], item["row_index"], item["run_index"]) for item in found]
    assert keys == sorted(keys)
    assert len(set(keys)) == 3 * 8 * 2
    assert keys[0][0] == 0.1 and keys[-1][0] == 1.5


@pytest.mark.parametrize("cursor", ["@@", "x", "AAAA", "_" * 32])
async def test_a_cursor_that_is_not_ours_is_refused(
    client: httpx.AsyncClient, worker: Worker, cursor: str
) -> None:
    assert (await client.get(path_of(worker, f"?cursor={cursor}"))).status_code == 400


RANGES = "0-2,5,9,11-12,20-39"
FILTERS: list[dict[str, Any]] = [
    {"status": status, "passed": passed, "error": error, "rows": rows}
    for status in (None, "success", "failed", "skipped")
    for passed in (None, True, False)
    for error in (None, "timeout")
    for rows in (None, RANGES)
]


async def send_every_kind(worker: Worker) -> None:
    """Samples of every status, reward and error that there can be, in an order of chance."""
    chance = random.Random(3)
    kinds: list[dict[str, Any]] = [
        *({"reward": reward} for reward in (1.0, 1.0, 1.5, 0.0, 0.0, 0.1, -2.0)),
        {"status": "failed", "reward": None, "error_type": "timeout"},
        {"status": "failed", "reward": 1.0, "error_type": "timeout"},
        {"status": "failed", "reward": 0.0, "error_type": "agent_error"},
        {"status": "skipped", "reward": None},
        {"status": "skipped", "reward": 0.0},
    ]
    places = [(row, run) for row in range(39) for run in (0, 1)]
    chance.shuffle(places)
    await worker.send(*(record(row, run, **chance.choice(kinds)) for row, run in places))


async def test_every_filter_with_every_other_and_each_order_gives_its_samples_page_by_page(
    worker: Worker, platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    await send_every_kind(worker)
    async with platform.db.read() as session:
        run = (await session.execute(select(Run))).scalar_one()
        samples = (await session.execute(select(Sample))).scalars().all()

        def wanted(sample: Sample, page: SamplePage) -> bool:
            return (
                page.status in (None, sample.status)
                and page.passed in (None, sample.passed)
                and page.error in (None, sample.error_type)
                and (page.rows is None or sample.row_index in parse_ranges(page.rows))
                and (page.order == "row" or sample.reward is not None)
                and (page.order == "row" or sample.status != "skipped")
            )

        for most, order in product((sample_walks.MAX_PICKED, 10), ("row", "reward")):
            monkeypatch.setattr(sample_walks, "MAX_PICKED", most)
            place = sample_walks.by_row if order == "row" else sample_walks.by_reward
            for filters in FILTERS:
                page = SamplePage(9, None, **filters, order=order)
                expected = sorted((s for s in samples if wanted(s, page)), key=place)
                found: list[Sample] = []
                while True:
                    some, cursor = await page_of_samples(session, run, page)
                    found += some
                    if cursor is None:
                        break
                    page = replace(page, after=decode_place(cursor))
                assert [by_place(s) for s in found] == [by_place(s) for s in expected], page


def by_place(sample: Sample) -> tuple[int, int]:
    return sample.row_index, sample.run_index


async def test_every_page_is_a_walk_along_an_index(worker: Worker, platform: Platform) -> None:
    """None compares a column that its index does not fix, and none sorts but a few picked rows."""
    async with platform.db.read() as session:
        run = (await session.execute(select(Run))).scalar_one()
    pages = [
        SamplePage(9, after, order="row" if in_rows else "reward", **filters)
        for after, in_rows, filters in product((None, Place(0.5, 7, 1)), (True, False), FILTERS)
    ]
    queries = [(p, query) for p in pages for lane in lanes_of(run, p) for query in lane]

    def explained(connection: Connection) -> list[list[str]]:
        texts = [
            query.limit(9).compile(connection, compile_kwargs={"literal_binds": True})
            for _, query in queries
        ]
        asked = (f"EXPLAIN QUERY PLAN {text}" for text in texts)
        return [[row[3] for row in connection.exec_driver_sql(text)] for text in asked]

    for (page, query), steps in zip(queries, await platform.db.examine(explained), strict=True):
        assert "USING INDEX" in steps[0], (page, steps)
        assert page.rows or len(steps) == 1, (page, steps)
        if page.order == "row":
            fixed = [f"{c}=?" for c in ("status", "passed", "error_type") if f"{c} " in str(query)]
            assert all(column in steps[0] for column in fixed), (page, steps)


async def test_one_sample_shows_its_record_and_pages_its_steps(
    client: httpx.AsyncClient, worker: Worker
) -> None:
    steps = [{"step_id": i + 1, "source": "agent", "message": f"m{i}"} for i in range(130)]
    whole = record(3, 1, output="printed\n", metrics={"loss": 0.5})
    whole["trajectory"]["steps"] = steps
    await worker.send(whole)
    first = (await client.get(path_of(worker, "/3/1"))).json()
    assert first["reward"] == 1.0 and first["metrics"] == {"loss": 0.5}
    assert first["output"] == "printed\n" and first["call_count"] == 1
    assert first["calls"][0]["model"] == "gpt-5-mini"
    assert first["steps"] == steps[:50] and first["step_count"] == 130
    assert first["trajectory"]["extra"]["osmosis"]["label"] == "3"
    last = (await client.get(path_of(worker, "/3/1?from=100&count=50"))).json()
    assert last["steps"] == steps[100:] and last["next_from"] is None


async def test_a_sample_without_trajectory_has_no_steps(
    client: httpx.AsyncClient, worker: Worker
) -> None:
    message = "The process ended with exit code 3."
    await worker.send(
        record(
            0,
            status="failed",
            reward=None,
            trajectory=None,
            calls=[],
            error_type="rollout_crashed",
            error_message=message,
        )
    )
    sample = (await client.get(path_of(worker, "/0/0"))).json()
    assert sample["steps"] == [] and sample["error_message"] == message
    missing = await client.get(path_of(worker, "/1/0"))
    assert missing.status_code == 404 and "not been recorded" in missing.json()["error"]
    outside = await client.get(path_of(worker, "/40/0"))
    assert "40 rows of 2 samples" in outside.json()["error"]


async def test_downloads_have_the_promised_size_while_the_run_goes_on(
    client: httpx.AsyncClient, anonymous: httpx.AsyncClient, worker: Worker
) -> None:
    await worker.send(record(0, 0), record(0, 1, trajectory=None))
    manifest = (await client.get(path_of(worker, "/manifest?types=trajectories,metrics"))).json()
    paths = [file["path"] for file in manifest["files"]]
    assert paths == ["metrics.json", "summary.jsonl", "trajectories/row_0_run_0.json"]
    await worker.send(record(1, 0))
    items = [{"path": file["path"], "token": file["token"]} for file in manifest["files"]]
    answer = await client.post(path_of(worker, "/download-urls"), json={"items": items})
    for item, file in zip(answer.json()["items"], manifest["files"], strict=True):
        got = await anonymous.get(item["url"])
        assert len(got.content) == file["size"]
    later = await fetch(client, anonymous, worker, "types=trajectories")
    assert len(later["summary.jsonl"].splitlines()) == 3


async def test_each_kind_of_file_downloads_whole(
    client: httpx.AsyncClient, anonymous: httpx.AsyncClient, worker: Worker
) -> None:
    given = record(2, 1, artifacts=["notes/ä b.txt"])
    await worker.put(f"artifacts/{given['rollout_id']}/notes/%C3%A4%20b.txt", b"hello")
    await worker.send(record(0), given)
    await worker.post(
        "logs",
        entries=[{"timestamp": "2026-01-02T03:04:05Z", "step": "install", "message": "done"}],
    )
    await worker.finish("stopped", stop_reason="budget")
    files = await fetch(
        client, anonymous, worker, "types=metrics%2Ctrajectories%2Cartifacts%2Clogs"
    )
    assert set(files) == {
        "metrics.json",
        "summary.jsonl",
        "logs.txt",
        "trajectories/row_0_run_0.json",
        "trajectories/row_2_run_1.json",
        "artifacts/row_2_run_1/notes/ä b.txt",
    }
    assert json.loads(files["trajectories/row_2_run_1.json"]) == given["trajectory"]
    assert files["artifacts/row_2_run_1/notes/ä b.txt"] == b"hello"
    rows = [json.loads(line) for line in files["summary.jsonl"].splitlines()]
    assert [(row["row_index"], row["run_index"]) for row in rows] == [(0, 0), (2, 1)]
    assert None not in rows[0].values()
    metrics = json.loads(files["metrics.json"])
    assert metrics["eval_run"]["status"] == "stopped"
    assert metrics["summary"]["total_samples"] == 2
    assert "2026-01-02T03:04:05Z INFO [install] done" in files["logs.txt"].decode()


async def test_rows_choose_samples(client: httpx.AsyncClient, worker: Worker) -> None:
    await worker.send(*(record(row) for row in range(6)))
    answer = await client.get(path_of(worker, "/manifest?types=trajectories&rows=1%2C3-4"))
    paths = [file["path"] for file in answer.json()["files"]]
    assert paths[1:] == [f"trajectories/row_{row}_run_0.json" for row in (1, 3, 4)]
    refused = await client.get(path_of(worker, "/manifest?rows=99"))
    assert refused.status_code == 400 and "40 rows" in refused.json()["error"]


async def test_an_address_opens_only_what_it_was_made_for(
    client: httpx.AsyncClient, anonymous: httpx.AsyncClient, worker: Worker
) -> None:
    await worker.send(record(0), record(1))
    body: dict[str, Any] = {"items": [{"path": "trajectories/row_0_run_0.json"}]}
    answer = await client.post(path_of(worker, "/download-urls"), json=body)
    url = answer.json()["items"][0]["url"]
    assert (await anonymous.get(url)).status_code == 200
    assert (await anonymous.get(url[:-3] + "abc")).status_code == 403
    assert (await anonymous.get(url.split("?")[0])).status_code == 403
    for path in ("../osmosis.db", "osmosis.db", "artifacts/row_0_run_0/../../x", "logs.txt"):
        body = {"items": [{"path": path, "token": "../../x"}]}
        answer = await client.post(path_of(worker, "/download-urls"), json=body)
        if answer.status_code == 200:
            got = await anonymous.get(answer.json()["items"][0]["url"])
            assert got.status_code in (400, 404), path


async def test_a_pending_run_has_nothing_to_download(
    client: httpx.AsyncClient, worker: Worker
) -> None:
    made = (await client.post(RUNS, json=submission(limit=1))).json()
    answer = await client.get(f"{RUNS}/{made['name']}/samples/manifest")
    assert answer.status_code == 409
    refused = await client.get(path_of(worker, "/manifest?types=metric"))
    assert refused.status_code == 400 and "'metrics'" in refused.json()["error"]


async def test_artifacts_are_sent_as_plain_bytes(
    client: httpx.AsyncClient, anonymous: httpx.AsyncClient, worker: Worker
) -> None:
    given = record(0, artifacts=["page.html"])
    await worker.put(f"artifacts/{given['rollout_id']}/page.html", b"<script>alert(1)</script>")
    await worker.send(given)
    body = {"items": [{"path": "artifacts/row_0_run_0/page.html"}]}
    answer = await client.post(path_of(worker, "/download-urls"), json=body)
    got = await anonymous.get(answer.json()["items"][0]["url"])
    assert got.headers["content-type"] == "application/octet-stream"
    assert got.headers["content-disposition"].startswith("attachment")
