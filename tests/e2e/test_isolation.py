"""Workspaces see nothing of each other, and a secret value shows up nowhere."""

from __future__ import annotations

import base64
import json
import sqlite3
import threading
import time
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from lab.platform import Lab
from lab.processes import command_line, tree
from lab.workspace import Workspace
from tests.e2e.configs import eval_config

CANARY = "canary-7f3a9c-value/with+odd=chars"
PERSONAL = 'canary-41d0-first line\ncanary-41d0-second "line" & <more>'
ONCE = "canary-0e55-for-one-run-only"
KEY = "canary-b2c6-key-of-the-endpoint"
NAMES = {"CANARY": CANARY, "PERSONAL": PERSONAL, "ONCE": ONCE, "MODEL_KEY": KEY}

LEAKY = """
import base64, html, json, os, sys, urllib.parse
from osmosis.rollout import AgentWorkflow, AgentWorkflowOutput, Grader, LocalBackend, call_model
from osmosis.rollout.server import create_rollout_server

SECRETS = [os.environ[name] for name in ("CANARY", "PERSONAL", "ONCE")]
FORMS = [
    form
    for secret in SECRETS
    for form in (
        secret, json.dumps(secret), urllib.parse.quote(secret, safe=""), html.escape(secret),
        base64.b64encode(secret.encode()).decode(),
        base64.b64encode(b"user:" + secret.encode()).decode(),
    )
]
SECRET = " ".join(FORMS)
print("at import", SECRET, flush=True)

class Leak(AgentWorkflow):
    async def run(self, ctx):
        print("in a row", SECRET, flush=True)
        print(SECRET, file=sys.stderr, flush=True)
        if ctx.artifacts_dir:
            (ctx.artifacts_dir / "note.txt").write_text("kept " + SECRET)
            (ctx.artifacts_dir / SECRETS[2]).write_text("named")
        if "row-2" in ctx.prompt[-1]["content"]:
            raise RuntimeError(f"failed with {SECRET}")
        if "row-3" in ctx.prompt[-1]["content"]:
            await call_model(ctx.prompt)
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
if any("canary-" in value for value in seen.values()):
    raise SystemExit("a secret was visible while building")
setup(name="leak", version="0.1.0", install_requires=["osmosis-platform"])
"""


def forms(value: str) -> set[bytes]:
    """What of a value must not be found, in the forms that text takes on its way."""
    found: set[bytes] = set()
    for text in {value, *value.splitlines()}:
        raw = text.encode()
        found |= {raw, base64.b64encode(raw), base64.b64encode(b"user:" + raw)[8:-4]}
        found |= {urllib.parse.quote(text, safe="").encode(), json.dumps(text)[1:-1].encode()}
    return found


class EchoingProvider(BaseHTTPRequestHandler):
    """Answers the check of the model, and tells everybody else the key they came with."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        status, answer = 401, {"error": {"message": f"Bad key: {self.headers['Authorization']}"}}
        if b"row-" not in body:
            message = {"role": "assistant", "content": "Hello."}
            choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
            status, answer = 200, {"object": "chat.completion", "choices": choices}
        raw = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def echoing_provider() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), EchoingProvider) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
        server.shutdown()


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
    names = ["CANARY", "PERSONAL", "ONCE"]
    config = eval_config("leak", model="echoing", limit=5, secrets=names)
    workspace.write("configs/eval/leak.toml", config)
    workspace.push("Add a leaky rollout")
    workspace.upload("data/leak.jsonl")
    workspace.osmosis("secret", "set", "CANARY", "--scope", "workspace", stdin=CANARY + "\n")
    workspace.osmosis("secret", "set", "MODEL_KEY", "--scope", "workspace", stdin=KEY + "\n")
    workspace.osmosis("secret", "set", "PERSONAL", "--scope", "personal", stdin=PERSONAL + "\n")
    assert lab.server is not None
    seen: list[str] = []
    with echoing_provider() as url:
        endpoint = ["echoing", "--base-url", url, "--model", "m", "--api-key-secret", "MODEL_KEY"]
        workspace.osmosis("model", "endpoint", "add", *endpoint)
        submit = ["eval", "submit", "configs/eval/leak.toml", "--yes", "--secrets-file", "-"]
        run = workspace.json(*submit, stdin=f"ONCE={ONCE}\n")["resource"]["name"]
        path = f"/api/cli/eval-runs/{run}"
        while workspace.api(path)["eval_run"]["status"] in ("pending", "running"):
            seen += [open_to_see(pid) for pid in tree(lab.server.pid)]
            time.sleep(0.05)
    info = workspace.info(run)
    assert info["eval_run"]["status"] == "finished", json.dumps(info["eval_run"])[-900:]
    assert info["results"]["failed"] == 2
    logs = workspace.osmosis("eval", "logs", run, "--limit", "200").stdout
    assert "[REDACTED]" in logs
    samples = [
        json.dumps(workspace.api(f"/api/cli/eval-runs/{run}/samples/{i}/0")) for i in range(5)
    ]
    assert "Bad key: Bearer [REDACTED]" in samples[2]
    workspace.osmosis(
        "eval", "download", run, "--type", "all", "--yes", "-o", tmp_path / "downloaded"
    )
    shown = [json.dumps(info), logs, *samples, *seen, lab.server_output()]
    shown.append(workspace.osmosis("--json", "secret", "list").stdout)
    lab.stop()
    needles = set[bytes]().union(*map(forms, NAMES.values()))
    leaks = [needle for needle in needles for text in shown if needle.decode() in text]
    assert leaks == []
    assert files_holding(lab.data, needles) == []
    assert files_holding(tmp_path / "downloaded", needles) == []
    assert not any("canary" in str(path) for path in lab.data.rglob("*"))
    with sqlite3.connect(lab.data / "osmosis.db") as database:
        assert database.execute("SELECT provided_cipher FROM runs").fetchall() == [(None,)]


def open_to_see(pid: int) -> str:
    """What a process shows of itself: its command line; and its variables, unless they are the
    rollout's, which was given the secrets."""
    line = command_line(pid)
    if "main.py" in line:
        return line
    try:
        return line + Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace")
    except OSError:
        return line


def test_two_workspaces_cannot_see_each_others_anything(lab: Lab, workspace: Workspace) -> None:
    other = lab.workspace("beta")
    workspace.write("configs/eval/mine.toml", eval_config(limit=1))
    run = workspace.start("configs/eval/mine.toml")
    workspace.wait(run)
    workspace.osmosis("secret", "set", "ONLY_MINE", stdin="value\n")
    assert other.json("eval", "list")["items"] == []
    assert other.json("dataset", "list")["items"] == []
    assert other.json("secret", "list")["items"] == []
    for words in (["eval", "info", run], ["eval", "logs", run], ["dataset", "info", "multiply"]):
        done = other.osmosis("--json", *words, rc=1)
        assert json.loads(done.stderr.strip().splitlines()[-1])["error"]["code"] == "NOT_FOUND"
