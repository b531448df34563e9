from __future__ import annotations

from pathlib import Path

import pytest

from osmosis.workspace.advanced_keys import ADVANCED_KEYS
from tests.cli.conftest import Osmosis, git

CONFIG = "configs/eval/multiply-scripted.toml"


def submit(near: Osmosis, *words: str) -> str:
    done = near("--json", "eval", "submit", CONFIG, "--yes", *words)
    assert done.code == 0, done
    return done.json["resource"]["name"]


@pytest.mark.usefixtures("ready")
def test_a_submit_gives_the_contracts_resource(near: Osmosis, ready: Path):
    done = near("--json", "eval", "submit", CONFIG, "--yes")
    body = done.json
    assert (body["operation"], body["status"]) == ("eval.submit", "success")
    resource = body["resource"]
    assert {"id", "name", "status", "model_name", "dataset_name", "created_at", "url"} <= set(
        resource
    )
    assert resource["status"] == "pending"
    assert resource["config"]["commit_sha"] == git(ready, "rev-parse", "HEAD").strip()
    assert resource["config"]["branch"] == "main"


@pytest.mark.usefixtures("ready")
def test_the_plan_is_shown_before_the_question(near: Osmosis):
    before = near("--json", "eval", "list").json["total_count"]
    done = near("eval", "submit", CONFIG)
    assert done.code == 1
    assert done.out == ""
    assert "the first 20 of 200" in done.err
    assert "40 (20 rows × 2 runs), 8 at once" in done.err
    assert "scripted" in done.err
    assert "--yes" in done.err
    error = near("--json", "eval", "submit", CONFIG).error
    assert error["code"] == "INTERACTIVE_REQUIRED"
    assert error["details"]["summary"]["Dataset"] == "multiply"
    assert near("--json", "eval", "list").json["total_count"] == before


@pytest.mark.usefixtures("ready")
def test_flags_take_the_place_of_keys(near: Osmosis):
    name = submit(near, "--limit", "3", "--n", "1", "--set", "advanced.temperature=0.5")
    config = near("--json", "eval", "info", name).json["data"]["config"]
    assert (config["limit"], config["n"]) == (3, 1)
    assert config["advanced"]["temperature"] == 0.5


@pytest.mark.usefixtures("ready")
def test_a_cost_budget_without_a_price_is_warned_of_before_the_question(near: Osmosis):
    words = ("eval", "submit", CONFIG, "--max-cost-usd", "1")
    unknown = near(*words, "--model", "openai/no-such-model")
    assert "no price is known for openai/no-such-model: the run will be refused" in unknown.err
    assert "no price is known" not in near(*words, "--model", "openai/gpt-4o-mini").err
    assert "will be refused" not in near(*words).err


@pytest.mark.usefixtures("ready")
def test_every_advanced_key_has_its_flag(near: Osmosis):
    given = {
        "sample_seed": 7,
        "model_seed": 8,
        "temperature": 0.5,
        "top_p": 0.9,
        "max_tokens": 64,
        "max_total_tokens": 100000,
        "max_cost_usd": 1.5,
        "max_retries": 0,
        "max_retry_s": 60.0,
        "max_concurrent_calls": 9,
        "network": "on",
    }
    words = [str(w) for key, value in given.items() for w in (ADVANCED_KEYS[key].flag, value)]
    name = submit(near, *words)
    config = near("--json", "eval", "info", name).json["data"]["config"]
    assert config["advanced"] == given


@pytest.mark.usefixtures("workspace")
def test_every_mistake_is_told_at_once_with_its_line(near: Osmosis, workspace: Path):
    text = (workspace / CONFIG).read_text()
    wrong = text.replace("batch_size", "batchsize").replace("limit = 20", "limit = 0")
    (workspace / CONFIG).write_text(wrong.replace('"multiply"', '"multply"', 1))
    error = near("--json", "eval", "submit", CONFIG, "--yes").error
    found = {issue["key"]: issue for issue in error["details"]["issues"]}
    assert set(found) == {"evaluation.batchsize", "evaluation.limit"}
    assert found["evaluation.batchsize"]["key_correction"] == "evaluation.batch_size"
    assert found["evaluation.limit"]["line"] == 10
    assert "evaluation.batchsize (line 12)" in near("eval", "submit", CONFIG, "--yes").err


@pytest.mark.usefixtures("workspace")
def test_a_mistyped_rollout_is_answered_with_the_near_one(near: Osmosis, workspace: Path):
    text = (workspace / CONFIG).read_text()
    (workspace / CONFIG).write_text(text.replace('rollout = "multiply"', 'rollout = "multply"'))
    (issue,) = near("--json", "eval", "submit", CONFIG, "--yes").error["details"]["issues"]
    assert issue["key_correction"] == "multiply"


@pytest.mark.usefixtures("workspace")
def test_an_entrypoint_that_does_not_import_is_refused(near: Osmosis, workspace: Path):
    (workspace / "rollouts/multiply/main.py").write_text("1 / 0\n")
    error = near("--json", "eval", "submit", CONFIG, "--yes").error
    assert error["code"] == "VALIDATION"
    assert "ZeroDivisionError" in error["message"]


def test_what_will_not_run_is_told(near: Osmosis, ready: Path):
    (ready / "README.md").write_text("changed")
    git(ready, "commit", "-q", "--allow-empty", "-m", "not pushed")
    done = near("eval", "submit", CONFIG)
    assert "1 changed file is not committed" in done.err
    assert "1 commit is not pushed" in done.err
    assert f"your HEAD is {git(ready, 'rev-parse', 'HEAD')[:7]}" in done.err


def test_the_submitted_config_counts_as_no_change_since_it_is_sent(near: Osmosis, ready: Path):
    (ready / CONFIG).write_text((ready / CONFIG).read_text() + "# changed\n")
    assert "not committed" not in near("eval", "submit", CONFIG).err


@pytest.mark.usefixtures("ready")
def test_a_missing_secret_is_named_with_both_remedies(near: Osmosis):
    error = near("--json", "eval", "submit", "configs/eval/multiply.toml", "--yes").error
    assert error["code"] == "INTERACTIVE_REQUIRED"
    assert error["details"]["missing"] == ["OPENAI_API_KEY"]
    assert "--secrets-file" in error["details"]["hint"]


@pytest.mark.usefixtures("ready")
def test_secret_values_come_from_file_then_environment_then_store(
    near: Osmosis, ready: Path, monkeypatch: pytest.MonkeyPatch
):
    text = (ready / CONFIG).read_text()
    (ready / CONFIG).write_text(text.replace("required = []", 'required = ["A", "B", "C"]'))
    (ready / "values.env").write_text("A='canary-a'\n")
    monkeypatch.setenv("B", "canary-b")
    near("secret", "set", "C", stdin="canary-c")
    done = near("--json", "eval", "submit", CONFIG, "--yes", "--secrets-file", "values.env")
    assert done.code == 0, done
    info = near("--json", "eval", "info")
    scopes = info.json["data"]["resolved_secret_scopes"]
    assert set(scopes) == {"A", "B", "C"}
    assert scopes["C"] == "user"
    assert "canary" not in done.out + done.err + info.out
    plan = near("eval", "submit", CONFIG, "--secrets-file", "-", stdin="A=x\n")
    assert "Secrets (3)" in plan.err


@pytest.mark.usefixtures("ready")
def test_info_without_a_name_shows_the_latest_run(near: Osmosis):
    submit(near)
    latest = submit(near)
    data = near("--json", "eval", "info").json["data"]
    assert data["eval_run"]["name"] == latest
    assert {
        "eval_run", "summary", "config", "results", "model", "dataset", "rollout", "entrypoint",
        "commit_sha", "branch", "env_config", "resolved_secret_scopes", "dataset_df_stats",
        "metrics", "metrics_available", "metrics_error", "output_path", "save_warning",
    } <= set(data)  # fmt: skip
    assert (data["model"], data["dataset"], data["rollout"]) == (
        "scripted/models/multiply.toml",
        "multiply",
        "multiply",
    )


@pytest.mark.usefixtures("ready")
def test_info_shows_the_documented_fields_in_order(near: Osmosis):
    submit(near)
    labels = [line.split(":")[0] for line in near("--plain", "eval", "info").out.splitlines()]
    assert labels[:13] == [
        "Name", "Status", "Progress", "Duration", "Pass rate", "Tokens used", "Submitted",
        "Submitted by", "Started", "Completed", "Dataset", "Model", "Rollout",
    ]  # fmt: skip
    assert labels[13:16] == ["Configuration", "Entrypoint", "Config"]


@pytest.mark.usefixtures("ready")
def test_list_items_name_their_references(near: Osmosis):
    name = submit(near)
    body = near("--json", "eval", "list", "--limit", "1").json
    (item,) = body["items"]
    assert (item["name"], item["rollout"], item["dataset"]) == (name, "multiply", "multiply")
    assert item["model"] == "scripted/models/multiply.toml"
    assert item["summary"]["progress"] == {"completed": 0, "total": 40, "unit": "samples"}
    everything = near("--json", "eval", "list", "--all").json
    assert len(everything["items"]) == everything["total_count"] == body["total_count"]
    assert (everything["has_more"], everything["next_offset"]) == (False, None)
    assert near("--plain", "eval", "list").out.split("\t")[0] == name


@pytest.mark.usefixtures("ready")
def test_a_run_is_stopped_once_then_deleted(near: Osmosis):
    name = submit(near)
    assert near("--json", "eval", "stop", name, "--yes").json["operation"] == "eval.stop"
    assert near("--json", "eval", "stop", name, "--yes").error["code"] == "CONFLICT"
    assert near("--json", "eval", "logs", name).json["items"]
    followed = near("--plain", "eval", "logs", name, "--follow")
    assert followed.code == 0
    assert "stop" in followed.out
    assert near("eval", "watch", name).code == 4
    assert near("eval", "wait", name, "--min-pass-rate", "0").code == 4
    assert near("eval", "delete", name, "--yes").code == 0
    assert near("--json", "eval", "info", name).error["code"] == "NOT_FOUND"


@pytest.mark.usefixtures("workspace")
def test_without_runs_the_first_step_is_told(near: Osmosis):
    assert "osmosis eval submit" in near("eval", "info").err
    assert "osmosis eval submit" in near("eval", "list").out


MAIN_COMMANDS = (
    "eval list",
    "eval info",
    "eval logs",
    "dataset list",
    "dataset info multiply",
    "secret list",
    "rollout list",
    "model endpoint list",
    "workspace list",
    "auth whoami",
    "doctor",
    "server status",
)


@pytest.mark.usefixtures("ready")
def test_stdout_holds_the_result_and_nothing_else(near: Osmosis):
    submit(near)
    near("secret", "set", "A_KEY", stdin="x")
    near("model", "endpoint", "add", "local", "--base-url", "http://127.0.0.1:9/v1")
    for command in MAIN_COMMANDS:
        for form in ([], ["--plain"], ["--json"]):
            done = near(*form, *command.split())
            assert (done.code, done.err) == (0, ""), (command, form, done)
            assert done.out, (command, form)
        assert done.json["schema_version"] == 1


@pytest.mark.usefixtures("ready")
def test_a_submit_tells_its_plan_on_stderr(near: Osmosis):
    for form in ([], ["--plain"]):
        done = near(*form, "eval", "submit", CONFIG, "--yes")
        assert "submitted" in done.out
        assert "the first 20 of 200" not in done.out
        assert "the first 20 of 200" in done.err
