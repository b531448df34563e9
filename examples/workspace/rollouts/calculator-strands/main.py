"""The calculator as a Strands agent: the agent's messages are the sample."""

import os
import re

import uvicorn
from strands import tool

from osmosis.rollout import (
    AgentWorkflow,
    AgentWorkflowConfig,
    ConcurrencyConfig,
    Grader,
    LocalBackend,
)
from osmosis.rollout.integrations.agents.strands import OsmosisRolloutModel, OsmosisStrandsAgent
from osmosis.rollout.server import create_rollout_server

ANSWER = re.compile(r"####\s*(-?\d[\d,]*(?:\.\d+)?)")
TOLERANCE = 1e-2


@tool
def add(a: float, b: float) -> str:
    """Add two numbers: a + b."""
    return f"{a + b:.12g}"


@tool
def subtract(a: float, b: float) -> str:
    """Subtract the second number from the first: a - b."""
    return f"{a - b:.12g}"


@tool
def multiply(a: float, b: float) -> str:
    """Multiply two numbers: a * b."""
    return f"{a * b:.12g}"


@tool
def divide(a: float, b: float) -> str:
    """Divide the first number by the second: a / b."""
    return f"{a / b:.12g}"


class Calculator(AgentWorkflow):
    async def run(self, ctx):
        system, question = (message["content"] for message in ctx.prompt)
        agent = OsmosisStrandsAgent(
            model=OsmosisRolloutModel(),
            system_prompt=system,
            tools=[add, subtract, multiply, divide],
            callback_handler=None,
        )
        await agent.invoke_async(question)


class LastNumber(Grader):
    """1.0 when the last ``#### number`` is within the tolerance of the label, else 0.0."""

    async def grade(self, ctx):
        said = ctx.sample.messages[-1]["content"]
        answer = last_number("\n".join(block.get("text", "") for block in said))
        right = answer is not None and abs(answer - float(ctx.label)) < TOLERANCE
        ctx.set_reward(1.0 if right else 0.0)


def last_number(text: str) -> float | None:
    found = ANSWER.findall(text)
    return float(found[-1].replace(",", "")) if found else None


config = AgentWorkflowConfig(
    name="calculator-strands", concurrency=ConcurrencyConfig(max_concurrent=64)
)
app = create_rollout_server(
    backend=LocalBackend(workflow=Calculator, workflow_config=config, grader=LastNumber)
)

if __name__ == "__main__":
    port = int(os.environ.get("_OSMOSIS_ROLLOUT_PORT", "8000"))
    uvicorn.run(app, host="127.0.0.1", port=port, access_log=False, timeout_keep_alive=2160)
