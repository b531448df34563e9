"""Rollouts that misbehave: each gets its right status and a message that teaches; others go on."""

from __future__ import annotations

import json
import os
import time
from typing import Any

import pytest

from lab.processes import command_lines_with
from lab.workspace import Workspace
from tests.e2e.configs import eval_config

PYPROJECT = """[project]
name = "{name}"
version = "0.1.0"
requires-python = ">=3.11"
dependencies = ["osmosis-platform"]
"""

HEAD = """
import asyncio, os, sys, time
from osmosis.rollout import (
    AgentWorkflow, AgentWorkflowConfig, AgentWorkflowOutput, ConcurrencyConfig, Grader,
    LocalBackend,
)
from osmosis.rollout.server import create_rollout_server

def is_third(ctx):
    return "row-3." in ctx.prompt[-1]["content"]

class Flow(AgentWorkflow):
    async def run(self, ctx):
        {run}
        return AgentWorkflowOutput(messages=[*ctx.prompt, {{"role": "assistant", "content": "x"}}])

class Grade(Grader):
    async def grade(self, ctx):
        {grade}
        ctx.set_reward(1.0)
"""

TAIL = """
config = AgentWorkflowConfig(name="rude", concurrency=ConcurrencyConfig(max_concurrent=8))
app = create_rollout_server(
    backend=LocalBackend(workflow=Flow, workflow_config=config, grader=Grade)
)
if __name__ == "__main__":
    import uvicorn
    uvicorn.run(app, host="127.0.0.1", port=int(os.environ["_OSMOSIS_ROLLOUT_PORT"]))
"""

DAEMON = """
import signal, subprocess
async def wait_for_a_daemon(ctx):
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            os.execvp("sleep", ["sleep", os.environ["NAP"]])
        os._exit(0)
    os.wait()
    os.set_inheritable(writing, True)
    await asyncio.to_thread(os.read, reading, 1)
"""
"""A grader's helper that leaves its group, session and parent, ignores SIGTERM and holds a pipe."""

ROWS = 12


@pytest.fixture(scope="module")
def rude(workspace: Workspace) -> Workspace:
    """The rude rollouts, pushed once; the third row of their dataset carries the mark."""
    bodies: dict[str, tuple[str, str]] = {
        "crash-one": ("if is_third(ctx): os._exit(3)", "pass"),
        "block-loop": ("if is_third(ctx): time.sleep(3600)", "pass"),
        "swallow": (
            "\n        while is_third(ctx):\n            try:\n"
            "                await asyncio.sleep(3600)\n"
            "            except asyncio.CancelledError:\n                pass",
            "pass",
        ),
        "daemon-grader": (
            "pass",
            "if is_third(ctx_proxy(ctx)): await wait_for_a_daemon(ctx)",
        ),
        "no-sample": ("if is_third(ctx): return None", "pass"),
        "nan-reward": ("pass", 'if is_third(ctx_proxy(ctx)): ctx.sample.reward = float("nan")'),
        "loud": ("if is_third(ctx): print('y' * 100 + '\\n', end='', flush=True); "
                 "os.write(1, b'x' * 79 + b'\\n') ; "
                 "[os.write(1, (b'z' * 99 + b'\\n') * 10000) for _ in range(100)]", "pass"),
    }  # fmt: skip
    proxy = (
        "\nclass ctx_proxy:\n    def __init__(self, ctx):\n"
        "        self.prompt = [m for m in ctx.sample.messages if m['role'] == 'user']\n"
    )
    proxy += DAEMON
    for name, (run, grade) in bodies.items():
        source = HEAD.format(run=run, grade=grade) + proxy + TAIL
        workspace.write(f"rollouts/{name}/main.py", source)
        workspace.write(f"rollouts/{name}/pyproject.toml", PYPROJECT.format(name=name))
    workspace.write("rollouts/no-import/main.py", "import a_module_that_is_nowhere\n")
    workspace.write("rollouts/no-import/pyproject.toml", PYPROJECT.format(name="no-import"))
    workspace.write("rollouts/no-start/main.py", "import time\ntime.sleep(0.2)\n")
    workspace.write("rollouts/no-start/pyproject.toml", PYPROJECT.format(name="no-start"))
    rows = [{"user_prompt": f"row-{i}.", "ground_truth": str(i)} for i in range(1, ROWS + 1)]
    workspace.write("data/rude.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    workspace.push("Add the rude rollouts")
    workspace.upload("data/rude.jsonl")
    return workspace


def evaluate(rude: Workspace, rollout: str, **evaluation: Any) -> dict[str, Any]:
    settings: dict[str, Any] = {"limit": ROWS, "batch_size": 6, **evaluation}
    path = f"configs/eval/{rollout}.toml"
    rude.write(path, eval_config(rollout, dataset="rude", **settings))
    return rude.wait(rude.start(path))


def failed_sample(rude: Workspace, info: dict[str, Any]) -> dict[str, Any]:
    run = info["eval_run"]["id"]
    found = rude.api(f"/api/cli/eval-runs/{run}/samples?status=failed&limit=50")["samples"]
    assert [sample["row_index"] for sample in found] == [2]
    return rude.api(f"/api/cli/eval-runs/{run}/samples/2/0")


def assert_only_the_third_row_failed(info: dict[str, Any]) -> None:
    assert info["eval_run"]["status"] == "finished", info
    results = info["results"]
    assert (results["total_runs"], results["failed"], results["passed"]) == (ROWS, 1, ROWS - 1)


def test_a_row_that_kills_its_process_is_named_and_its_neighbours_complete(
    rude: Workspace,
) -> None:
    info = evaluate(rude, "crash-one")
    assert_only_the_third_row_failed(info)
    sample = failed_sample(rude, info)
    assert sample["error_type"] == "rollout_crashed"
    assert "3" in sample["error_message"]


@pytest.mark.parametrize("rollout", ["block-loop", "swallow"])
def test_a_row_that_never_gives_way_times_out_and_the_others_complete(
    rude: Workspace, rollout: str
) -> None:
    info = evaluate(rude, rollout, agent_workflow_timeout_s=2, grader_timeout_s=2)
    assert_only_the_third_row_failed(info)
    assert failed_sample(rude, info)["error_type"] == "timeout"


def test_a_grader_that_waits_for_a_daemon_of_its_own_times_out_and_the_daemon_goes(
    rude: Workspace,
) -> None:
    nap = f"97{os.getpid()}"
    info = evaluate(
        rude, "daemon-grader", grader_timeout_s=1, env={"NAP": nap}, agent_workflow_timeout_s=60
    )
    assert_only_the_third_row_failed(info)
    sample = failed_sample(rude, info)
    assert sample["error_type"] == "timeout"
    assert "grad" in sample["error_message"].lower()
    deadline = time.monotonic() + 10
    while left := command_lines_with(nap):
        assert time.monotonic() < deadline, left
        time.sleep(0.05)


def test_a_row_without_a_sample_says_what_to_return(rude: Workspace) -> None:
    info = evaluate(rude, "no-sample")
    assert_only_the_third_row_failed(info)
    sample = failed_sample(rude, info)
    assert sample["error_type"] == "validation_error"
    assert "sample" in sample["error_message"]


def test_a_reward_that_is_no_number_fails_its_row_only(rude: Workspace) -> None:
    info = evaluate(rude, "nan-reward")
    assert_only_the_third_row_failed(info)
    sample = failed_sample(rude, info)
    assert "finite" in sample["error_message"]


def test_a_hundred_megabytes_of_output_do_not_hold_the_run(rude: Workspace) -> None:
    info = evaluate(rude, "loud")
    assert info["eval_run"]["status"] == "finished"
    assert info["results"]["passed"] == ROWS
    logs = rude.osmosis("eval", "logs", info["eval_run"]["name"], "--limit", "200").stdout
    assert len(logs) < 3_000_000


def test_a_rollout_that_does_not_import_ends_the_run_with_the_missing_module(
    rude: Workspace,
) -> None:
    info = evaluate(rude, "no-import")
    assert info["eval_run"]["status"] == "failed"
    assert "a_module_that_is_nowhere" in json.dumps(info["eval_run"]["error"])


def test_a_rollout_that_does_not_serve_ends_the_run_and_says_how_to_serve(
    rude: Workspace,
) -> None:
    info = evaluate(rude, "no-start")
    assert info["eval_run"]["status"] == "failed"
    assert "_OSMOSIS_ROLLOUT_PORT" in json.dumps(info["eval_run"]["error"])
