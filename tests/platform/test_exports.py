"""Exports: what a worker recorded, read back from the file of each format."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import re
import zipfile
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import httpx
import pyarrow.parquet as pq
import pytest

from osmosis.platform.platform import Platform
from tests.platform.conftest import Account
from tests.platform.runs import Worker, add_dataset, push_workspace, record, submission

RUNS = "/api/cli/eval-runs"
ROWS = 7
HOSTILE = "=cmd()|'<script>alert(1)</script>"


@pytest.fixture
async def worker(
    platform: Platform,
    account: Account,
    client: httpx.AsyncClient,
    worker_client: httpx.AsyncClient,
    tmp_path: Path,
) -> Worker:
    """The worker of a finished run: 7 rows × 2, one broken, one without a trajectory."""
    await push_workspace(platform, account, tmp_path)
    await add_dataset(platform, account)
    config = submission(limit=ROWS, n=2, env={"VISIBLE": "canary-of-the-environment"})
    await client.post(RUNS, json=config)
    worker = await Worker.claims(worker_client)
    assert worker is not None
    odd: dict[tuple[int, int], dict[str, Any]] = {
        (3, 0): {
            "status": "failed",
            "reward": None,
            "error_type": "timeout",
            "error_message": HOSTILE,
        },
        (4, 1): {"trajectory": None},
        (5, 0): {"reward": 0.25, "metrics": {"steps": 3, "odd, name": 0.5}},
        (6, 1): {"status": "skipped", "reward": None},
    }
    await worker.send(
        *(record(row, run, **odd.get((row, run), {})) for row in range(ROWS) for run in (0, 1))
    )
    await worker.finish()
    return worker


async def export(
    client: httpx.AsyncClient, anonymous: httpx.AsyncClient, worker: Worker, format: str
) -> bytes:
    """The file of an export, waited for and fetched without a token."""
    path = f"{RUNS}/{worker.spec['name']}/exports"
    answer = await client.post(path, json={"format": format})
    assert answer.status_code == 202, answer.text
    async with asyncio.timeout(30):
        while (body := answer.json())["status"] in ("pending", "running"):
            await asyncio.sleep(0.05)
            answer = await client.get(f"{path}/{body['id']}")
    assert body["status"] == "done", body
    file = await anonymous.get(body["url"])
    assert file.status_code == 200, file.text
    assert body["file_name"] in file.headers["content-disposition"]
    return file.content


Keys = list[tuple[int, int]]
EVERY: Keys = [(row, run) for row in range(ROWS) for run in (0, 1)]


async def test_jsonl_has_everything_of_each_sample(
    client: httpx.AsyncClient, anonymous: httpx.AsyncClient, worker: Worker
) -> None:
    content = await export(client, anonymous, worker, "jsonl")
    samples = [json.loads(line) for line in content.splitlines()]
    assert [(s["row_index"], s["run_index"]) for s in samples] == EVERY
    broken, bare, graded = samples[6], samples[9], samples[10]
    assert (broken["error_type"], broken["passed"], broken.get("reward")) == (
        "timeout",
        False,
        None,
    )
    assert "trajectory" not in bare
    assert graded["metrics"] == {"steps": 3, "odd, name": 0.5}
    assert graded["trajectory"]["steps"][1]["message"] == "#### 5"
    assert graded["calls"][0]["prompt_tokens"] == 60
    assert "passed" not in samples[13]


async def test_csv_opens_in_a_spreadsheet_without_running_anything(
    client: httpx.AsyncClient, anonymous: httpx.AsyncClient, worker: Worker
) -> None:
    content = await export(client, anonymous, worker, "csv")
    rows = list(csv.DictReader(io.StringIO(content.decode(), newline="")))
    assert [(int(r["row_index"]), int(r["run_index"])) for r in rows] == EVERY
    assert rows[6]["error_message"] == "'" + HOSTILE
    assert (rows[10]["metrics.odd, name"], rows[9]["metrics.odd, name"]) == ("0.5", "")
    assert float(rows[10]["reward"]) == 0.25


async def test_parquet_has_types_and_trajectories(
    client: httpx.AsyncClient, anonymous: httpx.AsyncClient, worker: Worker
) -> None:
    table = pq.read_table(io.BytesIO(await export(client, anonymous, worker, "parquet")))
    assert table.num_rows == len(EVERY)
    samples = table.to_pylist()
    assert (samples[6]["reward"], samples[6]["passed"], samples[13]["passed"]) == (
        None,
        False,
        None,
    )
    assert dict(samples[10]["metrics"]) == {"steps": 3.0, "odd, name": 0.5}
    assert json.loads(samples[0]["trajectory"])["steps"][0]["message"] == "row-0."
    assert samples[9]["trajectory"] is None


async def test_atif_has_the_documents_of_the_download(
    client: httpx.AsyncClient, anonymous: httpx.AsyncClient, worker: Worker
) -> None:
    archive = zipfile.ZipFile(io.BytesIO(await export(client, anonymous, worker, "atif")))
    names = [f"row_{row}_run_{run}.json" for row, run in EVERY if (row, run) != (4, 1)]
    assert archive.namelist() == names
    document = json.loads(archive.read("row_2_run_1.json"))
    assert document["schema_version"] == "ATIF-v1.7"
    assert document["extra"]["osmosis"]["label"] == "2"


async def test_junit_counts_by_outcome(
    client: httpx.AsyncClient, anonymous: httpx.AsyncClient, worker: Worker
) -> None:
    (suite,) = ET.fromstring(await export(client, anonymous, worker, "junit"))
    counts = [suite.attrib[key] for key in ("tests", "failures", "errors", "skipped")]
    assert counts == ["14", "1", "1", "1"]


async def test_the_report_is_one_file_that_fetches_and_runs_nothing(
    client: httpx.AsyncClient, anonymous: httpx.AsyncClient, worker: Worker
) -> None:
    text = (await export(client, anonymous, worker, "html")).decode()
    assert "<svg" in text and worker.spec["name"] in text
    assert "<script" not in text
    assert not re.search(r"""(src|href)=["']?(?!data:|#)""", text)
    assert "&lt;script&gt;" in text
    assert re.search(r"<dt>Submitted</dt><dd>[-\d]{10} [:\d]{8} UTC</dd>", text)
    assert "row 3, run 0" in text.lower() and "row 5, run 0" in text.lower()


async def test_no_export_holds_the_values_of_the_environment(
    client: httpx.AsyncClient, anonymous: httpx.AsyncClient, worker: Worker
) -> None:
    for format in ("html", "jsonl", "inspect"):
        content = await export(client, anonymous, worker, format)
        if format == "inspect":
            archive = zipfile.ZipFile(io.BytesIO(content))
            content = b"".join(map(archive.read, archive.namelist()))
        assert b"canary-of-the-environment" not in content


async def test_an_export_is_of_its_own_run_and_workspace(
    client: httpx.AsyncClient, worker: Worker
) -> None:
    path = f"{RUNS}/{worker.spec['name']}/exports"
    assert (await client.get(f"{path}/nonsense")).status_code == 404
    refused = await client.post(path, json={"format": "parquett"})
    assert refused.status_code == 400
    assert "Did you mean 'parquet'?" in refused.json()["message"]
    assert (
        await client.post(f"{RUNS}/no-such-run/exports", json={"format": "csv"})
    ).status_code == 404
    await client.post(RUNS, json=submission(limit=1))
    listed = (await client.get(RUNS)).json()["eval_runs"]
    pending = next(run["name"] for run in listed if run["status"] == "pending")
    answer = await client.post(f"{RUNS}/{pending}/exports", json={"format": "csv"})
    assert answer.status_code == 409
