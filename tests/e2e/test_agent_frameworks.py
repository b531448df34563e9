"""Agent frameworks and plain clients run on the run's own model; here it is a scripted one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lab.workspace import Workspace
from tests.e2e.configs import eval_config

FRAMEWORKS = ("calculator-openai-agents", "calculator-strands")
ROWS = 4
LIMIT_S = 240.0

# Beside the example's own entrypoint, so that they run in its environment.
PLAIN_CLIENT = """
import os
import openai, uvicorn
from osmosis.rollout import AgentWorkflow, Grader, LocalBackend, model_settings
from osmosis.rollout.server import create_rollout_server

client = openai.AsyncOpenAI(api_key="none")

class Ask(AgentWorkflow):
    async def run(self, ctx):
        mine = client.with_options(**model_settings().for_openai())
        reply = await mine.chat.completions.create(model="policy", messages=ctx.prompt)
        return [*ctx.prompt, reply.choices[0].message.model_dump(exclude_none=True)]

class Named(Grader):
    async def grade(self, ctx):
        ctx.set_reward(float(ctx.label in ctx.sample.messages[-1]["content"]))

app = create_rollout_server(backend=LocalBackend(workflow=Ask, grader=Named))
if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(os.environ["_OSMOSIS_ROLLOUT_PORT"]))
"""

WITHOUT_SESSION = """
import main
import os, uvicorn
from agents import Runner
from osmosis.rollout import AgentWorkflow, LocalBackend
from osmosis.rollout.integrations.agents.openai_agents import OsmosisAgent, OsmosisRolloutModel
from osmosis.rollout.server import create_rollout_server

class Forgetful(AgentWorkflow):
    async def run(self, ctx):
        agent = OsmosisAgent(name="forgetful", model=OsmosisRolloutModel())
        await Runner.run(agent, ctx.prompt)

app = create_rollout_server(backend=LocalBackend(workflow=Forgetful, grader=main.LastNumber))
if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(os.environ["_OSMOSIS_ROLLOUT_PORT"]))
"""

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def frameworks(workspace: Workspace) -> Workspace:
    directory = "rollouts/calculator-openai-agents"
    workspace.write(f"{directory}/plain_client.py", PLAIN_CLIENT)
    workspace.write(f"{directory}/without_session.py", WITHOUT_SESSION)
    workspace.push("Entrypoints beside the example's own")
    return workspace


def submit(
    workspace: Workspace, rollout: str, entrypoint: str = "main.py", dataset: str = "calculator"
) -> str:
    name = f"configs/eval/{rollout}-{entrypoint}.toml"
    config = eval_config(
        rollout,
        entrypoint=entrypoint,
        dataset=dataset,
        model=f"scripted/models/{dataset}.toml",
        limit=ROWS,
        batch_size=ROWS,
    )
    workspace.write(name, config)
    return workspace.start(name)


def test_each_example_runs_its_agent_with_tools_and_keeps_the_conversation(
    frameworks: Workspace,
) -> None:
    runs = [submit(frameworks, name) for name in FRAMEWORKS]
    for run in runs:
        info = frameworks.wait(run, limit_s=LIMIT_S)
        logs = frameworks.osmosis("eval", "logs", run).stdout
        assert info["eval_run"]["status"] == "finished", logs
        assert info["results"]["graded"] == ROWS, logs
        assert info["results"]["passed"] > 0, logs
        for row in range(ROWS):
            assert_tools_were_used(frameworks.api(f"/api/cli/eval-runs/{run}/samples/{row}/0"))


def assert_tools_were_used(sample: dict[str, Any]) -> None:
    steps = sample["steps"]
    assert [step["source"] for step in steps] == ["system", "user", "agent", "agent", "agent"]
    assert all(step["metrics"]["prompt_tokens"] > 0 for step in steps[2:]), steps
    for step in steps[2:4]:
        [call] = step["tool_calls"]
        [result] = step["observation"]["results"]
        assert set(call["arguments"]) == {"a", "b"}
        assert result["source_call_id"] == call["tool_call_id"]
        assert float(result["content"])
    assert "####" in steps[4]["message"]


def test_a_plain_client_takes_its_address_and_key_from_the_run(frameworks: Workspace) -> None:
    run = submit(frameworks, "calculator-openai-agents", "plain_client.py", "multiply")
    info = frameworks.wait(run, limit_s=LIMIT_S)
    assert info["results"]["graded"] == ROWS, frameworks.osmosis("eval", "logs", run).stdout
    assert info["results"]["passed"] > 0


def test_an_agent_without_a_session_fails_with_what_to_pass(frameworks: Workspace) -> None:
    run = submit(frameworks, "calculator-openai-agents", "without_session.py")
    info = frameworks.wait(run, limit_s=LIMIT_S)
    assert info["results"]["failed"] == ROWS
    assert "session=OsmosisMemorySession()" in json.dumps(
        frameworks.api(f"/api/cli/eval-runs/{run}/samples/0/0")
    )
