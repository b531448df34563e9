"""Workspaces see nothing of each other, and a secret value shows up nowhere."""

from __future__ import annotations

import base64
import json
import urllib.parse
from pathlib import Path

from lab.platform import Lab
from lab.processes import command_line, tree
from lab.workspace import Workspace
from tests.e2e.configs import eval_config

CANARY = "canary-7f3a9c-value/with+odd=chars"

LEAKY = """
import os, sys
from osmosis.rollout import AgentWorkflow, AgentWorkflowOutput, Grader, LocalBackend, call_model
from osmosis.rollout.server import create_rollout_server

SECRET = os.environ["CANARY"]
print("at import", SECRET, flush=True)

class Leak(AgentWorkflow):
    async def run(self, ctx):
        print("in a row", SECRET, flush=True)
        print(SECRET, file=sys.stderr, flush=True)
        if ctx.artifacts_dir:
            (ctx.artifacts_dir / "note.txt").write_text("kept")
        if "row-2" in ctx.prompt[-1]["content"]:
            raise RuntimeError(f"failed with {SECRET}")
        reply = {"role": "assistant", "content": f"the key is {SECRET}"}
        return AgentWorkflowOutput(messages=[*ctx.prompt, reply])

class Grade(Grader):
    async def grade(self, ctx):
        ctx.set_reward(1.0)

app = create_rollout_server(backend=LocalBackend(workflow=Leak, grader=Grade))
if __name__ == "__main__":
    import uvicorn
    uvicorn.run(app, host="127.0.0.1", port=int(os.environ["_OSMOSIS_ROLLOUT_PORT"]))
"""

SETUP = """
import os, pathlib, subprocess
from setuptools import setup
seen = dict(os.environ)
for environ in pathlib.Path("/proc").glob("[0-9]*/environ"):
    try:
        seen[str(environ)] = environ.read_bytes().decode("utf-8", "replace")
    except OSError:
        pass
if any("canary-7f3a9c" in value for value in seen.values()):
    raise SystemExit("a secret was visible while building")
setup(name="leak", version="0.1.0", install_requires=["osmosis-platform"])
"""


def forms(value: str) -> set[bytes]:
    raw = value.encode()
    return {raw, base64.b64encode(raw), urllib.parse.quote(value, safe="").encode()}


def files_holding(directory: Path, needles: set[bytes]) -> list[Path]:
    found: list[Path] = []
    for path in directory.rglob("*"):
        if path.is_file() and not path.is_symlink():
            data = path.read_bytes()
            if any(needle in data for needle in needles):
                found.append(path)
    return found


def test_a_secret_value_shows_up_nowhere(scratch_lab: Lab, tmp_path: Path) -> None:
    lab = scratch_lab
    workspace = lab.workspace("leaky")
    workspace.write("rollouts/leak/main.py", LEAKY)
    workspace.write("rollouts/leak/setup.py", SETUP)
    workspace.write(
        "rollouts/leak/pyproject.toml",
        '[build-system]\nrequires = ["setuptools>=61"]\nbuild-backend = "setuptools.build_meta"\n',
    )
    rows = [{"user_prompt": f"row-{i}", "ground_truth": "x"} for i in range(1, 6)]
    workspace.write("data/leak.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    workspace.write("configs/eval/leak.toml", eval_config("leak", limit=5, secrets=["CANARY"]))
    workspace.push("Add a leaky rollout")
    workspace.upload("data/leak.jsonl")
    workspace.osmosis("secret", "set", "CANARY", stdin=CANARY + "\n")
    run = workspace.submit("configs/eval/leak.toml")
    argv: list[str] = []
    assert lab.server is not None
    while workspace.info(run)["eval_run"]["status"] in ("pending", "running"):
        argv += [command_line(pid) for pid in tree(lab.server.pid)]
    info = workspace.info(run)
    assert info["eval_run"]["status"] == "finished", info["eval_run"]
    assert info["results"]["failed"] == 1
    logs = workspace.osmosis("eval", "logs", run, "--limit", "200").stdout
    assert "[REDACTED]" in logs
    sample = json.dumps(workspace.api(f"/api/cli/eval-runs/{run}/samples/0/0"))
    shown = [json.dumps(info), logs, sample, *argv, lab.server_output()]
    shown.append(workspace.osmosis("--json", "secret", "list").stdout)
    lab.stop()
    needles = forms(CANARY)
    assert not any(needle.decode() in text for needle in needles for text in shown)
    assert files_holding(lab.data, needles) == []
    assert not any("canary" in str(path) for path in lab.data.rglob("*"))


def test_two_workspaces_cannot_see_each_others_anything(lab: Lab, workspace: Workspace) -> None:
    other = lab.workspace("beta")
    workspace.write("configs/eval/mine.toml", eval_config(limit=1))
    run = workspace.submit("configs/eval/mine.toml")
    workspace.wait(run)
    workspace.osmosis("secret", "set", "ONLY_MINE", stdin="value\n")
    assert other.json("eval", "list")["items"] == []
    assert other.json("dataset", "list")["items"] == []
    assert other.json("secret", "list")["items"] == []
    for words in (["eval", "info", run], ["eval", "logs", run], ["dataset", "info", "multiply"]):
        done = other.osmosis("--json", *words, rc=1)
        assert json.loads(done.stderr.strip().splitlines()[-1])["error"]["code"] == "NOT_FOUND"
