"""The verdict of a gate, on runs as a worker leaves them."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.platform.runs import Running, Worker, record, submission

RUNS = "/api/cli/eval-runs"
BROKEN = {"status": "failed", "reward": None, "error_type": "timeout"}
CRASHED = {"status": "failed", "reward": None, "error_type": "agent_error"}


@pytest.fixture
async def worker(running: Running) -> Worker:
    """The worker of a running run of 6 rows × 2."""
    return await running(limit=6, n=2)


async def verdict(client: httpx.AsyncClient, worker: Worker, query: str = "") -> dict[str, Any]:
    answer = await client.get(f"{RUNS}/{worker.spec['name']}/verdict?{query}")
    assert answer.status_code == 200, answer.text
    return answer.json()


async def record_rows(worker: Worker, *rows: tuple[dict[str, Any], dict[str, Any]]) -> None:
    await worker.send(
        *(
            record(row, run, **changes)
            for row, both in enumerate(rows)
            for run, changes in enumerate(both)
        )
    )


async def finish_a_mixture(worker: Worker) -> None:
    """Passed 7 of 12: rows pass 2, 2, 1, 1 (one broken), 1 (one crashed) and 0 times."""
    won, lost = {"reward": 1.0}, {"reward": 0.0}
    await record_rows(
        worker, (won, won), (won, won), (won, lost), (BROKEN, won), (won, CRASHED), (lost, lost)
    )
    await worker.finish()


@pytest.mark.parametrize(
    ("query", "outcome", "rows"),
    [
        ("", "passed", None),
        ("min_pass_rate=0.5", "passed", None),
        ("min_pass_rate=0.6", "incomplete", None),
        ("min_pass_rate=0.7", "failed", None),
        ("min_score=0.7", "passed", None),
        ("min_score=0.8", "failed", None),
        ("min_row_pass_rate=0.5", "failed", [5]),
        ("min_row_pass_rate=0.6", "failed", [2, 4, 5]),
        ("min_row_score=0.5", "failed", [5]),
        ("min_row_score=0.75", "failed", [2, 5]),
        ("min_row_score=0", "passed", None),
        ("min_pass_rate=0.5&min_row_pass_rate=1", "failed", [2, 4, 5]),
    ],
)
async def test_thresholds_are_judged_on_the_recorded_samples(
    client: httpx.AsyncClient, worker: Worker, query: str, outcome: str, rows: list[int] | None
) -> None:
    await finish_a_mixture(worker)
    found = await verdict(client, worker, query)
    assert found["outcome"] == outcome
    assert [check["rows"] for check in found["checks"] if "rows" in check] == (
        [rows] if rows else []
    )


async def test_a_row_that_only_broke_leaves_the_gate_undecided(
    client: httpx.AsyncClient, worker: Worker
) -> None:
    won = {"reward": 1.0}
    await record_rows(worker, *[(won, won)] * 5, (BROKEN, BROKEN))
    await worker.finish()
    found = await verdict(client, worker, "min_row_pass_rate=0.5&min_row_score=0.5")
    assert found["exit_code"] == 4
    assert [check["rows"] for check in found["checks"]] == [[5], [5]]


async def test_a_run_that_goes_on_has_no_verdict_yet(
    client: httpx.AsyncClient, worker: Worker
) -> None:
    found = await verdict(client, worker, "min_pass_rate=0")
    assert (found["outcome"], found["exit_code"]) == ("incomplete", 4)


async def test_a_stopped_run_is_incomplete_and_a_failed_one_an_error(
    client: httpx.AsyncClient, worker: Worker
) -> None:
    await record_rows(worker, *[({"reward": 1.0}, {"reward": 1.0})] * 3)
    await client.post(f"{RUNS}/{worker.spec['name']}/stop")
    await worker.finish("stopped", stop_reason="user")
    found = await verdict(client, worker, "min_pass_rate=0.1")
    assert (found["outcome"], found["checks"]) == ("incomplete", [])


@pytest.mark.parametrize(
    "query", ["min_pass_rate=90", "min_pass_rate=-0.1", "min_score=nan", "max_regression=x"]
)
async def test_a_threshold_that_means_nothing_is_refused(
    client: httpx.AsyncClient, worker: Worker, query: str
) -> None:
    answer = await client.get(f"{RUNS}/{worker.spec['name']}/verdict?{query}")
    assert answer.status_code == 400


async def finished_run(
    client: httpx.AsyncClient, worker_client: httpx.AsyncClient, passes: list[int]
) -> str:
    """Another run over the same rows, row r passing ``passes[r]`` of 2 times; its name."""
    await client.post(RUNS, json=submission(limit=6, n=2))
    worker = await Worker.claims(worker_client)
    assert worker is not None
    rows = [tuple({"reward": float(run < won)} for run in (0, 1)) for won in passes]
    await record_rows(worker, *rows)
    await worker.finish()
    return str(worker.spec["name"])


@pytest.mark.parametrize(
    ("passes", "query", "outcome"),
    [
        ([2, 2, 1, 1, 1, 0], "", "passed"),
        ([0, 0, 0, 0, 0, 0], "", "passed"),
        ([2, 2, 2, 2, 2, 2], "", "failed"),
        ([2, 2, 2, 2, 2, 2], "max_regression=0.5", "passed"),
        ([2, 2, 2, 1, 1, 0], "only_significant=true", "passed"),
    ],
)
async def test_a_run_may_not_fall_behind_a_baseline(
    client: httpx.AsyncClient,
    worker_client: httpx.AsyncClient,
    worker: Worker,
    passes: list[int],
    query: str,
    outcome: str,
) -> None:
    won, lost = {"reward": 1.0}, {"reward": 0.0}
    await record_rows(
        worker, (won, won), (won, won), (won, lost), (won, lost), (won, lost), (lost, lost)
    )
    await worker.finish()
    baseline = await finished_run(client, worker_client, passes)
    found = await verdict(client, worker, f"max_regression_vs={baseline}&{query}")
    assert found["outcome"] == outcome
    assert baseline in found["checks"][0]["message"]


async def test_a_baseline_that_is_not_there_is_named(
    client: httpx.AsyncClient, worker: Worker
) -> None:
    await finish_a_mixture(worker)
    path = f"{RUNS}/{worker.spec['name']}/verdict"
    for ref in ("no-such-run", worker.spec["name"]):
        answer = await client.get(f"{path}?max_regression_vs={ref}")
        assert answer.status_code in (400, 404)
        assert ref in answer.json()["message"]
