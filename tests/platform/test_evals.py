"""Runs as the command line sees them: submit, plan, list, detail, metrics, stop, delete."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import httpx
import pytest
from sqlalchemy import select

from osmosis.metrics import summary_of
from osmosis.platform.db.models import Run, Sample
from osmosis.platform.evals.names import new_run_name
from osmosis.platform.evals.tallies import count_anew
from osmosis.platform.platform import Platform
from osmosis.platform.runners.reaper import remove_one_deleted_run
from tests.platform.conftest import Account
from tests.platform.runs import Worker, add_dataset, record, submission

RUNS = "/api/cli/eval-runs"


async def submitted(client: httpx.AsyncClient, **changes: Any) -> dict[str, Any]:
    answer = await client.post(RUNS, json=submission(**changes))
    assert answer.status_code == 201, answer.text
    return answer.json()


async def test_a_submit_answers_with_a_pending_run(client: httpx.AsyncClient, commit: str) -> None:
    made = await submitted(client, limit=3)
    assert made["status"] == "pending"
    assert re.fullmatch(r"[a-z]+-[a-z]+-\d{1,2}", made["name"])
    assert made["platform_url"].endswith(f"/agents/runs/{made['name']}")
    shown = (await client.get(f"{RUNS}/{made['id']}")).json()
    assert shown["eval_run"]["name"] == made["name"]
    assert shown["eval_run"]["stage"] == "queued"
    assert shown["commit_sha"] == commit and shown["branch"] == "main"
    assert shown["config"] == {
        "limit": 3,
        "n": 1,
        "batch_size": 1,
        "pass_threshold": 1.0,
        "agent_workflow_timeout_s": 450.0,
        "grader_timeout_s": 150.0,
        "model_path": "openai/gpt-5-mini",
    }
    assert shown["selection"]["kind"] == "first" and shown["selection"]["rows"] == "0-2"
    assert shown["results"]["total_runs"] == 0 and shown["results"]["sampled_rows"] == 3


async def test_without_limit_a_tenth_is_drawn_with_a_seed_that_is_kept(
    client: httpx.AsyncClient, commit: str
) -> None:
    made = await submitted(client)
    selection = (await client.get(f"{RUNS}/{made['name']}")).json()["selection"]
    assert selection["kind"] == "sample" and isinstance(selection["seed"], int)
    assert selection["selected_rows"] == 4 and selection["total_rows"] == 40
    again = await submitted(client, advanced={"sample_seed": selection["seed"]})
    repeated = (await client.get(f"{RUNS}/{again['name']}")).json()["selection"]
    assert repeated == selection


async def test_the_same_submit_twice_gives_two_runs(client: httpx.AsyncClient, commit: str) -> None:
    first, second = await asyncio.gather(submitted(client, limit=1), submitted(client, limit=1))
    assert first["id"] != second["id"] and first["name"] != second["name"]


async def test_every_mistake_of_a_config_is_reported_at_once(
    client: httpx.AsyncClient, commit: str
) -> None:
    body = submission(limit=0, n=True, batchsize=4, env={"lower": "x"})
    body["secrets"] = {"required": [], "provided": {"UNASKED": "v"}}
    answer = await client.post(RUNS, json=body)
    assert answer.status_code == 400
    issues = {issue["key"]: issue for issue in answer.json()["issues"]}
    assert {
        "evaluation.limit",
        "evaluation.n",
        "evaluation.batchsize",
        "env.lower",
        "secrets.provided.UNASKED",
    } <= issues.keys()
    assert issues["evaluation.batchsize"]["key_correction"] == "evaluation.batch_size"


async def test_every_unknown_name_is_reported_at_once_with_the_near_one(
    client: httpx.AsyncClient, commit: str
) -> None:
    experiment = {
        "rollout": "multipli",
        "model_path": "scripted/models/rule.toml",
        "dataset": "sum",
    }
    body = submission(experiment=experiment, secrets={"required": ["NOWHERE"]})
    answer = await client.post(RUNS, json=body)
    assert answer.status_code == 400
    issues = {issue["key"]: issue["message"] for issue in answer.json()["issues"]}
    assert "'multiply'" in issues["experiment.rollout"]
    assert "'scripted/models/rules.toml'" in issues["experiment.model_path"]
    assert "'sums'" in issues["experiment.dataset"]
    assert "NOWHERE" in issues["secrets.required"]


@pytest.mark.parametrize(
    ("experiment", "key", "said"),
    [
        ({"entrypoint": "mian.py"}, "experiment.entrypoint", "'main.py'"),
        ({"branch": "mian"}, "experiment.branch", "main"),
        ({"commit_sha": "abcdef1234"}, "experiment.commit_sha", "abcdef1234"),
        ({"model_path": "gpt-5"}, "experiment.model_path", "provider/model"),
        ({"model_path": "scripted/../x.toml"}, "experiment.model_path", "inside the workspace"),
    ],
)
async def test_what_is_not_there_is_refused_with_the_reason(
    client: httpx.AsyncClient, commit: str, experiment: dict[str, str], key: str, said: str
) -> None:
    answer = await client.post(RUNS, json=submission(experiment=experiment))
    assert answer.status_code == 400, answer.text
    [issue] = answer.json()["issues"]
    assert issue["key"] == key and said in issue["message"]


async def test_an_endpoint_whose_key_is_not_stored_is_refused_with_the_command(
    client: httpx.AsyncClient, commit: str
) -> None:
    endpoint = {"name": "box", "base_url": "http://127.0.0.1:8000/v1", "api_key_secret": "BOX_KEY"}
    await client.post("/api/cli/model-endpoints", json=endpoint)
    body = submission(experiment={"model_path": "box/m"}, advanced={"judge_model": "box/j"})
    answer = await client.post(RUNS, json=body)
    assert answer.status_code == 400, answer.text
    issues = {issue["key"]: issue["message"] for issue in answer.json()["issues"]}
    assert issues.keys() == {"experiment.model_path", "advanced.judge_model"}
    assert "osmosis secret set BOX_KEY" in issues["experiment.model_path"]
    stored = {"name": "BOX_KEY", "value": "v", "scope": "workspace"}
    assert (await client.post("/api/cli/environment-secrets", json=stored)).is_success
    assert (await client.post(RUNS, json=body)).status_code == 201


@pytest.mark.parametrize(
    ("status", "said"), [("processing", "still processing"), ("error", "osmosis dataset logs")]
)
async def test_a_dataset_that_is_not_ready_is_refused_with_its_state(
    client: httpx.AsyncClient,
    platform: Platform,
    account: Account,
    commit: str,
    status: str,
    said: str,
) -> None:
    await add_dataset(platform, account, name="raw", status=status)
    answer = await client.post(RUNS, json=submission(experiment={"dataset": "raw"}))
    assert said in answer.json()["issues"][0]["message"]


async def test_missing_secrets_are_answered_in_the_words_the_client_knows(
    client: httpx.AsyncClient, commit: str
) -> None:
    answer = await client.post(RUNS, json=submission(secrets={"required": ["B_KEY", "A_KEY"]}))
    assert answer.status_code == 404
    assert answer.json()["error"].startswith("Secret(s) not found: B_KEY, A_KEY")


async def test_secret_scopes_are_shown_and_values_are_not(
    client: httpx.AsyncClient, commit: str
) -> None:
    for name, scope in (("SHARED", "workspace"), ("MINE", "user"), ("BOTH", "user")):
        body = {"name": name, "value": "canary-value", "scope": scope}
        await client.post("/api/cli/environment-secrets", json=body)
    body = {"name": "BOTH", "value": "canary-value", "scope": "workspace"}
    await client.post("/api/cli/environment-secrets", json=body)
    required = ["SHARED", "MINE", "BOTH", "GIVEN"]
    secrets = {"required": required, "provided": {"GIVEN": "canary-value"}}
    made = await submitted(client, limit=1, secrets=secrets)
    answer = await client.get(f"{RUNS}/{made['name']}")
    assert answer.json()["resolved_secret_scopes"] == {
        "SHARED": "workspace",
        "MINE": "user",
        "BOTH": "user_override",
        "GIVEN": "provided",
    }
    for path in ("", "/logs", "/metrics", "/samples"):
        assert "canary-value" not in (await client.get(f"{RUNS}/{made['name']}{path}")).text


async def test_a_plan_creates_nothing_and_says_what_would_run(
    client: httpx.AsyncClient, commit: str
) -> None:
    body = submission(limit=30, n=2, env={"LEVEL": "1"})
    plan = (await client.post(f"{RUNS}/plan", json=body)).json()
    assert (plan["total_rows"], plan["selected_rows"], plan["samples"]) == (40, 30, 60)
    assert plan["commit_sha"] == commit and plan["branch"] == "main"
    assert plan["config"]["agent_workflow_timeout_s"] == 450.0
    assert any("batch_size = 1" in warning for warning in plan["warnings"])
    assert plan["prompt_chars_estimate"] == 60 * len("row-1.")
    assert (await client.get(RUNS)).json()["total_count"] == 0
    refused = await client.post(f"{RUNS}/plan", json=submission(limit=-1))
    assert refused.status_code == 400


async def test_lists_page_newest_first(client: httpx.AsyncClient, commit: str) -> None:
    names = [(await submitted(client, limit=1))["name"] for _ in range(5)]
    page = (await client.get(f"{RUNS}?limit=2&offset=0")).json()
    assert [item["name"] for item in page["eval_runs"]] == names[:2:-1]
    assert (page["total_count"], page["has_more"], page["next_offset"]) == (5, True, 2)
    last = (await client.get(f"{RUNS}?limit=2&offset=4")).json()
    assert last["next_offset"] is None and not last["has_more"]
    item = page["eval_runs"][0]
    for key in ("model", "dataset", "rollout"):
        assert isinstance(item[key], dict) and item[key]["name"]


async def test_results_agree_everywhere(
    client: httpx.AsyncClient, worker_client: httpx.AsyncClient, commit: str, platform: Platform
) -> None:
    made = await submitted(client, limit=4, n=2, pass_threshold=0.5)
    worker = await Worker.claims(worker_client)
    assert worker is not None
    await worker.send(
        record(0, 0, reward=1.0),
        record(0, 1, reward=0.25),
        record(1, 0, status="failed", reward=None, error_type="http_error", tokens=None),
        record(1, 1, status="skipped", reward=None),
    )
    for finished in (False, True):
        if finished:
            await worker.send(*(record(row, index) for row in (2, 3) for index in (0, 1)))
            await worker.finish()
        shown = (await client.get(f"{RUNS}/{made['id']}")).json()
        metrics = (await client.get(f"{RUNS}/{made['id']}/metrics")).json()
        listed = (await client.get(RUNS)).json()["eval_runs"][0]
        results, overview = shown["results"], metrics["overview"]
        for key in ("graded", "passed", "failed", "skipped", "pass_rate", "pass_threshold"):
            assert results[key] == overview[key] == listed["results"][key], key
        assert results["total_runs"] == overview["total_samples"]
        assert results["score"] == pytest.approx(listed["results"]["score"])
        assert results["infrastructure_failures"] == 1
        assert results["errors"] == {"http_error": 1}
        points = {str(point["k"]): point["value"] for point in metrics["pass_at_k"]}
        assert results["reward_stats"]["pass_at_k"] == points
        assert metrics["status"] == ("finished" if finished else "running")
    assert results["clean_pass_rate"] == 5 / 6 and results["pass_rate"] == 5 / 7
    recounted, _ = await platform.db.examine(
        lambda connection: count_anew(connection, made["id"], pass_threshold=0.5, n=2)
    )
    assert summary_of(recounted.whole()).passed == results["passed"]
    assert shown["error"] if shown["eval_run"]["status"] == "failed" else "error" not in shown


async def test_metrics_of_a_run_without_samples_hold_no_null_list(
    client: httpx.AsyncClient, commit: str
) -> None:
    made = await submitted(client, limit=1)
    metrics = (await client.get(f"{RUNS}/{made['id']}/metrics")).json()
    assert metrics["pass_at_k"] == [] and metrics["reward_stats"] is None
    assert metrics["overview"]["pass_rate"] == 0.0
    assert "duration_ms" not in metrics["overview"]


async def test_a_pending_run_stops_at_once_and_a_stopped_one_cannot_be_stopped(
    client: httpx.AsyncClient, worker_client: httpx.AsyncClient, commit: str
) -> None:
    made = await submitted(client, limit=1)
    assert (await client.post(f"{RUNS}/{made['name']}/stop", json={})).status_code == 200
    shown = (await client.get(f"{RUNS}/{made['name']}")).json()
    assert shown["eval_run"]["status"] == "stopped" and shown["stop_reason"] == "user"
    again = await client.post(f"{RUNS}/{made['name']}/stop", json={})
    assert again.status_code == 409 and "already stopped" in again.json()["error"]
    assert await Worker.claims(worker_client) is None


async def test_only_an_ended_run_can_be_deleted_and_then_nothing_is_left(
    client: httpx.AsyncClient,
    worker_client: httpx.AsyncClient,
    commit: str,
    platform: Platform,
    platform_app: Any,
) -> None:
    made = await submitted(client, limit=2)
    refused = await client.delete(f"{RUNS}/{made['name']}")
    assert refused.status_code == 409 and "osmosis eval stop" in refused.json()["error"]
    worker = await Worker.claims(worker_client)
    assert worker is not None
    await worker.send(record(0), record(1))
    await worker.finish()
    assert (platform.settings.runs_dir / made["id"]).is_dir()
    assert (await client.delete(f"{RUNS}/{made['name']}")).status_code == 200
    assert (await client.get(f"{RUNS}/{made['name']}")).status_code == 404
    while await remove_one_deleted_run(platform, platform_app.state.runs.writers):
        pass
    assert not (platform.settings.runs_dir / made["id"]).exists()
    async with platform.db.read() as session:
        assert (await session.execute(select(Sample))).first() is None
        assert (await session.execute(select(Run))).first() is None


async def test_an_unknown_run_suggests_the_near_name(
    client: httpx.AsyncClient, commit: str
) -> None:
    made = await submitted(client, limit=1)
    answer = await client.get(f"{RUNS}/{made['name']}x")
    assert answer.status_code == 404 and made["name"] in answer.json()["error"]


async def test_another_workspace_sees_nothing(
    client: httpx.AsyncClient, anonymous: httpx.AsyncClient, stranger: Account, commit: str
) -> None:
    made = await submitted(client, limit=1)
    headers = stranger.headers
    assert (await anonymous.get(RUNS, headers=headers)).json()["eval_runs"] == []
    for method, path in (
        ("GET", ""),
        ("GET", "/metrics"),
        ("GET", "/logs"),
        ("GET", "/samples"),
        ("GET", "/samples/0/0"),
        ("GET", "/samples/manifest"),
        ("POST", "/stop"),
        ("DELETE", ""),
    ):
        answer = await anonymous.request(method, f"{RUNS}/{made['id']}{path}", headers=headers)
        assert answer.status_code == 404, path
    body = {"items": [{"path": "metrics.json"}]}
    urls = await anonymous.post(
        f"{RUNS}/{made['id']}/samples/download-urls", json=body, headers=headers
    )
    assert urls.status_code == 404
    others = await anonymous.post(RUNS, json=submission(), headers=headers)
    assert others.status_code in (400, 404), "neither the dataset nor the code is the stranger's"


async def test_logs_name_who_submitted_what(client: httpx.AsyncClient, commit: str) -> None:
    made = await submitted(client, limit=3, n=2)
    logs = (await client.get(f"{RUNS}/{made['name']}/logs?limit=10&direction=older")).json()
    assert logs["next_cursor"] is None
    assert "3 of 40 rows of 'sums'" in logs["logs"][0]["message"]
    assert logs["logs"][0]["step"] == "queued"


async def test_a_body_that_is_no_object_is_refused_in_words(
    client: httpx.AsyncClient, commit: str
) -> None:
    for content in (b"[]", b"{", b'{"experiment_config": 5}', b"null"):
        answer = await client.post(RUNS, content=content)
        assert answer.status_code == 400, content
        assert isinstance(answer.json()["error"], str)


async def test_every_answer_is_strict_json(
    client: httpx.AsyncClient, worker_client: httpx.AsyncClient, commit: str
) -> None:
    made = await submitted(client, limit=2, pass_threshold=0.0)
    worker = await Worker.claims(worker_client)
    assert worker is not None
    await worker.send(record(0, reward=1.7e308), record(1, reward=1.7e308))
    for path in (RUNS, f"{RUNS}/{made['id']}", f"{RUNS}/{made['id']}/metrics"):
        text = (await client.get(path)).text
        json.loads(text, parse_constant=pytest.fail)


def test_run_names_avoid_those_that_are_taken() -> None:
    class Everything:
        def __contains__(self, name: object) -> bool:
            return bool(re.fullmatch(r"[a-z]+-[a-z]+-\d{1,2}", str(name)))

    assert re.fullmatch(r"[a-z]+-[a-z]+-[0-9a-f]{8}", new_run_name(Everything()))
