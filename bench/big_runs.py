"""What big runs cost to look at: a run of a million samples, and two of 100,000 rows compared.

The runs are inserted, not evaluated; the server is asked in this process, so a figure is the time
of its code and of its database alone.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
from fastapi import FastAPI

from bench.report import report
from lab.synthetic_runs import add_run
from osmosis.platform.accounts.service import first_user
from osmosis.platform.app import create_app
from osmosis.platform.platform import Platform
from osmosis.platform.security.tokens import issue_token
from osmosis.platform.settings import Settings
from osmosis.platform.workspaces import service as workspaces

RUNS = "/api/cli/eval-runs"
IDENTITY = "bench/big"
SAMPLES = 1_000_000
COMPARED_ROWS = 100_000
CALLS = 7


def big_runs(samples: int = SAMPLES, compared_rows: int = COMPARED_ROWS) -> None:
    """Report each figure."""
    for name, value, unit in asyncio.run(_measure(samples, compared_rows)):
        report(name, value, unit, samples=samples, compared_rows=compared_rows)


async def _measure(samples: int, compared_rows: int) -> list[tuple[str, float, str]]:
    async with _server() as (app, client, workspace_id):
        platform: Platform = app.state.platform

        async def add(name: str, rows: int, **more: Any) -> str:
            return await platform.db.transact(
                lambda connection: add_run(connection, workspace_id, name=name, rows=rows, **more)
            )

        def continuous(chance: Any, _row: int) -> float:
            return min(1.0, chance.random() * 1.5)

        # Under way, so that nothing is summed up beforehand; every reward is another one.
        run_id = await add("million", samples // 4, n=4, status="running", grade=continuous)
        for number in (1, 2):
            await add(f"compared-{number}", compared_rows, seed=number, grade=continuous)

        def forget() -> None:
            app.state.runs.numbers.forget(run_id)

        figures = [("info_of_a_big_run_ms", await _get_ms(client, f"{RUNS}/million", forget))]
        page = f"{RUNS}/million/samples?limit=50"
        cursor = await _middle(client, page)
        for name, query in (
            ("first", ""),
            ("deep", f"&cursor={cursor}"),
            ("failed", "&status=failed"),
            ("worst", "&order=reward"),
            ("worst_failed", "&order=reward&passed=false&status=failed"),
            ("rows", f"&rows=1,5,{samples // 8}-{samples // 7}"),
        ):
            figures.append((f"sample_page_{name}_ms", await _get_ms(client, page + query)))
        compare_s = await _compare_s(client, 20)
        again_s = await _compare_s(client, 21)
    return [
        *((name, value, "ms") for name, value in figures),
        ("compare_first_s", compare_s, "s"),
        ("compare_s", again_s, "s"),
    ]


@asynccontextmanager
async def _server() -> AsyncIterator[tuple[FastAPI, httpx.AsyncClient, str]]:
    with tempfile.TemporaryDirectory(prefix="osmosis-big-") as scratch:
        app = create_app(Settings(data_dir=Path(scratch) / "data", embedded_worker=False))
        async with app.router.lifespan_context(app):
            platform: Platform = app.state.platform
            async with platform.db.write() as session:
                user = await first_user(session)
                made, _ = await workspaces.create(session, user.id, "big", IDENTITY)
                _, token = await issue_token(session, kind="personal", name="b", user_id=user.id)
            headers = {"Authorization": f"Bearer {token}", "X-Osmosis-Git": IDENTITY}
            async with httpx.AsyncClient(
                transport=httpx.ASGITransport(app),
                base_url="http://127.0.0.1:7670",
                headers=headers,
                timeout=600,
            ) as client:
                yield app, client, made.workspace.id


async def _get_ms(
    client: httpx.AsyncClient, path: str, before: Callable[[], None] = lambda: None
) -> float:
    """Median milliseconds of a GET; ``before`` is done ahead of each."""
    taken: list[float] = []
    for _ in range(CALLS):
        before()
        started = time.perf_counter()
        answer = await client.get(path)
        taken.append((time.perf_counter() - started) * 1000)
        answer.raise_for_status()
    return statistics.median(taken)


async def _middle(client: httpx.AsyncClient, page: str) -> str:
    """A cursor some pages in; where it lies makes no difference to an index."""
    cursor = ""
    for _ in range(20):
        answer = (await client.get(page + (f"&cursor={cursor}" if cursor else ""))).json()
        cursor = answer["next_cursor"]
    return cursor


async def _compare_s(client: httpx.AsyncClient, rows: int) -> float:
    """Seconds of a comparison that is not known yet; the first one also loads numpy and scipy."""
    started = time.perf_counter()
    answer = await client.post(
        f"{RUNS}/compare", json={"runs": ["compared-1", "compared-2"], "rows": rows}
    )
    answer.raise_for_status()
    return time.perf_counter() - started
