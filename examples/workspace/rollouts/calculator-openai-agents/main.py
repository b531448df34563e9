"""The calculator as an agent of the OpenAI Agents SDK: the session is the sample."""

import os
import re

import uvicorn
from agents import Runner, function_tool

from osmosis.rollout import (
    AgentWorkflow,
    AgentWorkflowConfig,
    ConcurrencyConfig,
    Grader,
    LocalBackend,
)
from osmosis.rollout.integrations.agents.openai_agents import (
    OsmosisAgent,
    OsmosisMemorySession,
    OsmosisRolloutModel,
)
from osmosis.rollout.server import create_rollout_server

MAX_TURNS = 8
ANSWER = re.compile(r"####\s*(-?\d[\d,]*(?:\.\d+)?)")
TOLERANCE = 1e-2


@function_tool
def add(a: float, b: float) -> str:
    """Add two numbers: a + b."""
    return f"{a + b:.12g}"


@function_tool
def subtract(a: float, b: float) -> str:
    """Subtract the second number from the first: a - b."""
    return f"{a - b:.12g}"


@function_tool
def multiply(a: float, b: float) -> str:
    """Multiply two numbers: a * b."""
    return f"{a * b:.12g}"


@function_tool
def divide(a: float, b: float) -> str:
    """Divide the first number by the second: a / b."""
    return f"{a / b:.12g}"


class Calculator(AgentWorkflow):
    async def run(self, ctx):
        agent = OsmosisAgent(
            name="calculator",
            model=OsmosisRolloutModel(),
            tools=[add, subtract, multiply, divide],
        )
        await Runner.run(agent, ctx.prompt, session=OsmosisMemorySession(), max_turns=MAX_TURNS)


class LastNumber(Grader):
    """1.0 when the last ``#### number`` is within the tolerance of the label, else 0.0."""

    async def grade(self, ctx):
        answer = last_number(text_of(ctx.sample.messages[-1]))
        right = answer is not None and abs(answer - float(ctx.label)) < TOLERANCE
        ctx.set_reward(1.0 if right else 0.0)


def text_of(item) -> str:
    """The text of an item: content is a string, or parts of which some have text."""
    content = item.get("content") or ""
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", "") for part in content)


def last_number(text: str) -> float | None:
    found = ANSWER.findall(text)
    return float(found[-1].replace(",", "")) if found else None


config = AgentWorkflowConfig(
    name="calculator-openai-agents", concurrency=ConcurrencyConfig(max_concurrent=64)
)
app = create_rollout_server(
    backend=LocalBackend(workflow=Calculator, workflow_config=config, grader=LastNumber)
)

if __name__ == "__main__":
    port = int(os.environ.get("_OSMOSIS_ROLLOUT_PORT", "8000"))
    uvicorn.run(app, host="127.0.0.1", port=port, access_log=False, timeout_keep_alive=2160)
