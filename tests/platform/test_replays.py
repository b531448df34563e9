"""Replaying a run of the workspace: checked at submit, its kept calls given to the worker alone."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import select

from osmosis.platform.db.models import Run
from osmosis.platform.platform import Platform
from tests.platform.conftest import Account
from tests.platform.runs import Worker, add_dataset, push_workspace, record, submission

KEPT = base64.b64encode(gzip.compress(b'{"r":"policy"}\n')).decode()


async def submit(client: httpx.AsyncClient, model: str, **more: Any) -> httpx.Response:
    body = submission(limit=2, experiment={"model_path": model}, **more)
    return await client.post("/api/cli/eval-runs", json=body)


@pytest.fixture
async def first(
    platform: Platform,
    account: Account,
    client: httpx.AsyncClient,
    worker_client: httpx.AsyncClient,
    tmp_path: Path,
) -> Run:
    """A finished run of two samples, one of them with kept calls."""
    await push_workspace(platform, account, tmp_path)
    await add_dataset(platform, account)
    name = (await submit(client, "openai/gpt-5-mini")).json()["name"]
    worker = await Worker.claims(worker_client)
    assert worker is not None
    saved = {"saved_calls": 2, "saved_usd": 0.5, "cost_usd": 0.0}
    answer = await worker.send(record(0, kept_calls=KEPT, **saved), record(1, saved_calls=1))
    assert answer.status_code == 200, answer.text
    await worker.finish()
    async with platform.db.read() as session:
        return (await session.execute(select(Run).where(Run.name == name))).scalar_one()


def issue(answer: httpx.Response) -> dict[str, str]:
    assert answer.status_code == 400, answer.text
    [found] = answer.json()["issues"]
    return found


async def test_a_worker_gets_the_calls_of_the_run_that_its_own_replays(
    first: Run, client: httpx.AsyncClient, worker_client: httpx.AsyncClient
) -> None:
    for ref in (first.name, first.id):
        answer = await submit(client, f"replay/{ref}")
        assert answer.status_code == 201, answer.text
        worker = await Worker.claims(worker_client)
        assert worker is not None
        [replayed] = worker.spec["replays"]
        assert replayed == {
            "name": ref,
            "run_id": first.id,
            "run_name": first.name,
            "model_path": "openai/gpt-5-mini",
        }
        lines = (await worker.get(f"replays/{first.id}")).text.splitlines()
        assert [json.loads(line) for line in lines] == [[0, 0, KEPT]]
        assert (await worker.get(f"replays/{worker.spec['run_id']}")).status_code == 404
        await worker.finish("stopped")
    detail = (await client.get(f"/api/cli/eval-runs/{answer.json()['name']}")).json()
    assert detail["replays"][0]["run_name"] == first.name


async def test_what_was_saved_stands_in_sample_list_and_detail(
    first: Run, client: httpx.AsyncClient
) -> None:
    detail = (await client.get(f"/api/cli/eval-runs/{first.name}")).json()
    saved = {"saved_calls": 3, "saved_usd": 0.5, "samples_with_unknown_saving": 1}
    assert saved.items() <= detail["results"].items()
    [listed] = (await client.get("/api/cli/eval-runs")).json()["eval_runs"]
    assert saved.items() <= listed["results"].items()


async def test_an_unknown_run_is_refused_at_submit_with_the_near_name(
    first: Run, client: httpx.AsyncClient
) -> None:
    found = issue(await submit(client, f"replay/{first.name}x"))
    assert found["key"] == "experiment.model_path"
    assert f"Did you mean '{first.name}'?" in found["message"]
    body = {"advanced": {"judge_model": "replay/nobody"}}
    judge = issue(await submit(client, "openai/gpt-5-mini", **body))
    assert judge["key"] == "advanced.judge_model"


async def test_another_workspaces_run_is_as_good_as_none(
    first: Run,
    platform: Platform,
    stranger: Account,
    anonymous: httpx.AsyncClient,
    tmp_path: Path,
) -> None:
    await push_workspace(platform, stranger, tmp_path)
    await add_dataset(platform, stranger)
    anonymous.headers.update(stranger.headers)
    for ref in (first.name, first.id):
        message = issue(await submit(anonymous, f"replay/{ref}"))["message"]
        assert "There is no evaluation run" in message
        assert "Did you mean" not in message


async def test_a_run_without_kept_calls_or_without_an_end_cannot_be_replayed(
    first: Run,
    platform: Platform,
    client: httpx.AsyncClient,
    worker_client: httpx.AsyncClient,
) -> None:
    name = (await submit(client, "openai/gpt-5-mini")).json()["name"]
    assert "is still pending" in issue(await submit(client, f"replay/{name}"))["message"]
    worker = await Worker.claims(worker_client)
    assert worker is not None
    await worker.send(record(0), record(1))
    await worker.finish()
    assert "has no kept calls" in issue(await submit(client, f"replay/{name}"))["message"]


async def test_a_run_deleted_since_the_submit_is_named_to_the_worker(
    first: Run,
    platform: Platform,
    client: httpx.AsyncClient,
    worker_client: httpx.AsyncClient,
) -> None:
    await submit(client, f"replay/{first.name}")
    worker = await Worker.claims(worker_client)
    assert worker is not None
    assert (await client.delete(f"/api/cli/eval-runs/{first.name}")).status_code in (200, 204)
    answer = await worker.get(f"replays/{first.id}")
    assert answer.status_code == 404
    assert f"The run '{first.name}' that is to be replayed was deleted" in answer.json()["message"]
    folder = platform.settings.runs_dir / first.id
    async with asyncio.timeout(10):
        while folder.exists():  # noqa: ASYNC110  # the sweeper has no event
            await asyncio.sleep(0.02)


async def test_kept_calls_that_are_no_base64_are_refused(
    first: Run, client: httpx.AsyncClient, worker_client: httpx.AsyncClient
) -> None:
    await submit(client, "openai/gpt-5-mini")
    worker = await Worker.claims(worker_client)
    assert worker is not None
    assert (await worker.send(record(0, kept_calls="a"))).status_code == 400


async def test_pages_label_a_replay_and_show_what_was_saved(
    first: Run,
    client: httpx.AsyncClient,
    worker_client: httpx.AsyncClient,
    page_client: httpx.AsyncClient,
) -> None:
    name = (await submit(client, f"replay/{first.name}")).json()["name"]
    worker = await Worker.claims(worker_client)
    assert worker is not None
    replayed = record(0, saved_calls=1, saved_usd=0.25, cost_usd=0.0)
    replayed["calls"][0] |= {"replayed": True, "saved_usd": 0.25, "cost_usd": 0.0}
    await worker.send(replayed)
    page = (await page_client.get(f"/agents/runs/{name}")).text
    assert f'replay of <a href="/agents/runs/{first.name}">' in page
    assert "(openai/gpt-5-mini)" in page
    assert "$0.2500 saved by 1 call without a model" in " ".join(page.split())
    sample = (await page_client.get(f"/agents/runs/{name}/samples/0/0")).text
    assert ">replayed</span>" in sample
    assert "saved $0.2500" in sample
