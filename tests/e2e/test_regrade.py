"""`eval retry --regrade`: new grades for stored samples, without a single call of the policy."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from lab.mock_model import mock_model
from lab.ports import free_port, http_json
from lab.workspace import Workspace
from tests.chaos.kills import kill_all
from tests.e2e.configs import eval_config

MAIN = """
import os, uvicorn
from osmosis.rollout import (
    AgentWorkflow, AgentWorkflowConfig, AgentWorkflowOutput, ConcurrencyConfig, Grader,
    LocalBackend, call_model,
)
from osmosis.rollout.server import create_rollout_server

class Flow(AgentWorkflow):
    async def run(self, ctx):
        reply = await call_model(ctx.prompt)
        (ctx.artifacts_dir / "answer.txt").write_text(reply["content"])
        messages = [*ctx.prompt, {**reply, "thought": {"of": ["the", "framework"]}}]
        return AgentWorkflowOutput(messages=messages, metrics={"turns": 1})

class Grade(Grader):
    async def grade(self, ctx):
        %s

config = AgentWorkflowConfig(name="re", concurrency=ConcurrencyConfig(max_concurrent=8))
app = create_rollout_server(
    backend=LocalBackend(workflow=Flow, workflow_config=config, grader=Grade)
)
if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(os.environ["_OSMOSIS_ROLLOUT_PORT"]))
"""
FIRST = """
        ctx.sample.metrics["old"] = 1
        if "7" in ctx.label:
            raise KeyError("a bug of the grader")
        ctx.set_reward(0.25)
"""
SECOND = """
        last = ctx.sample.messages[-1]
        assert last["thought"] == {"of": ["the", "framework"]}, "the very messages"
        assert (ctx.artifacts_dir / "answer.txt").read_text() == last["content"]
        ctx.sample.metrics["own"] = ctx.sample.metrics["turns"] + 1
        ctx.set_reward(0.75)
"""
SLOW = """
        import asyncio
        await asyncio.sleep(0.4)
        ctx.set_reward(0.5)
"""
PYPROJECT = """[project]
name = "re"
version = "0.1.0"
requires-python = ">=3.11"
dependencies = ["osmosis-platform"]
"""
ROWS = 10


@pytest.fixture(scope="module")
def model() -> Iterator[str]:
    with mock_model(free_port(), 0) as url:
        yield url


def policy_calls(model: str) -> int:
    return http_json(f"{model}/stats")["requests"]


@pytest.fixture(scope="module")
def finished(workspace: Workspace, model: str) -> str:
    """A run whose grader fails on some rows."""
    rows = [{"user_prompt": f"What is {i} x 7?", "ground_truth": str(i)} for i in range(ROWS)]
    workspace.write("data/re.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    workspace.upload("data/re.jsonl")
    workspace.write("rollouts/re/pyproject.toml", PYPROJECT)
    workspace.write("rollouts/re/main.py", MAIN % FIRST.strip())
    workspace.push("a grader with a bug")
    config = eval_config(
        "re", model="openai/mock", limit=ROWS, batch_size=4, env={"OPENAI_BASE_URL": f"{model}/v1"}
    )
    workspace.write("configs/eval/re.toml", config)
    run = workspace.start("configs/eval/re.toml")
    info = workspace.wait(run)
    assert info["eval_run"]["status"] == "finished"
    assert (info["results"]["graded"], info["results"]["failed"]) == (ROWS - 1, 1)
    return run


def head(workspace: Workspace) -> str:
    done = workspace.lab.run(["git", "-C", workspace.directory, "rev-parse", "HEAD"])
    return str(done.stdout).strip()


def samples(workspace: Workspace, run: str) -> list[dict[str, Any]]:
    return workspace.api(f"/api/cli/eval-runs/{run}/samples?limit=50")["samples"]


def test_stored_samples_are_graded_again_without_the_policy(
    workspace: Workspace, model: str, finished: str
) -> None:
    before, calls = samples(workspace, finished), policy_calls(model)
    run = workspace.api(f"/api/cli/eval-runs/{finished}")
    tokens = run["results"]["total_tokens"]
    workspace.write("rollouts/re/main.py", MAIN % SECOND.strip())
    workspace.push("a better grader")
    words = ("eval", "retry", finished, "--regrade", "--branch", "main", "--yes")
    told = workspace.json(*words)
    assert f"{ROWS} stored samples" in told["message"]
    info = workspace.wait(finished)
    assert info["eval_run"]["status"] == "finished", info
    assert policy_calls(model) == calls, "not one call, of the pre-flight neither"
    results = info["results"]
    assert (results["graded"], results["failed"], results["score"]) == (ROWS, 0, 0.75)
    assert results["total_tokens"] == tokens
    assert info["regrade"]["commit_sha"] == head(workspace) != info["commit_sha"]
    after = samples(workspace, finished)
    for old, new in zip(before, after, strict=True):
        assert old["rollout_id"] != new["rollout_id"]
        assert new["regraded"] == {"generation": 2, "commit_sha": head(workspace)}
        assert (old["tokens"], old["duration_ms"]) == (new["tokens"], new["duration_ms"])
    whole = workspace.api(f"/api/cli/eval-runs/{finished}/samples/3/0")
    assert whole["metrics"] == {"turns": 1.0, "own": 2.0}, "the old grader's metric is gone"
    assert whole["artifacts"] == ["answer.txt"]
    assert whole["trajectory"]["extra"]["osmosis"]["reward"] == 0.75
    assert whole["trajectory"]["session_id"] == whole["rollout_id"]


def test_a_worker_killed_while_it_grades_again_loses_no_grade(
    workspace: Workspace, model: str, finished: str
) -> None:
    calls = policy_calls(model)
    workspace.write("rollouts/re/main.py", MAIN % SLOW.strip())
    workspace.push("a slow grader")
    workspace.json("eval", "retry", finished, "--regrade", "--branch", "main", "--yes")
    deadline = time.monotonic() + 60
    while not (done := [s for s in samples(workspace, finished) if s["reward"] == 0.5]):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert len(done) < ROWS
    kill_all(workspace.lab, "shard")
    assert len([s for s in samples(workspace, finished) if s["reward"] in (0.5, 0.75)]) == ROWS
    info = workspace.wait(finished)
    assert info["eval_run"]["status"] == "finished", info
    assert (info["results"]["graded"], info["results"]["score"]) == (ROWS, 0.5)
    assert policy_calls(model) == calls
