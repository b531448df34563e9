"""Rollouts on the published `osmosis-ai` package run on our engine with nothing changed.

Two of them are our own examples with `osmosis` replaced by `osmosis_ai`: that is how a rollout
moves, in either direction.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lab.platform import ROOT, Lab
from lab.workspace import Workspace
from osmosis.evaluation.sandbox import choose_sandbox, has_own_network
from tests.e2e.configs import eval_config
from tests.interop.environments import require_new_python

pytestmark = [pytest.mark.interop, pytest.mark.timeout(400)]

ROWS = 4
LIMIT_S = 300.0
ROLLOUT = "on-the-vendors-sdk"
# The newest litellm does not match the mcp that their extras resolve to; this one does.
PYPROJECT = f"""[project]
name = "{ROLLOUT}"
version = "0.1.0"
requires-python = ">=3.12"
dependencies = ["osmosis-ai[server,strands,openai-agents]==0.3.8", "litellm==1.98.0"]
"""

STREAMING = """
import json, os
import httpx, uvicorn
from osmosis_ai.rollout import (
    AgentWorkflow, AgentWorkflowOutput, Grader, LocalBackend, get_rollout_context,
)
from osmosis_ai.rollout.server import create_rollout_server

http = httpx.AsyncClient(timeout=None)


class Stream(AgentWorkflow):
    async def run(self, ctx):
        link, text, chunks = get_rollout_context(), "", 0
        body = {"model": "policy", "messages": ctx.prompt, "stream": True}
        async with http.stream(
            "POST",
            f"{link.chat_completions_url}/chat/completions",
            headers={"Authorization": f"Bearer {link.api_key}"},
            json=body,
        ) as reply:
            reply.raise_for_status()
            async for line in reply.aiter_lines():
                if line.startswith("data: {"):
                    chunks += 1
                    for choice in json.loads(line[6:])["choices"]:
                        text += choice["delta"].get("content") or ""
        (ctx.artifacts_dir / "answer.txt").write_text(text)
        messages = [*ctx.prompt, {"role": "assistant", "content": text}]
        return AgentWorkflowOutput(messages=messages, metrics={"chunks": chunks})


class Named(Grader):
    async def grade(self, ctx):
        ctx.set_reward(float(ctx.label in ctx.sample.messages[-1]["content"]))


app = create_rollout_server(backend=LocalBackend(workflow=Stream, grader=Named))
if __name__ == "__main__":
    uvicorn.run(app, host="0.0.0.0", port=int(os.environ.get("_OSMOSIS_ROLLOUT_PORT", "8000")))
"""


def moved(example: str) -> str:
    main = Path(ROOT, "examples/workspace/rollouts", example, "main.py").read_text()
    return main.replace("from osmosis.", "from osmosis_ai.")


@pytest.fixture(scope="module")
def workspace(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    require_new_python(tmp_path_factory.mktemp("probe"))
    made = lab.workspace("their-sdk")
    for name in ("calculator", "multiply"):
        made.upload(f"data/{name}.jsonl")
    made.write(f"rollouts/{ROLLOUT}/pyproject.toml", PYPROJECT)
    made.write(f"rollouts/{ROLLOUT}/streaming.py", STREAMING)
    for framework in ("strands", "openai-agents"):
        made.write(f"rollouts/{ROLLOUT}/{framework}.main.py", moved(f"calculator-{framework}"))
    made.push("Rollouts on the vendor's SDK")
    return made


def evaluate(workspace: Workspace, entrypoint: str, dataset: str, network: str = "on") -> str:
    config = f"configs/eval/{entrypoint}.toml"
    text = eval_config(
        ROLLOUT,
        entrypoint=entrypoint,
        dataset=dataset,
        model=f"scripted/models/{dataset}.toml",
        env={"LITELLM_LOCAL_MODEL_COST_MAP": "True"},
        limit=ROWS,
        batch_size=ROWS,
        advanced={"network": network},
    )
    workspace.write(config, text)
    run = workspace.start(config)
    info = workspace.wait(run, limit_s=LIMIT_S)
    logs = workspace.osmosis("eval", "logs", run).stdout
    assert info["eval_run"]["status"] == "finished", logs
    assert info["results"]["graded"] == ROWS, logs
    assert info["results"]["passed"] > 0, logs
    return run


def sample(workspace: Workspace, run: str, row: int) -> dict[str, Any]:
    return workspace.api(f"/api/cli/eval-runs/{run}/samples/{row}/0")


def test_a_streamed_answer_its_metrics_and_its_artifact_arrive(workspace: Workspace) -> None:
    own = has_own_network(choose_sandbox())
    run = evaluate(workspace, "streaming.py", "multiply", "loopback" if own else "on")
    first = sample(workspace, run, 0)
    assert first["calls"][0]["streamed"] is True
    assert first["trajectory"]["extra"]["osmosis"]["sample_metrics"]["chunks"] > 1
    assert first["steps"][-1]["metrics"]["completion_tokens"] > 0
    manifest = workspace.api(f"/api/cli/eval-runs/{run}/samples/manifest?types=artifacts")
    kept = [file["path"] for file in manifest["files"] if file["path"].endswith("answer.txt")]
    assert len(kept) == ROWS


@pytest.mark.parametrize("framework", ["strands", "openai-agents"])
def test_an_agent_framework_calls_its_tools_and_keeps_the_conversation(
    workspace: Workspace, framework: str
) -> None:
    run = evaluate(workspace, f"{framework}.main.py", "calculator")
    for row in range(ROWS):
        steps = [step for step in sample(workspace, run, row)["steps"] if step["source"] == "agent"]
        assert len(steps) == 3
        for step in steps[:2]:
            [call] = step["tool_calls"]
            [result] = step["observation"]["results"]
            assert result["source_call_id"] == call["tool_call_id"]
            assert float(result["content"])
        assert all(step["metrics"]["prompt_tokens"] > 0 for step in steps)
