"""The published `osmosis-ai` command, unchanged, does its main job on our server."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from lab.platform import Lab
from lab.workspace import Workspace
from tests.e2e.configs import eval_config
from tests.interop.conftest import Vendor

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

PYPROJECT = """[project]
name = "vendor-multiply"
version = "0.1.0"
requires-python = ">=3.12"
dependencies = ["osmosis-ai[server]==0.3.8", "httpx"]
"""

MAIN = """
import os, re
import httpx, uvicorn
from osmosis_ai.rollout import AgentWorkflow, Grader, LocalBackend, get_rollout_context
from osmosis_ai.rollout.server import create_rollout_server

http = httpx.AsyncClient(timeout=None)


class Multiply(AgentWorkflow):
    async def run(self, ctx):
        link = get_rollout_context()
        reply = await http.post(
            f"{link.chat_completions_url}/chat/completions",
            headers={"Authorization": f"Bearer {link.api_key}"},
            json={"model": "policy", "messages": ctx.prompt},
        )
        reply.raise_for_status()
        return [*ctx.prompt, reply.json()["choices"][0]["message"]]


class LastNumber(Grader):
    async def grade(self, ctx):
        found = re.findall(r"#### (-?[0-9.]+)", ctx.sample.messages[-1]["content"])
        ctx.set_reward(float(bool(found) and abs(float(found[-1]) - float(ctx.label)) < 1e-2))


app = create_rollout_server(backend=LocalBackend(workflow=Multiply, grader=LastNumber))

if __name__ == "__main__":
    uvicorn.run(app, host="0.0.0.0", port=int(os.environ.get("_OSMOSIS_ROLLOUT_PORT", "8000")))
"""


@pytest.fixture(scope="module")
def workspace(lab: Lab) -> Workspace:
    """Pushed to us, with the github.com origin that the vendor's command insists on."""
    made = lab.workspace("vendors")
    made.write("rollouts/vendor-multiply/main.py", MAIN)
    made.write("rollouts/vendor-multiply/pyproject.toml", PYPROJECT)
    made.write(
        "configs/eval/vendor.toml",
        eval_config("vendor-multiply", dataset="multiply", limit=8, secrets=["SOME_KEY"]),
    )
    made.push("Add a rollout on the vendor's SDK")
    identity = made.json("rollout", "list")["git"]["identity"]
    git = ["git", "-C", made.directory, "remote", "set-url"]
    pushed = lab.run(["git", "-C", made.directory, "remote", "get-url", "origin"]).stdout.strip()
    lab.run([*git, "origin", f"https://github.com/{identity}"])
    lab.run([*git, "--push", "origin", pushed])
    return made


def call(vendor: Vendor, workspace: Workspace, *words: str | Path, **env: str) -> dict[str, Any]:
    done = workspace.lab.run(
        [vendor.command, "--json", *words], cwd=workspace.directory, env={**vendor.env, **env}
    )
    return json.loads(done.stdout)


def test_the_vendors_command_evaluates_a_rollout_on_the_vendors_sdk(
    vendor: Vendor, workspace: Workspace
) -> None:
    who = call(vendor, workspace, "auth", "whoami")["data"]
    assert who["workspace"]["role"] == "owner"

    call(vendor, workspace, "dataset", "upload", "data/multiply.jsonl", "--yes")
    deadline = time.monotonic() + 60
    while call(vendor, workspace, "dataset", "info", "multiply")["data"]["status"] != "uploaded":
        assert time.monotonic() < deadline
        time.sleep(0.2)

    call(vendor, workspace, "secret", "set", "SOME_KEY", "--env", "VALUE", VALUE="not so secret")
    names = [item["name"] for item in call(vendor, workspace, "secret", "list")["items"]]
    assert names == ["SOME_KEY"]

    rollouts = [item["name"] for item in call(vendor, workspace, "rollout", "list")["items"]]
    assert "vendor-multiply" in rollouts

    submitted = call(vendor, workspace, "eval", "submit", "configs/eval/vendor.toml", "--yes")
    run = submitted["resource"]["name"]
    assert submitted["resource"]["status"] == "pending"
    deadline = time.monotonic() + 180
    while True:
        info = call(vendor, workspace, "eval", "info", run)["data"]
        if info["eval_run"]["status"] not in ("pending", "running"):
            break
        assert time.monotonic() < deadline, info
        time.sleep(0.5)
    assert info["eval_run"]["status"] == "finished", workspace.osmosis("eval", "logs", run).stdout
    assert info["results"]["total_runs"] == 8
    assert info["metrics_available"] is True
    assert info["metrics"]["summary"]["graded"] == 8, info["metrics"]
    assert call(vendor, workspace, "eval", "list")["items"][0]["name"] == run
    assert call(vendor, workspace, "eval", "logs", run)["items"]
