"""One model call per row; the last ``#### number`` of the reply is graded."""

import os
import re

import uvicorn

from osmosis.rollout import (
    AgentWorkflow,
    AgentWorkflowConfig,
    AgentWorkflowOutput,
    ConcurrencyConfig,
    Grader,
    LocalBackend,
    call_model,
)
from osmosis.rollout.server import create_rollout_server

ANSWER = re.compile(r"####\s*(-?\d[\d,]*(?:\.\d+)?)")
TOLERANCE = 1e-2


class Multiply(AgentWorkflow):
    async def run(self, ctx):
        reply = await call_model(ctx.prompt)
        return AgentWorkflowOutput(messages=[*ctx.prompt, reply])


class LastNumber(Grader):
    """1.0 when the last ``#### number`` is within the tolerance of the label, else 0.0."""

    async def grade(self, ctx):
        answer = last_number(ctx.sample.messages[-1]["content"])
        right = answer is not None and abs(answer - float(ctx.label)) < TOLERANCE
        ctx.set_reward(1.0 if right else 0.0)


def last_number(text: str) -> float | None:
    found = ANSWER.findall(text)
    return float(found[-1].replace(",", "")) if found else None


# How many samples this process works on at once; `batch_size` in a config cannot exceed it.
config = AgentWorkflowConfig(name="multiply", concurrency=ConcurrencyConfig(max_concurrent=64))
app = create_rollout_server(
    backend=LocalBackend(workflow=Multiply, workflow_config=config, grader=LastNumber)
)

if __name__ == "__main__":
    port = int(os.environ.get("_OSMOSIS_ROLLOUT_PORT", "8000"))
    uvicorn.run(app, host="127.0.0.1", port=port, access_log=False, timeout_keep_alive=2160)
