"""A rerun: the same rows, seeds and settings, with other code or another model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import update

from osmosis.platform.db.models import Dataset, Run
from osmosis.platform.platform import Platform
from tests.platform.conftest import Account
from tests.platform.runs import (
    FILES,
    Worker,
    add_dataset,
    push_workspace,
    record,
    submitted,
)

pytestmark = pytest.mark.usefixtures("commit")

RUNS = "/api/cli/eval-runs"
COMPARE = f"{RUNS}/compare"


async def again(client: httpx.AsyncClient, name: str, **body: Any) -> dict[str, Any]:
    answer = await client.post(f"{RUNS}/{name}/rerun", json=body)
    assert answer.status_code == 201, answer.text
    return answer.json()


async def shown(client: httpx.AsyncClient, name: str) -> dict[str, Any]:
    return (await client.get(f"{RUNS}/{name}")).json()


async def test_it_draws_the_same_rows_with_the_same_settings_on_the_same_commit(
    client: httpx.AsyncClient, platform: Platform, account: Account, tmp_path: Path, commit: str
) -> None:
    first = await submitted(
        client, n=2, batch_size=3, pass_threshold=0.5, advanced={"model_seed": 7}, env={"A": "b"}
    )
    newer = await push_workspace(
        platform, account, tmp_path, {**FILES, "rollouts/multiply/main.py": "print('new')\n"}
    )
    made = await again(client, first)
    assert made["rerun_of"]["name"] == first and made["commit_sha"] == commit != newer
    before, after = await shown(client, first), await shown(client, made["name"])
    assert after["selection"] == before["selection"]
    assert after["selection"]["kind"] == "sample"
    assert after["config"]["advanced"] == {
        "model_seed": 7,
        "sample_seed": before["selection"]["seed"],
    }
    for key in ("n", "batch_size", "pass_threshold", "model_path"):
        assert after["config"][key] == before["config"][key]
    assert after["env_config"] == {"A": "b"}
    log = (await client.get(f"{RUNS}/{made['name']}/logs")).json()["logs"]
    assert any(f"settings of the run {first}" in line["message"] for line in log)


async def test_only_what_is_named_differs(
    client: httpx.AsyncClient,
    worker_client: httpx.AsyncClient,
    platform: Platform,
    account: Account,
    tmp_path: Path,
    commit: str,
) -> None:
    first = await submitted(client, limit=5)
    newer = await push_workspace(
        platform, account, tmp_path, {**FILES, "rollouts/multiply/main.py": "print('new')\n"}
    )
    on_branch = await again(client, first, branch="main", model="openai/gpt-5")
    assert (on_branch["commit_sha"], on_branch["branch"]) == (newer, "main")
    assert on_branch["model_name"] == "openai/gpt-5"
    assert (await again(client, first, commit_sha=commit[:10]))["commit_sha"] == commit
    for _ in range(3):
        worker = await Worker.claims(worker_client)
        assert worker is not None
        await worker.send(*(record(row) for row in range(5)))
        await worker.finish()
    body = (await client.post(COMPARE, json={"runs": [first, on_branch["name"]]})).json()
    (part,) = body["comparisons"]
    assert part["matched_rows"] == 5
    assert {entry["key"] for entry in part["changed_settings"]} == {"commit_sha", "model_path"}


async def test_mistakes_are_those_of_a_submit(client: httpx.AsyncClient) -> None:
    first = await submitted(client, limit=1)
    refused = await client.post(f"{RUNS}/{first}/rerun", json={"commit_sha": "f" * 40})
    assert refused.status_code == 400
    assert refused.json()["issues"][0]["key"] == "experiment.commit_sha"
    both = await client.post(f"{RUNS}/{first}/rerun", json={"commit_sha": "f" * 7, "branch": "b"})
    assert both.status_code == 400 and "exclude each other" in both.json()["issues"][0]["message"]
    assert (await client.post(f"{RUNS}/nobody/rerun", json={})).status_code == 404


async def test_a_dataset_of_other_bytes_is_refused_and_the_same_bytes_are_not(
    client: httpx.AsyncClient, platform: Platform, account: Account
) -> None:
    first = await submitted(client, limit=1)
    async with platform.db.write() as session:
        await session.execute(update(Dataset).values(name="old"))
    await add_dataset(platform, account, sha256="0" * 64)
    await again(client, first)
    async with platform.db.write() as session:
        await session.execute(update(Dataset).values(sha256="9" * 64))
    refused = await client.post(f"{RUNS}/{first}/rerun", json={})
    assert refused.status_code == 409 and refused.json()["code"] == "DATASET_CHANGED"


async def test_values_that_only_the_run_had_are_given_again(client: httpx.AsyncClient) -> None:
    secrets = {"required": ["API_KEY"], "provided": {"API_KEY": "value"}}
    first = await submitted(client, limit=1, secrets=secrets)
    refused = await client.post(f"{RUNS}/{first}/rerun", json={})
    assert refused.json()["code"] == "RUN_SECRETS_REQUIRED"
    assert refused.json()["run_secret_names"] == ["API_KEY"]
    made = await again(client, first, secrets={"API_KEY": "other"})
    assert (await shown(client, made["name"]))["resolved_secret_scopes"] == {"API_KEY": "provided"}


async def test_an_imported_run_has_no_code_here(
    client: httpx.AsyncClient, platform: Platform
) -> None:
    first = await submitted(client, limit=1)
    async with platform.db.write() as session:
        await session.execute(update(Run).values(effective={"import": {"local_name": "x"}}))
    refused = await client.post(f"{RUNS}/{first}/rerun", json={})
    assert refused.status_code == 400 and refused.json()["code"] == "LOCAL_RUN"
