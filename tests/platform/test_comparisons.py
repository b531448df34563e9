"""Runs compared over the API: matched by row, judged, and said in plain words."""

from __future__ import annotations

import json
import random
from typing import Any

import httpx
import pytest
from sqlalchemy import update

from lab.synthetic_runs import add_run
from osmosis.platform.comparisons.conclusion import conclusion, p_text
from osmosis.platform.datasets.service import dataset_path
from osmosis.platform.db.models import Run
from osmosis.platform.platform import Platform
from tests.platform.conftest import Account
from tests.platform.runs import add_dataset

COMPARE = "/api/cli/eval-runs/compare"


class Runs:
    """Makes runs in the account's workspace."""

    def __init__(self, platform: Platform, account: Account) -> None:
        self._platform, self._account = platform, account

    async def add(self, name: str, **columns: Any) -> str:
        return await self._platform.db.transact(
            lambda connection: add_run(
                connection, self._account.workspace_id, name=name, **{"rows": 200, **columns}
            )
        )

    async def change(self, run_id: str, **values: Any) -> None:
        async with self._platform.db.write() as session:
            await session.execute(update(Run).where(Run.id == run_id).values(**values))


@pytest.fixture
def runs(platform: Platform, account: Account) -> Runs:
    return Runs(platform, account)


def good_at(share: float) -> Any:
    """A grade by the row's own difficulty, so that runs agree on which rows are hard."""

    def grade(_chance: random.Random, row: int) -> float:
        return float(random.Random(row).random() < share)

    return grade


async def compared(client: httpx.AsyncClient, *names: str, **body: Any) -> dict[str, Any]:
    answer = await client.post(COMPARE, json={"runs": names, **body})
    assert answer.status_code == 200, answer.text
    json.dumps(answer.json(), allow_nan=False)
    return answer.json()


async def refused(client: httpx.AsyncClient, *names: str, **body: Any) -> httpx.Response:
    answer = await client.post(COMPARE, json={"runs": names, **body})
    assert answer.status_code >= 400, answer.text
    return answer


def codes(part: dict[str, Any]) -> set[str]:
    return {note["code"] for note in part["notes"]}


async def test_a_better_run_is_found_with_its_fixed_and_broken_rows(
    client: httpx.AsyncClient, runs: Runs
) -> None:
    await runs.add("old-owl-1", grade=good_at(0.6), seed=1)
    await runs.add("new-newt-2", grade=good_at(0.75), seed=2, commit_sha="a" * 40)
    body = await compared(client, "old-owl-1", "new-newt-2", rows=3)
    (part,) = body["comparisons"]
    rate = part["measures"]["pass_rate"]
    assert part["paired"] and part["matched_rows"] == 200
    assert rate["test"] == "mcnemar-mid-p" and rate["p_value"] < 0.001
    assert rate["low"] <= rate["difference"] <= rate["high"]
    fixed, broken = part["fixed"], part["broken"]
    assert (fixed["count"] - broken["count"]) / 200 == pytest.approx(rate["difference"])
    assert len(fixed["rows"]) == 3
    row = fixed["rows"][0]
    assert row["baseline"]["passed"] == 0 and row["candidate"]["passed"] == 1
    place = f"/agents/runs/new-newt-2/samples/{row['source_row']}/0"
    assert row["candidate"]["url"].endswith(place)
    assert part["changed_settings"] == [
        {"key": "commit_sha", "baseline": "0" * 40, "candidate": "a" * 40}
    ]
    assert part["conclusion"].startswith("new-newt-2 passes more often than old-owl-1: ")
    assert "Chance alone is an unlikely reason." in part["conclusion"]
    for name in ("cost_usd", "tokens", "duration_ms", "score", "clean_pass_rate"):
        assert part["measures"][name]["rows"] > 190


async def test_two_runs_of_the_same_thing_say_so_and_conclude_nothing(
    client: httpx.AsyncClient, runs: Runs
) -> None:
    for number in (1, 2):
        await runs.add(f"twin-tern-{number}", grade=good_at(0.7), seed=number)
    (part,) = (await compared(client, "twin-tern-1", "twin-tern-2"))["comparisons"]
    assert part["changed_settings"] == []
    assert part["conclusion"].startswith("No difference in the pass rate of twin-tern-2")
    assert "no proof that they are alike: the interval says" in part["conclusion"]
    assert "Nothing was set differently" in part["conclusion"]


async def test_other_rows_other_n_and_another_threshold_are_said_plainly(
    client: httpx.AsyncClient, runs: Runs
) -> None:
    await runs.add("wide-wren-1", rows=60, n=1)
    selection = {"kind": "sample", "seed": 3, "rows": "0-39"}
    await runs.add(
        "deep-deer-2", rows=40, n=4, selection=selection, pass_threshold=0.5, total_rows=60
    )
    (part,) = (await compared(client, "wide-wren-1", "deep-deer-2"))["comparisons"]
    assert (part["matched_rows"], part["only_baseline"], part["only_candidate"]) == (40, 20, 0)
    assert codes(part) >= {"selection_differs", "n_differs", "threshold_differs"}
    rate = part["measures"]["pass_rate"]
    assert (rate["test"], rate["rows"], rate["clusters"]) == ("sign-permutation", 40, 40)
    changed = {entry["key"] for entry in part["changed_settings"]}
    assert "n" in changed


async def test_runs_that_are_not_whole_are_said_to_be(
    client: httpx.AsyncClient, runs: Runs
) -> None:
    await runs.add("full-fox-1", rows=50)
    all_rows = {"kind": "first", "seed": None, "rows": "0-49"}
    spent = await runs.add("poor-panda-2", rows=20, selection=all_rows)
    await runs.change(spent, status="stopped", stop_reason="budget", selected_rows=50)
    await runs.add("busy-bee-3", rows=50, status="running")
    body = await compared(client, "full-fox-1", "poor-panda-2", "busy-bee-3")
    stopped, running = body["comparisons"]
    assert codes(stopped) >= {"partial", "rows_missing", "few_rows"}
    text = next(note["message"] for note in stopped["notes"] if note["code"] == "partial")
    assert "poor-panda-2 was stopped by its budget after 20 of 50 samples" in text
    assert "unfinished" in codes(running)


async def test_several_runs_are_compared_with_the_first_and_p_values_allow_for_it(
    client: httpx.AsyncClient, runs: Runs
) -> None:
    for number, share in enumerate((0.6, 0.6, 0.8)):
        await runs.add(f"run-robin-{number}", grade=good_at(share), seed=number)
    body = await compared(client, *(f"run-robin-{number}" for number in range(3)))
    measures = [part["measures"]["pass_rate"] for part in body["comparisons"]]
    assert all(measure["p_adjusted"] >= measure["p_value"] for measure in measures)
    assert measures[1]["p_adjusted"] == pytest.approx(2 * measures[1]["p_value"])
    assert "among several comparisons" in body["comparisons"][1]["conclusion"]


async def test_other_dataset_bytes_are_no_pairs(client: httpx.AsyncClient, runs: Runs) -> None:
    await runs.add("first-finch-1", grade=good_at(0.5))
    other: dict[str, Any] = {
        "dataset_sha256": "2" * 64,
        "commit_sha": "a" * 40,
        "model_path": "openai/o x",
    }
    await runs.add("other-otter-2", grade=good_at(0.9), **other)
    (part,) = (await compared(client, "first-finch-1", "other-otter-2"))["comparisons"]
    assert part["paired"] is False and part["matched_rows"] == 0
    assert codes(part) == {"dataset_differs"}
    way_out = "osmosis eval rerun first-finch-1 --commit-sha aaaaaaaaaaaa --model 'openai/o x'."
    assert part["notes"][0]["message"].endswith(way_out)
    assert part["measures"]["pass_rate"]["test"] == "welch"
    assert "on different rows" in part["conclusion"]
    assert "fixed" not in part


async def test_rows_are_grouped_by_a_column_of_the_dataset(
    client: httpx.AsyncClient, runs: Runs, platform: Platform, account: Account
) -> None:
    dataset = await add_dataset(platform, account, rows=200)
    lines = [{"user_prompt": "p", "ground_truth": "1", "topic": f"t{i // 20}"} for i in range(200)]
    dataset_path(platform.settings, dataset).write_text(
        "".join(json.dumps(line) + "\n" for line in lines)
    )
    for number, share in ((1, 0.5), (2, 0.7)):
        await runs.add(
            f"group-gull-{number}", grade=good_at(share), seed=number, dataset_id=dataset.id
        )
    names = ("group-gull-1", "group-gull-2")
    body = await compared(client, *names, cluster_by="topic")
    rate = body["comparisons"][0]["measures"]["pass_rate"]
    assert (rate["rows"], rate["clusters"], body["cluster_by"]) == (200, 10, "topic")
    assert rate["test"] == "sign-permutation"
    address = "/api/cli/eval-runs/group-gull-1/intervals?cluster_by=topic"
    intervals = (await client.get(address)).json()["intervals"]
    assert set(intervals) == {"pass_rate", "score", "score_bootstrap"}
    assert (intervals["score"]["clusters"], intervals["score"]["method"]) == (10, "t-clustered")
    answer = await refused(client, *names, cluster_by="topics")
    assert answer.status_code == 400 and "'topic'" in answer.json()["error"]
    dataset_path(platform.settings, dataset).unlink()
    answer = await refused(client, *names, cluster_by="other")
    assert answer.status_code == 409 and "is not on this server" in answer.json()["error"]


async def test_mistakes_are_named(client: httpx.AsyncClient, runs: Runs) -> None:
    await runs.add("near-newt-1")
    empty = await runs.add("bare-bear-2", rows=1)
    await runs.change(empty, sample_count=0)
    answer = await refused(client, "near-newt-1", "near-nevt-1")
    assert answer.status_code == 404 and "near-newt-1" in answer.json()["error"]
    assert "named twice" in (await refused(client, "near-newt-1", "near-newt-1")).json()["error"]
    assert "2 to 8 runs" in (await refused(client, "near-newt-1")).json()["error"]
    assert "no samples yet" in (await refused(client, "near-newt-1", "bare-bear-2")).json()["error"]


async def test_another_workspace_sees_nothing_of_them(
    client: httpx.AsyncClient, runs: Runs, stranger: Account
) -> None:
    await runs.add("ours-owl-1")
    await runs.add("ours-owl-2")
    answer = await client.post(
        COMPARE, json={"runs": ["ours-owl-1", "ours-owl-2"]}, headers=stranger.headers
    )
    assert answer.status_code == 404


async def test_the_same_comparison_again_reads_nothing_until_a_run_changes(
    client: httpx.AsyncClient, runs: Runs, platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in (1, 2):
        run_id = await runs.add(f"still-stork-{number}", seed=number)
    names = ("still-stork-1", "still-stork-2")
    first = await compared(client, *names)
    read: list[object] = []
    examine = platform.db.examine

    async def watched(work: Any) -> Any:
        read.append(work)
        return await examine(work)

    monkeypatch.setattr(platform.db, "examine", watched)
    assert await compared(client, *names) == first
    assert not read
    await runs.change(run_id, generation=2)
    await compared(client, *names)
    assert len(read) == 2


def test_conclusions_read_well() -> None:
    measure = {
        "baseline": 0.5, "candidate": 0.4, "difference": -0.1, "low": -0.18, "high": -0.02,
        "p_value": 0.012, "rows": 1234,
    }  # fmt: skip
    assert conclusion("A", "B", {"pass_rate": measure}, paired=True, same=False) == (
        "B passes less often than A: 40.0% against 50.0% on the 1,234 rows of both (-10.0 points, "
        "95% interval -18.0 to -2.0 points, p = 0.012). Chance alone is an unlikely reason. This "
        "holds for these rows and rows like them, not for other tasks."
    )
    assert "Nothing can be concluded" in conclusion("A", "B", {}, paired=True, same=False)
    lone = {**measure, "p_value": None, "low": None, "high": None, "rows": 1}
    assert "Too little to tell B from A: 40.0% against 50.0% on the 1 row of both" in conclusion(
        "A", "B", {"pass_rate": lone}, paired=True, same=False
    )
    assert (p_text(0.0004), p_text(0.25), p_text(None)) == ("p < 0.001", "p = 0.250", "p unknown")
