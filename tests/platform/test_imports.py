from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.platform.conftest import Account, make_account
from tests.platform.local_runs import Files, declared, local_run, rollout_id

ROOT = "/api/cli/eval-runs/imports"


class Importer:
    """A client of imports, as one person."""

    def __init__(self, client: httpx.AsyncClient, account: Account) -> None:
        self.client, self.headers = client, account.headers

    async def post(self, path: str, body: dict[str, Any]) -> httpx.Response:
        return await self.client.post(f"{ROOT}{path}", json=body, headers=self.headers)

    async def get(self, path: str) -> dict[str, Any]:
        answer = await self.client.get(f"/api/cli/eval-runs{path}", headers=self.headers)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def start(self, files: Files, **more: Any) -> dict[str, Any]:
        answer = await self.post("", declared(files, **more))
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def send(self, state: dict[str, Any], files: Files) -> list[str]:
        """Send what is missing; the paths that were."""
        session = f"/{state['session_id']}"
        answer = await self.post(f"{session}/uploads", {"paths": list(files)})
        sent: list[str] = []
        for wanted in answer.json()["files"]:
            content = files[wanted["path"]]
            assert wanted["upload"]["method"] == "simple"
            put = await self.client.put(wanted["upload"]["presigned_url"], content=content)
            assert put.status_code == 200, put.text
            body = {"path": wanted["path"]}
            assert (await self.post(f"{session}/uploads/complete", body)).status_code == 200
            sent.append(wanted["path"])
        return sent

    async def finalize(self, state: dict[str, Any]) -> httpx.Response:
        return await self.post(f"/{state['session_id']}/finalize", {})

    async def whole(self, files: Files, **more: Any) -> dict[str, Any]:
        state = await self.start(files, **more)
        await self.send(state, files)
        answer = await self.finalize(state)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def refused(self, files: Files, **more: Any) -> str:
        state = await self.start(files, **more)
        await self.send(state, files)
        answer = await self.finalize(state)
        assert answer.status_code == 400, answer.text
        assert (await self.get(""))["total_count"] == 0
        return answer.json()["error"]


@pytest.fixture
def importer(client: httpx.AsyncClient, account: Account) -> Importer:
    return Importer(client, account)


async def test_an_imported_run_is_a_run_like_any_other(importer: Importer):
    files = local_run()
    final = await importer.whole(files)
    assert final["status"] == "finalized"
    assert final["uploaded_files"] == final["expected_files"] == len(files)
    assert {file["state"] for file in final["files"]} == {"uploaded"}
    assert final["eval_run_name"] == "calm-otter-1"
    assert "/runs/calm-otter-1" in final["platform_url"]

    detail = await importer.get("/calm-otter-1")
    assert detail["eval_run"]["origin"] == "local"
    assert detail["eval_run"]["status"] == "finished"
    results = detail["results"]
    assert {key: results[key] for key in ("total_runs", "graded", "passed", "failed")} == {
        "total_runs": 6, "graded": 5, "passed": 3, "failed": 1,
    }  # fmt: skip
    assert results["pass_rate"] == 0.5
    assert results["total_tokens"] == 50
    metrics = await importer.get("/calm-otter-1/metrics")
    assert [point["k"] for point in metrics["pass_at_k"]] == [1, 2]
    samples = (await importer.get("/calm-otter-1/samples"))["samples"]
    assert [sample["source_row"] for sample in samples] == [0, 0, 1, 1, 7, 7]
    manifest = await importer.get("/calm-otter-1/samples/manifest?types=all")
    paths = {file["path"] for file in manifest["files"]}
    assert "artifacts/row_1_run_0/deep/a.txt" in paths
    assert "trajectories/row_2_run_1.json" in paths
    logs = (await importer.get("/calm-otter-1/logs"))["logs"]
    assert (logs[0]["level"], logs[0]["message"]) == ("warning", "careful")
    assert "imported this run" in logs[-1]["message"]


async def test_the_pages_tell_an_imported_run_from_one_of_the_platforms_own(
    importer: Importer, page_client: httpx.AsyncClient
):
    await importer.whole(local_run())
    for path in ("/agents/runs", "/agents/runs/calm-otter-1"):
        page = await page_client.get(path)
        assert page.status_code == 200
        assert ">Local</span>" in page.text
    assert "chosen ones" in page.text


async def test_an_interrupted_import_goes_on_and_a_repeated_one_changes_nothing(
    importer: Importer,
):
    files = local_run()
    state = await importer.start(files)
    first = dict(list(files.items())[:3])
    assert await importer.send(state, first) == list(first)
    unready = await importer.finalize(state)
    assert (unready.status_code, unready.json()["code"]) == (409, "IMPORT_INCOMPLETE")

    again = await importer.start(files)
    assert again["session_id"] == state["session_id"]
    assert again["uploaded_files"] == 3
    assert set(await importer.send(again, files)) == set(files) - set(first)
    final = (await importer.finalize(again)).json()
    assert (await importer.finalize(again)).json() == final
    assert (await importer.start(files))["status"] == "finalized"
    assert (await importer.get(""))["total_count"] == 1


async def test_other_results_of_the_same_run_must_be_meant(importer: Importer):
    await importer.whole(local_run())
    newer = local_run(generation=1)
    answer = await importer.post("", declared(newer))
    assert (answer.status_code, answer.json()["code"]) == (409, "ALREADY_IMPORTED")
    assert "--replace" in answer.json()["error"] + answer.json().get("hint", "")
    final = await importer.whole(newer, reimport=True)
    assert final["eval_run_name"] == "calm-otter-1"
    assert (await importer.get(""))["total_count"] == 1
    detail = await importer.get("/calm-otter-1")
    assert detail["results"]["total_runs"] == 6
    samples = (await importer.get("/calm-otter-1/samples"))["samples"]
    assert samples[0]["rollout_id"] == rollout_id(0, 0, 1)


async def test_a_deleted_import_can_come_back_and_a_taken_name_gets_a_number(importer: Importer):
    await importer.whole(local_run())
    await importer.client.delete("/api/cli/eval-runs/calm-otter-1", headers=importer.headers)
    back = await importer.whole(local_run())
    other = await importer.whole(local_run(), local_run_id="99" * 16)
    assert {back["eval_run_name"], other["eval_run_name"]} <= {
        "calm-otter-1", "calm-otter-1-2", "calm-otter-1-3",
    }  # fmt: skip
    assert (await importer.get(""))["total_count"] == 2


def changed(path: str, old: bytes, new: bytes) -> Files:
    files = local_run()
    assert old in files[path]
    return {**files, path: files[path].replace(old, new, 1)}


TRAJECTORY = f"rollout_trials/{rollout_id(0)}/trajectory.json"


@pytest.mark.parametrize(
    ("files", "told"),
    [
        (changed("index.jsonl", b'"row_index": 2', b'"row_index": 1'), "each of the 6 samples"),
        (changed("index.jsonl", b'"success"', b'"fine"'), "line 1: status"),
        (changed("index.jsonl", b"\n", b"\n\n"), "line 2"),
        (changed("index.jsonl", b'"reward": 1.0', b'"reward": NaN'), "line 1"),
        (changed("progress.json", b'"total_runs": 6', b'"total_runs": 5'), "plans 5 samples"),
        (changed(TRAJECTORY, b'"row_index": 0', b'"row_index": 1'), "another sample"),
        (changed(TRAJECTORY, b'"rollout_id": "0', b'"rollout_id": "1'), "another rollout"),
        (changed(TRAJECTORY, b'"steps"', b'"stops"'), "no steps"),
        (local_run(**{f"rollout_trials/{'f' * 32}/artifacts/x": b"x"}), "no sample of rollout"),
        ({k: v for k, v in local_run().items() if k != TRAJECTORY}, "was not sent"),
    ],
)
async def test_files_that_contradict_each_other_leave_no_run(
    importer: Importer, files: Files, told: str
):
    assert told in await importer.refused(files)


@pytest.mark.parametrize(
    "path",
    [
        "manifest.json",
        "../index.jsonl",
        f"rollout_trials/{'a' * 32}/artifacts/../../x",
        f"rollout_trials/{'a' * 32}/artifacts/manifest.json",
        f"rollout_trials/{'A' * 32}/trajectory.json",
        "/etc/passwd",
    ],
)
async def test_a_path_that_is_none_of_a_runs_is_refused(importer: Importer, path: str):
    answer = await importer.post("", declared(local_run(**{path: b"x"})))
    assert answer.status_code == 400


async def test_a_file_that_is_not_the_declared_one_is_not_kept(importer: Importer):
    files = local_run()
    state = await importer.start(files)
    session = f"/{state['session_id']}"
    answer = await importer.post(f"{session}/uploads", {"paths": ["progress.json"]})
    url = answer.json()["files"][0]["upload"]["presigned_url"]
    wrong = files["progress.json"].replace(b"6", b"7")
    assert (await importer.client.put(url, content=wrong)).status_code == 400
    body = {"path": "progress.json"}
    assert (await importer.post(f"{session}/uploads/complete", body)).status_code == 409
    assert (await importer.client.put(url, content=files["progress.json"])).status_code == 200


async def test_an_import_belongs_to_its_workspace(importer: Importer, platform: Any):
    state = await importer.start(local_run())
    other = await make_account(platform, email="eve@x", workspace="eves", identity="eve/agents")
    foreign = Importer(importer.client, other)
    for path, body in (("uploads", {"paths": ["index.jsonl"]}), ("finalize", {})):
        answer = await foreign.post(f"/{state['session_id']}/{path}", body)
        assert answer.status_code == 404
