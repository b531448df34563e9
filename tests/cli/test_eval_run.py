"""`osmosis eval run` as a user types it: a workspace, a scripted model, and no server."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.environments import take_environments
from osmosis.evaluation.journal import read_journal
from tests.cli.conftest import Osmosis, git
from tests.e2e.configs import eval_config

ROOT = Path(__file__).parents[2]
CONFIG = "configs/eval/local.toml"
LIMIT_S = 90.0

pytestmark = pytest.mark.timeout(180)


class Local:
    """A workspace without a server, and the command in processes of its own."""

    def __init__(self, root: Path, home: Path) -> None:
        self.root = root
        clean = {k: v for k, v in os.environ.items() if not k.startswith("OSMOSIS_")}
        nothing = {"OSMOSIS_DATA_DIR": str(home / "none"), "XDG_CONFIG_HOME": str(home)}
        self.env = {**clean, **nothing, "COLUMNS": "150"}

    def config(self, **changes: Any) -> None:
        (self.root / CONFIG).write_text(eval_config(**changes))

    def start(self, *words: str, **env: str) -> subprocess.Popen[str]:
        argv = [sys.executable, "-m", "osmosis.cli.main", "--json", "eval", "run", CONFIG, "-y"]
        return subprocess.Popen(
            [*argv, *words],
            cwd=self.root,
            env={**self.env, **env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *words: str, code: int = 0, **env: str) -> dict[str, Any]:
        process = self.start(*words, **env)
        out, err = process.communicate(timeout=LIMIT_S)
        assert process.returncode == code, (out, err)
        if code and not out:
            return json.loads(err.splitlines()[-1])["error"]
        return json.loads(out)["resource"]

    def path(self, name: str) -> Path:
        return self.root / ".osmosis" / "evals" / name

    def wait_for_records(self, name: str, count: int) -> None:
        self.until(lambda: len(_lines(self.path(name) / "events.jsonl")) >= count)

    @staticmethod
    def until(condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + LIMIT_S
        while not condition():
            assert time.monotonic() < deadline
            time.sleep(0.01)


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory, environments: Path) -> Local:
    home = tmp_path_factory.mktemp("local")
    root = home / "workspace"
    ignored = shutil.ignore_patterns("__pycache__", ".osmosis", ".venv")
    shutil.copytree(ROOT / "examples" / "workspace", root, ignore=ignored)
    (root / "models/slow.toml").write_text('latency_ms = 150\n[[rules]]\nreply = "#### 1"\n')
    take_environments(environments, root / ".osmosis" / "cache")
    git(root, "init", "-q")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "Start")
    return Local(root, home)


def index_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in _lines(path / "index.jsonl")]


def test_a_local_run_leaves_the_documented_directory(local: Local):
    local.config(limit=6, n=2, batch_size=4)
    done = local.run("--name", "first")
    assert (done["status"], done["total"], done["completed"], done["ran"]) == (
        "finished", 12, 12, 12,
    )  # fmt: skip
    path = local.path("first")
    rows = index_of(path)
    assert [(r["row_index"], r["run_index"]) for r in rows] == [
        (row, run) for row in range(6) for run in range(2)
    ]
    for row in rows:
        trajectory = json.loads(
            (path / f"rollout_trials/{row['rollout_id']}/trajectory.json").read_text()
        )
        place = {"row_index": row["row_index"], "run_index": row["run_index"]}
        assert trajectory["extra"]["osmosis"]["request_extra_fields"] == place
    assert len(list((path / "trajectories").iterdir())) == 12
    metrics = json.loads((path / "metrics.json").read_text())
    assert metrics["eval_run"]["status"] == "finished"
    assert metrics["summary"]["pass_at_k"]
    assert not (path / ".work").exists()
    manifest = json.loads((path / "manifest.json").read_text())
    assert manifest["inputs"]["dataset"]["selected_source_rows"] == "0-5"

    again = local.run("--name", "first")
    assert (again["ran"], again["resumed"], again["status"]) == (0, 12, "finished")


def test_a_budget_stops_a_local_run_and_a_higher_one_goes_on(local: Local):
    local.config(limit=12, batch_size=2)
    stopped = local.run("--name", "cheap", "--max-total-tokens", "60", code=4)
    assert (stopped["status"], stopped["stop_reason"]) == ("incomplete", "budget")
    assert "max_total_tokens = 60" in stopped["stop_message"]
    assert 0 < stopped["ran"] < 12 and stopped["pending"] == 12 - stopped["ran"]
    spent = json.loads((local.path("cheap") / "spending.json").read_text())
    assert spent["tokens"] >= 60

    again = local.run("--name", "cheap", "--max-total-tokens", "60", code=4)
    assert again["ran"] == 0, "what was spent stays spent"
    done = local.run("--name", "cheap", "--max-total-tokens", "1000000")
    assert (done["status"], done["completed"]) == ("finished", 12)


def test_changed_inputs_are_refused_by_name_and_fresh_archives(local: Local):
    local.config(limit=2)
    local.run("--name", "locked")
    local.config(limit=3, n=2, pass_threshold=0.5)
    refused = local.run("--name", "locked", code=1)
    assert refused["code"] == "CONFLICT"
    assert refused["details"]["changed"] == ["dataset", "n"]
    done = local.run("--name", "locked", "--fresh", "--rows", "1,4-5")
    assert done["completed"] == 6
    assert index_of(Path(done["archived"]))[0]["row_index"] == 0
    assert [s.source_row_index for s in read_journal(local.path("locked") / "events.jsonl").values()
            if s.run_index == 0] == [1, 4, 5]  # fmt: skip


def test_a_killed_run_goes_on_with_nothing_lost(local: Local):
    local.config(limit=40, batch_size=4, model="scripted/models/slow.toml")
    process = local.start("--name", "killed")
    local.wait_for_records("killed", 8)
    process.kill()
    process.communicate()
    journal = local.path("killed") / "events.jsonl"
    before = read_journal(journal)
    with journal.open("ab") as file:
        file.write(b'{"duration_ms":1')  # as a power cut tears a line
    local.until(lambda: _lock_is_free(local, "killed"))
    done = local.run("--name", "killed")
    assert done["status"] == "finished"
    assert done["resumed"] == len(before)
    assert done["ran"] == 40 - len(before)
    after = read_journal(journal)
    assert len(after) == 40
    assert all(after[key] == record for key, record in before.items())
    assert [r.get("resumed", False) for r in index_of(local.path("killed"))].count(True) == len(
        before
    )


def _lock_is_free(local: Local, name: str) -> bool:
    import fcntl

    with (local.path(".locks") / f"{name}.lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def test_ctrl_c_leaves_open_samples_pending(local: Local):
    local.config(limit=60, batch_size=2, model="scripted/models/slow.toml")
    process = local.start("--name", "stopped")
    local.wait_for_records("stopped", 3)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 1, err
    assert "will be repeated" not in err
    done = json.loads(out)["resource"]
    assert done["status"] == "incomplete"
    assert 3 <= done["completed"] < 60
    assert done["pending"] == 60 - done["completed"]
    assert len(read_journal(local.path("stopped") / "events.jsonl")) == done["completed"]
    metrics = json.loads((local.path("stopped") / "metrics.json").read_text())
    assert metrics["eval_run"]["status"] == "incomplete"


def test_failed_samples_are_results_until_they_are_retried(local: Local):
    (local.root / "rollouts/multiply/flaky.py").write_text(FLAKY)
    local.config(limit=3, entrypoint="flaky.py", secrets=["MOOD"])
    missing = local.run("--name", "flaky", code=1)
    assert missing["code"] == "INTERACTIVE_REQUIRED"
    assert missing["details"]["missing"] == ["MOOD"]
    done = local.run("--name", "flaky", MOOD="bad-mood-value")
    assert (done["status"], done["results"]["failed"]) == ("finished", 3)
    assert [row["source_row_index"] for row in done["failed_rows"]] == [0, 1, 2]
    first = done["failed_rows"][0]
    assert first["error_type"] == "validation_error"
    assert "in a bad mood: [" in first["error_message"], "the secret is redacted, the rest is told"
    assert (Path(first["rollout_dir"]) / "diagnostics.json").is_file()
    assert done["metrics"]["failed"] == 3
    (local.root / "moods.env").write_text("MOOD='good-mood-value'\n")
    again = local.run("--name", "flaky", "--secrets-file", "moods.env", "--retry-failed")
    assert (again["ran"], again["results"]["failed"], again["results"]["graded"]) == (3, 0, 3)
    for file in local.path("flaky").rglob("*"):
        if file.is_file():
            assert b"mood-value" not in file.read_bytes(), file


FLAKY = """
import os, uvicorn
from osmosis.rollout import AgentWorkflow, Grader, LocalBackend
from osmosis.rollout.server import create_rollout_server

class Echo(AgentWorkflow):
    async def run(self, ctx):
        print("my mood is", os.environ["MOOD"])
        if os.environ["MOOD"].startswith("bad"):
            raise ValueError("in a bad mood: " + os.environ["MOOD"])
        return [*ctx.prompt, {"role": "assistant", "content": "fine"}]

class One(Grader):
    async def grade(self, ctx):
        ctx.set_reward(1.0)

app = create_rollout_server(backend=LocalBackend(workflow=Echo, grader=One))

if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(os.environ["_OSMOSIS_ROLLOUT_PORT"]))
"""


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["--name", "../x"], "VALIDATION", "cannot be the name of a run"),
        (["--rows", "5-2"], "VALIDATION", "runs backwards"),
        (["--rows", "1000"], "VALIDATION", "does not exist"),
        (["--dataset-file", "data/none.jsonl"], "NOT_FOUND", "no dataset file"),
    ],
)
def test_mistakes_are_told_before_anything_runs(
    local: Local, words: list[str], code: str, told: str
):
    local.config(limit=2)
    refused = local.run(*words, code=1)
    assert refused["code"] == code
    assert told in refused["message"]
    assert not (local.root / ".osmosis/evals/x").exists()


def test_a_dataset_that_is_not_here_comes_from_the_platform(near: Osmosis, ready: Path):
    (ready / "data/multiply.jsonl").unlink()
    config = "configs/eval/multiply-scripted.toml"
    done = near("--json", "eval", "run", config, "--rows", "99999", "-y")
    assert "the dataset has 200 rows" in done.error["message"]
    (ready / config).write_text(eval_config(dataset="unheard-of"))
    missing = near("--json", "eval", "run", config, "-y")
    assert missing.error["code"] == "NOT_FOUND"
    assert "--dataset-file" in missing.error["details"]["hint"]


def test_a_named_endpoint_is_looked_for_and_its_key_asked_for(near: Osmosis, ready: Path):
    added = near(
        "model", "endpoint", "add", "mine",
        "--base-url", "http://127.0.0.1:9/v1", "--api-key-secret", "MINE_KEY",
    )  # fmt: skip
    assert added.code == 0, added
    config = "configs/eval/multiply-scripted.toml"
    (ready / config).write_text(eval_config(model="mine", limit=1))
    done = near("--json", "eval", "run", config, "-y")
    assert "needs the key MINE_KEY" in done.error["message"]
    wrong = near("--json", "eval", "run", config, "-y", "--endpoint", "mine")
    assert wrong.code == 2
