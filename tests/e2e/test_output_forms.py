"""Every command in its three output forms against one real server with a worker.

stdout holds the result and nothing else; JSON has the documented envelope and payload; exit codes
are the documented ones. A command that is not in the table here makes a test fail.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import click
import pytest

from lab.workspace import Workspace
from tests.cli.conftest import Done, Osmosis, osmosis
from tests.cli.test_help import VISIBLE
from tests.e2e.in_process import enter

__all__ = ["osmosis"]

Kind = Literal["list", "lists", "detail", "operation"]
CONFIG = "configs/eval/multiply-scripted.toml"
SLOW = 'latency_ms = 1000\n[[rules]]\nreply = "Wait for it."\n'
LONG = ("--limit", "200", "--batch-size", "1", "--model", "scripted/models/slow.toml")
"""A run that has not ended by itself when a command comes to it, and does little until then."""
CONTEXT = {"git", "workspace_directory"}
ENVELOPES: dict[str, set[str]] = {
    "list": {"schema_version", "items", "total_count", "has_more", "next_offset"},
    "lists": {"schema_version", "base_models", "lora_models"},
    "detail": {"schema_version", "data"},
    "operation": {"schema_version", "status", "operation"},
}
OPERATION_EXTRAS = {"resource", "message", "next_steps_structured"}


def nothing(osmosis: Osmosis, mode: str) -> None:
    """What most commands need before them."""


@dataclass(frozen=True)
class Walk:
    """A command line; ``{mode}`` and ``{run}`` are filled in. ``keys`` are of its payload."""

    words: str
    kind: Kind
    keys: set[str] = field(default_factory=set)
    before: Callable[[Osmosis, str], None] = nothing
    extra: set[str] = field(default_factory=set)
    stdin: str = ""


def upload_first(osmosis: Osmosis, mode: str) -> None:
    Path(f"data/doomed-{mode}.jsonl").write_bytes(Path("data/multiply.jsonl").read_bytes())
    assert osmosis("dataset", "upload", f"data/doomed-{mode}.jsonl", "-y", "--wait").code == 0


def new_file(osmosis: Osmosis, mode: str) -> None:
    Path(f"data/new-{mode}.jsonl").write_bytes(Path("data/multiply.jsonl").read_bytes())


def secret_first(osmosis: Osmosis, mode: str) -> None:
    made = osmosis("secret", "set", f"DOOMED_{mode.upper()}", stdin="value\n")
    assert made.code == 0, made


def endpoint_first(osmosis: Osmosis, mode: str) -> None:
    words = ["model", "endpoint", "add", f"doomed-{mode}", "--base-url", "http://127.0.0.1:9/v1"]
    assert osmosis(*words).code == 0


def login_first(osmosis: Osmosis, mode: str) -> None:
    token = (Path(str(DATA["data"])) / "local-token").read_text()
    made = osmosis("auth", "login", "--token", "-", stdin=token)
    assert made.code == 0, made


def doomed_run(osmosis: Osmosis, mode: str) -> None:
    """A run for the commands that end it; ``{doomed}`` in the words."""
    if f"doomed-{mode}" not in DATA:
        done = osmosis("--json", "eval", "submit", CONFIG, "-y", *LONG)
        DATA[f"doomed-{mode}"] = done.json["resource"]["name"]


def stopped_run(osmosis: Osmosis, mode: str) -> None:
    """The same run, stopped, whatever a command has made of it."""
    doomed_run(osmosis, mode)
    osmosis("eval", "stop", DATA[f"doomed-{mode}"], "-y")
    assert osmosis("--json", "eval", "watch", DATA[f"doomed-{mode}"]).code == 4


def judge_first(osmosis: Osmosis, mode: str) -> None:
    Path("judge.toml").write_text(
        '[[rules]]\nreply = \'{"explanation": "scripted", "score": 0.5}\'\n'
    )
    Path("said.jsonl").write_text('{"id": "first", "solution_str": "42"}\n')


DATA: dict[str, Any] = {}
RUN = {
    "eval_run",
    "summary",
    "config",
    "results",
    "model",
    "dataset",
    "rollout",
    "entrypoint",
    "commit_sha",
    "branch",
    "env_config",
    "resolved_secret_scopes",
    "dataset_df_stats",
    "metrics",
    "metrics_available",
    "metrics_error",
    "output_path",
    "save_warning",
}
SUBMITTED = {"id", "name", "status", "model_name", "dataset_name", "created_at", "config"}
DATASET = {"id", "file_name", "status", "file_size", "row_count", "creator_name", "created_at"}
DOWNLOAD = {
    "eval_run",
    "status",
    "selected_types",
    "files_downloaded",
    "files_skipped",
    "files_failed",
    "bytes_downloaded",
    "total_files",
    "total_bytes",
    "breakdown",
    "manifest_totals",
    "output_path",
    "rows",
}

WALKS = [
    Walk("init made-{mode}", "operation"),
    Walk("quickstart cloned-{mode} -w alpha", "operation", {"name", "repository"}),
    Walk("upgrade", "operation", {"version", "installed_from"}),
    Walk("doctor", "operation", {"workspace_directory", "missing", "valid", "fixed"}),
    Walk("server status", "detail"),
    Walk("server link", "operation"),
    Walk("auth whoami", "detail", {"account", "email", "platform_url", "source", "workspace"}),
    Walk("auth login --token -", "operation", {"email", "platform_url", "source", "saved"}),
    Walk("auth logout -y", "operation", {"logged_in", "platform_url"}, before=login_first),
    Walk("workspace list", "list"),
    Walk("workspace connect", "operation"),
    Walk("workspace sync", "operation"),
    Walk("workspace clear-cache -y", "operation", {"responses", "bytes"} | CONTEXT),
    Walk("completion bash", "detail", {"shell", "script"}),
    Walk(f"eval submit {CONFIG} -y --limit 1 --n 1", "operation", SUBMITTED | CONTEXT),
    Walk("eval watch {run}", "detail", RUN | CONTEXT),
    Walk("eval wait {run} --min-score -1", "detail", RUN | CONTEXT | {"verdict"}),
    Walk("eval samples {run}", "list", {"row_index", "run_index", "source_row", "status"}),
    Walk("eval show {run} 0/1", "detail", {"run", "row_index", "steps", "calls"} | CONTEXT),
    Walk("eval list", "list", {"id", "name", "status", "model", "dataset", "summary"}),
    Walk("eval info {run} -o info-{mode}", "detail", RUN | CONTEXT),
    Walk(
        "eval compare {run} {other}",
        "detail",
        {"baseline", "pass_threshold", "cluster_by", "confidence", "comparisons"} | CONTEXT,
    ),
    Walk(
        "eval rerun {other} -y",
        "operation",
        {"id", "name", "status", "rerun_of", "commit_sha", "model_name", "samples"} | CONTEXT,
    ),
    Walk("eval logs {run}", "list", {"timestamp", "level", "step", "message"}),
    Walk("eval download {run} --type all -o got-{mode}", "operation", DOWNLOAD | CONTEXT),
    Walk(
        "eval export {run} --format csv -o got-{mode}.csv",
        "operation",
        {"run", "format", "output_path", "bytes"} | CONTEXT,
    ),
    Walk("eval stop {doomed} -y", "operation", {"name"} | CONTEXT, before=doomed_run),
    Walk(
        "eval retry {doomed} -y",
        "operation",
        {"id", "name", "status", "workflow_id", "retryable_samples", "platform_url"} | CONTEXT,
        before=stopped_run,
    ),
    Walk("eval delete {doomed} -y", "operation", {"id", "name"} | CONTEXT, before=stopped_run),
    Walk(
        "eval rubric -d said.jsonl -r Right? --model scripted/judge.toml",
        "operation",
        {"model", "data_path", "number", "statistics", "record_count", "error_count", "records"},
        before=judge_first,
    ),
    Walk("rollout init new-{mode}", "operation"),
    Walk("rollout list", "list", {"id", "name", "repo_full_name", "last_synced_commit_sha"}),
    Walk("dataset upload data/new-{mode}.jsonl -y", "operation", DATASET, before=new_file),
    Walk("dataset list", "list", DATASET),
    Walk("dataset info multiply", "detail", DATASET | CONTEXT),
    Walk(
        "dataset preview multiply",
        "detail",
        {"dataset", "rows", "requested_rows", "returned_rows", "available"},
    ),
    Walk("dataset download multiply -o got-{mode}.jsonl", "operation", DATASET | {"output_path"}),
    Walk("dataset validate data/multiply.jsonl", "detail", {"valid", "file", "errors", "warnings"}),
    Walk("dataset logs multiply", "list", {"timestamp", "level", "step", "message"}),
    Walk("dataset delete doomed-{mode} -y", "operation", {"id"}, before=upload_first),
    Walk("secret set KEPT", "operation", {"name", "scope"}, stdin="value\n"),
    Walk("secret list", "list", {"name", "scope"}),
    Walk("secret delete DOOMED_{MODE} -y", "operation", {"name", "scope"}, before=secret_first),
    Walk("model list", "lists", {"id", "model_name", "created_at"}, before=endpoint_first),
    Walk("model info doomed-{mode}", "detail", {"base_model"}, before=endpoint_first),
    Walk("model endpoint add kept-{mode} --base-url http://127.0.0.1:9/v1", "operation"),
    Walk("model endpoint list", "list"),
    Walk("model endpoint remove doomed-{mode} -y", "operation", before=endpoint_first),
]
ELSEWHERE = {
    "server start": "starts a server: tests/cli/test_server.py",
    "server stop": "ends the server of this table: tests/cli/test_server.py",
    "server admin create": "asks for a password: tests/cli/test_server.py",
    "eval run": "needs no server: tests/cli/test_eval_run.py",
    "model deploy": "of a platform that serves: tests/cli/test_train.py",
    "model undeploy": "of a platform that serves: tests/cli/test_train.py",
    "train submit": "of a platform that trains: tests/cli/test_train.py",
    "train list": "of a platform that trains: tests/cli/test_train.py",
    "train info": "of a platform that trains: tests/cli/test_train.py",
    "train logs": "of a platform that trains: tests/cli/test_train.py",
    "train stop": "of a platform that trains: tests/cli/test_train.py",
    "eval upload": "sends what `eval run` left: tests/cli/test_eval_run.py",
}


def path_of(words: str) -> str:
    """The command of a line, without its arguments."""
    parts = words.split()
    return next(" ".join(parts[:n]) for n in (3, 2, 1) if " ".join(parts[:n]) in VISIBLE)


@pytest.fixture(scope="module")
def finished(workspace: Workspace) -> Workspace:
    """The workspace of the lab, with a finished run of three rows, and a shorter one."""
    workspace.write("models/slow.toml", SLOW)
    workspace.push("Add a slow model")
    done = workspace.json("eval", "submit", CONFIG, "-y", "--watch", "--limit", "3", "--n", "2")
    DATA["run"], DATA["data"] = done["resource"]["name"], workspace.lab.data
    other = workspace.json("eval", "submit", CONFIG, "-y", "--watch", "--limit", "2")
    DATA["other"] = other["resource"]["name"]
    return workspace


@pytest.fixture
def here(
    finished: Workspace, osmosis: Osmosis, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Done]:
    """The command line in that workspace."""
    enter(finished, monkeypatch)
    return osmosis


def run_walk(here: Callable[..., Done], walk: Walk, mode: str) -> Done:
    walk.before(here, mode)
    words = walk.words.format(
        mode=mode,
        MODE=mode.upper(),
        run=DATA["run"],
        other=DATA["other"],
        doomed=DATA.get(f"doomed-{mode}"),
    )
    stdin = walk.stdin
    if words.startswith("auth login"):
        stdin = (Path(str(DATA["data"])) / "local-token").read_text()
    done = here(*([] if mode == "rich" else [f"--{mode}"]), *words.split(), stdin=stdin)
    assert done.code == 0, done
    return done


@pytest.mark.parametrize("walk", WALKS, ids=lambda walk: path_of(walk.words))
def test_json_is_the_documented_envelope_and_nothing_else(here: Callable[..., Done], walk: Walk):
    done = run_walk(here, walk, "json")
    body = done.json
    expected = ENVELOPES[walk.kind]
    assert expected <= set(body)
    assert body["schema_version"] == 1
    if walk.kind == "operation":
        assert set(body) <= expected | OPERATION_EXTRAS | walk.extra | {"warnings"}
        assert body["operation"].replace(".", " ").replace("_", " ") == path_of(walk.words)
        payload = body.get("resource") or {}
    elif walk.kind == "detail":
        assert set(body) == expected
        payload = body["data"]
    elif walk.kind == "lists":
        assert body["base_models"]["total_count"] >= len(body["base_models"]["items"]) > 0
        payload = body["base_models"]["items"][0]
    else:
        assert body["items"], "the table needs an item to look at"
        assert body["total_count"] >= len(body["items"])
        payload = body["items"][0]
    assert walk.keys <= set(payload), walk.keys - set(payload)
    for line in done.err.splitlines():
        assert set(json.loads(line)) == {"schema_version", "cli_version", "warning"}


@pytest.mark.parametrize("walk", WALKS, ids=lambda walk: path_of(walk.words))
def test_plain_is_bare_text(here: Callable[..., Done], walk: Walk):
    done = run_walk(here, walk, "plain")
    assert done.out
    assert "\x1b" not in done.out + done.err
    assert not set("│─╭╰┃━✓") & set(done.out)
    assert "Warning:" not in done.out
    lines = done.out.splitlines()
    if walk.kind == "list":
        assert len({line.count("\t") for line in lines}) == 1
        assert lines[0].count("\t") >= 1
    elif walk.kind == "detail" and "completion" not in walk.words:
        assert ": " in lines[0]


@pytest.mark.parametrize("walk", WALKS, ids=lambda walk: path_of(walk.words))
def test_rich_into_a_pipe_holds_the_result_without_colour(here: Callable[..., Done], walk: Walk):
    done = run_walk(here, walk, "rich")
    assert done.out.strip()
    assert "\x1b" not in done.out
    assert "Warning:" not in done.out
    assert all(line == line.rstrip() for line in done.out.splitlines())


def test_every_command_is_in_the_table():
    commands = {p for p, c in VISIBLE.items() if not isinstance(c, click.Group)}
    walked = {path_of(walk.words) for walk in WALKS}
    missing = commands - walked - set(ELSEWHERE)
    assert not missing, f"add to WALKS: {sorted(missing)}"
    assert walked | set(ELSEWHERE) <= commands


def test_a_download_is_on_disk_as_documented(here: Callable[..., Done]):
    done = here("--json", "eval", "download", DATA["run"], "--type", "all")
    resource = done.json["resource"]
    root = Path(resource["output_path"])
    assert root == Path.cwd() / ".osmosis" / "evals" / DATA["run"]
    metrics = json.loads((root / "metrics.json").read_text())
    assert metrics["eval_run"]["name"] == DATA["run"]
    assert len((root / "summary.jsonl").read_text().splitlines()) == 3 * 2
    assert len(list((root / "trajectories").glob("row_*_run_*.json"))) == 3 * 2
    assert (root / "logs.txt").stat().st_size > 0
    assert not list(root.rglob("*.partial"))
    assert resource["files_downloaded"] == resource["total_files"]
    again = here("--json", "eval", "download", DATA["run"]).json["resource"]
    assert (again["files_downloaded"], again["bytes_downloaded"]) == (0, 0)
    (root / "metrics.json").write_text("cut")
    mended = here("--json", "eval", "download", DATA["run"]).json["resource"]
    assert mended["files_downloaded"] == 1
    assert json.loads((root / "metrics.json").read_text()) == metrics


def test_rows_and_types_pick_files(here: Callable[..., Done], tmp_path: Path):
    words = ["eval", "download", DATA["run"], "--type", "trajectories", "--rows", "0, 2"]
    done = here("--json", *words, "-o", tmp_path / "some")
    assert done.json["resource"]["rows"] == "0,2"
    names = sorted(p.name for p in (tmp_path / "some" / "trajectories").iterdir())
    assert names == [f"row_{row}_run_{run}.json" for row in (0, 2) for run in (0, 1)]
    assert not (tmp_path / "some" / "metrics.json").exists()


def test_info_saves_its_numbers_where_it_is_told(here: Callable[..., Done], tmp_path: Path):
    data = here("--json", "eval", "info", DATA["run"], "-o", tmp_path / "numbers").json["data"]
    assert data["output_path"] == str(tmp_path / "numbers" / "metrics.json")
    assert json.loads(Path(data["output_path"]).read_text())["summary"]["graded"] == 6


def test_a_download_needs_no_directory_of_the_workspace(
    here: Callable[..., Done], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    words = ["--workspace", "alpha", "eval", "download", DATA["run"]]
    refused = here("--json", *words)
    assert refused.error["code"] == "WORKSPACE_REQUIRED"
    assert "-o DIR" in refused.error["details"]["hint"]
    assert here(*words, "-o", "out").code == 0
    assert (tmp_path / "out" / "metrics.json").is_file()


def test_a_dataset_comes_back_byte_for_byte(here: Callable[..., Done], tmp_path: Path):
    done = here("--json", "dataset", "download", "multiply", "-o", tmp_path)
    path = Path(done.json["resource"]["output_path"])
    assert path == tmp_path / "multiply.jsonl"
    assert path.read_bytes() == Path("data/multiply.jsonl").read_bytes()
    assert here("--json", "dataset", "download", "multiply", "-o", path).error["code"] == "CONFLICT"
    assert here("dataset", "download", "multiply", "-o", path, "--overwrite").code == 0
