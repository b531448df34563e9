"""A short free-text answer, graded by a judge model (``[advanced] judge_model``)."""

import os

import uvicorn

from osmosis import evaluate_rubric
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

RUBRIC = """\
Compare the candidate output with the reference answer.
1 = it states the reference answer; other words and more detail are fine.
0.5 = it states the reference answer and something wrong beside it.
0 = it states something else, or nothing."""


class Answer(AgentWorkflow):
    async def run(self, ctx):
        reply = await call_model(ctx.prompt)
        return AgentWorkflowOutput(messages=[*ctx.prompt, reply])


class Judge(Grader):
    """The judge's score. An answer that states none is an error, not a zero."""

    async def grade(self, ctx):
        messages = ctx.sample.messages
        verdict = await evaluate_rubric(
            solution_str=messages[-1]["content"],
            original_input=next(m["content"] for m in messages if m["role"] == "user"),
            ground_truth=ctx.label,
            rubric=RUBRIC,
        )
        ctx.sample.extra_fields["explanation"] = verdict.explanation
        ctx.set_reward(verdict.score)


config = AgentWorkflowConfig(name="judged", concurrency=ConcurrencyConfig(max_concurrent=64))
app = create_rollout_server(
    backend=LocalBackend(workflow=Answer, workflow_config=config, grader=Judge)
)

if __name__ == "__main__":
    port = int(os.environ.get("_OSMOSIS_ROLLOUT_PORT", "8000"))
    uvicorn.run(app, host="127.0.0.1", port=port, access_log=False, timeout_keep_alive=2160)
