"""An agent with tools: it calls the model until there is no tool call left to answer."""

import os
import re

import uvicorn
from tools import TOOLS, call_tool

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

MAX_TURNS = 8
ANSWER = re.compile(r"####\s*(-?\d[\d,]*(?:\.\d+)?)")
TOLERANCE = 1e-2


class Calculator(AgentWorkflow):
    async def run(self, ctx):
        messages = list(ctx.prompt)
        turns = tool_calls = 0
        while turns < MAX_TURNS:
            reply = await call_model(messages, tools=TOOLS)
            messages.append(reply)
            turns += 1
            calls = reply.get("tool_calls") or []
            if not calls:
                break
            for call in calls:
                function = call["function"]
                result = call_tool(function["name"], function["arguments"])
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
            tool_calls += len(calls)
        metrics = {"turns": turns, "tool_calls": tool_calls}
        return AgentWorkflowOutput(messages=messages, metrics=metrics)


class LastNumber(Grader):
    """1.0 when the last ``#### number`` is within the tolerance of the label, else 0.0."""

    async def grade(self, ctx):
        answer = last_number(ctx.sample.messages[-1]["content"])
        right = answer is not None and abs(answer - float(ctx.label)) < TOLERANCE
        ctx.set_reward(1.0 if right else 0.0)


def last_number(text: str) -> float | None:
    found = ANSWER.findall(text)
    return float(found[-1].replace(",", "")) if found else None


config = AgentWorkflowConfig(name="calculator", concurrency=ConcurrencyConfig(max_concurrent=64))
app = create_rollout_server(
    backend=LocalBackend(workflow=Calculator, workflow_config=config, grader=LastNumber)
)

if __name__ == "__main__":
    port = int(os.environ.get("_OSMOSIS_ROLLOUT_PORT", "8000"))
    uvicorn.run(app, host="127.0.0.1", port=port, access_log=False, timeout_keep_alive=2160)
