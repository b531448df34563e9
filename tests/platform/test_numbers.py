"""The numbers of a run are kept as records arrive, and are what a count of its samples gives."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from sqlalchemy import delete, event, select, update

from osmosis.metrics import Summary, distribution, summarize, summary_of
from osmosis.metrics.documents import load_summary
from osmosis.platform.db.models import Run, RunTally, Sample
from osmosis.platform.evals import median
from osmosis.platform.evals.numbers import Numbers
from osmosis.platform.evals.run_count import RunCount
from osmosis.platform.evals.tallies import Counted, count_anew, load_tally
from osmosis.platform.platform import Platform
from tests.platform.runs import Worker, record, submission

pytestmark = pytest.mark.usefixtures("commit")

RUNS = "/api/cli/eval-runs"
KINDS: list[dict[str, Any]] = [
    {"reward": 1.0, "metrics": {"turns": 3.0}},
    {"reward": 0.1, "cost_usd": None},
    {"reward": 0.7, "metrics": {"turns": 5.0, "style": 0.2}, "queue_ms": 12.5},
    {"status": "failed", "reward": None, "error_type": "timeout", "tokens": None},
    {"status": "failed", "reward": 0.3, "error_type": "workflow_failed"},
    {"status": "skipped", "reward": None},
]


@pytest.fixture
async def worker(client: httpx.AsyncClient, worker_client: httpx.AsyncClient) -> Worker:
    """A claimed run of 12 rows of 3 samples."""
    return await claimed(client, worker_client, limit=12, n=3, pass_threshold=0.5)


async def claimed(
    client: httpx.AsyncClient, worker_client: httpx.AsyncClient, **evaluation: Any
) -> Worker:
    assert (await client.post(RUNS, json=submission(**evaluation))).status_code == 201
    worker = await Worker.claims(worker_client)
    assert worker is not None
    return worker


def records(rows: int, n: int, seed: int) -> list[dict[str, Any]]:
    """All samples of a run, of every kind, in an order of chance."""
    generator = random.Random(seed)
    made = [
        record(row, run, duration_ms=generator.uniform(1, 1e5), **generator.choice(KINDS))
        for row in range(rows)
        for run in range(n)
    ]
    generator.shuffle(made)
    return made


async def kept(platform: Platform, run_id: str) -> RunCount | None:
    return await platform.db.examine(lambda connection: load_tally(connection, run_id))


async def recounted(platform: Platform, run_id: str, n: int = 3) -> RunCount:
    count, _ = await platform.db.examine(
        lambda connection: count_anew(connection, run_id, pass_threshold=0.5, n=n)
    )
    return count


async def directly(platform: Platform, run_id: str, n: int = 3) -> Summary:
    """The summary of the samples in the database, all at once."""
    async with platform.db.read() as session:
        columns = [getattr(Sample, name) for name in Counted._fields]
        found = await session.execute(select(*columns).where(Sample.run_id == run_id))
        outcomes = [Counted(*row).outcome() for row in found]
    return summarize(outcomes, pass_threshold=0.5, n=n)


async def run_of(platform: Platform, run_id: str) -> Run:
    async with platform.db.read() as session:
        return await session.get_one(Run, run_id)


@contextmanager
def statements(platform: Platform) -> Iterator[list[str]]:
    """What is asked of the database meanwhile."""
    asked: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        asked.append(statement)

    engines = [platform.db.engine.sync_engine, platform.db._direct]  # pyright: ignore[reportPrivateUsage]
    for engine in engines:
        event.listen(engine, "before_cursor_execute", note)
    yield asked
    for engine in engines:
        event.remove(engine, "before_cursor_execute", note)


@pytest.mark.parametrize("n", [1, 3])
async def test_what_is_kept_equals_what_a_count_gives_after_each_batch(
    client: httpx.AsyncClient,
    worker_client: httpx.AsyncClient,
    platform: Platform,
    monkeypatch: pytest.MonkeyPatch,
    n: int,
) -> None:
    monkeypatch.setattr(distribution, "EXACT_VALUES", 3)
    monkeypatch.setattr(median, "MAX_STEPS", 2)
    worker = await claimed(client, worker_client, limit=12, n=n, pass_threshold=0.5)
    run_id = worker.spec["run_id"]
    waiting = records(12, n, seed=n)
    sent: list[dict[str, Any]] = []
    while waiting:
        batch, waiting = waiting[:5], waiting[5:]
        # A batch whose answer was lost comes again, with new ones behind it.
        assert (await worker.send(*sent[-3:], *batch)).status_code == 200
        sent += batch
        assert await kept(platform, run_id) == await recounted(platform, run_id, n)
        summary = await Numbers(platform.db).summary(await run_of(platform, run_id))
        assert summary == await directly(platform, run_id, n)
    summary = await directly(platform, run_id, n)
    assert summary.spreads["cost_usd"].count < summary.total_samples
    assert summary.metrics["turns"].count == sum(
        "turns" in (item.get("metrics") or {}) for item in sent
    )


async def test_a_run_shows_its_numbers_without_a_look_at_its_samples(
    client: httpx.AsyncClient, worker: Worker, platform: Platform
) -> None:
    await worker.send(*records(12, 3, seed=1))
    with statements(platform) as asked:
        shown = (await client.get(f"{RUNS}/{worker.spec['run_id']}")).json()
    assert shown["results"]["total_runs"] == 36
    assert asked and not any("samples" in statement.split("FROM")[-1] for statement in asked)


async def test_the_final_summary_is_stored_with_the_version_of_its_definitions(
    worker: Worker, platform: Platform
) -> None:
    await worker.send(*records(12, 3, seed=2))
    await worker.finish()
    run = await run_of(platform, worker.spec["run_id"])
    assert run.summary is not None and run.summary["definition_version"] == 2
    assert load_summary(run.summary) == summary_of((await recounted(platform, run.id)).whole())


async def test_a_run_of_an_earlier_version_is_counted_once_and_kept_from_then_on(
    worker: Worker, platform: Platform
) -> None:
    run_id = worker.spec["run_id"]
    made = records(12, 3, seed=3)
    await worker.send(*made[:20])
    async with platform.db.write() as session:
        await session.execute(delete(RunTally))
    await worker.send(*made[20:25])
    assert await kept(platform, run_id) is None
    await Numbers(platform.db).summary(await run_of(platform, run_id))
    assert await kept(platform, run_id) == await recounted(platform, run_id)
    async with platform.db.write() as session:
        await session.execute(update(RunTally).values(version=1))
    await worker.send(*made[25:])
    await worker.finish()
    run = await run_of(platform, run_id)
    assert run.summary is not None
    assert load_summary(run.summary) == summary_of((await recounted(platform, run_id)).whole())


async def test_a_stored_summary_of_earlier_definitions_is_counted_anew(
    worker: Worker, platform: Platform
) -> None:
    await worker.send(*records(12, 3, seed=4))
    await worker.finish()
    run = await run_of(platform, worker.spec["run_id"])
    assert run.summary is not None
    before = load_summary(run.summary)
    run.summary = {"total_samples": 36}
    assert await Numbers(platform.db).summary(run) == before


async def test_samples_that_arrive_during_a_count_are_in_it(
    worker: Worker, platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = worker.spec["run_id"]
    made = records(12, 3, seed=5)
    await worker.send(*made[:20])
    async with platform.db.write() as session:
        await session.execute(delete(RunTally))
    numbers, run = Numbers(platform.db), await run_of(platform, run_id)
    examine, looks = platform.db.examine, 0

    async def examine_then_send(work: Any) -> Any:
        nonlocal looks
        looks += 1
        found = await examine(work)
        if looks == 2:  # the count itself; the first look is whether there is a tally
            await worker.send(*made[20:])
        return found

    monkeypatch.setattr(platform.db, "examine", examine_then_send)
    await numbers.ensure_counted(run)
    monkeypatch.undo()
    assert await kept(platform, run_id) == await recounted(platform, run_id)


async def test_a_retry_keeps_the_numbers_of_what_stays_and_counts_what_comes(
    client: httpx.AsyncClient,
    worker_client: httpx.AsyncClient,
    worker: Worker,
    platform: Platform,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(distribution, "EXACT_VALUES", 2)
    run_id = worker.spec["run_id"]
    made = records(12, 3, seed=6)
    await worker.send(*made)
    await worker.finish()
    assert (await client.post(f"{RUNS}/{run_id}/retry", json={})).status_code == 200
    with statements(platform) as asked:
        shown = (await client.get(f"{RUNS}/{run_id}")).json()["results"]
    assert not any("samples.record" in statement for statement in asked)
    assert shown["failed"] == shown["skipped"] == 0
    assert await kept(platform, run_id) == await recounted(platform, run_id)
    summary = await Numbers(platform.db).summary(await run_of(platform, run_id))
    assert summary == await directly(platform, run_id)
    again = await Worker.claims(worker_client)
    assert again is not None
    redone = [item for item in made if item["status"] != "success"]
    await again.send(*(record(item["row_index"], item["run_index"]) for item in redone))
    await again.finish()
    shown = (await client.get(f"{RUNS}/{run_id}")).json()["results"]
    assert shown["graded"] == 36
    assert await kept(platform, run_id) == await recounted(platform, run_id)


@pytest.mark.parametrize("order", ["rising", "falling", "mixed", "tied"])
async def test_the_median_stays_exact_whatever_comes_in_which_order(
    worker: Worker, platform: Platform, monkeypatch: pytest.MonkeyPatch, order: str
) -> None:
    monkeypatch.setattr(distribution, "EXACT_VALUES", 4)
    monkeypatch.setattr(median, "MAX_STEPS", 1)
    run_id = worker.spec["run_id"]
    rewards = [index / 36 for index in range(36)]
    if order == "falling":
        rewards.reverse()
    if order == "mixed":
        random.Random(2).shuffle(rewards)
    if order == "tied":
        rewards = [-1.0 if index < 8 else 1.0 if index % 3 else index / 36 for index in range(36)]
    made = [record(index // 3, index % 3, reward=reward) for index, reward in enumerate(rewards)]
    for start in range(0, 36, 4):
        await worker.send(*made[start : start + 4])
        summary = await Numbers(platform.db).summary(await run_of(platform, run_id))
        assert summary == await directly(platform, run_id)


async def test_the_median_of_more_rewards_than_are_kept_comes_from_the_samples(
    worker: Worker, platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(distribution, "EXACT_VALUES", 5)
    rewards = [index / 36 for index in range(36)]
    made = [record(index // 3, index % 3, reward=reward) for index, reward in enumerate(rewards)]
    made[35] = record(11, 2, status="skipped", reward=None)
    await worker.send(*made)
    run = await run_of(platform, worker.spec["run_id"])
    summary: Summary = await Numbers(platform.db).summary(run)
    assert summary.reward_stats is not None
    assert summary.reward_stats.median == rewards[17]
