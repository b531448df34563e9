"""A rollout on the vendor's SDK, as a user of theirs has it."""

from __future__ import annotations

PYPROJECT = """[project]
name = "vendor-multiply"
version = "0.1.0"
requires-python = ">=3.12"
dependencies = ["osmosis-ai[server]==0.3.8", "httpx"]
"""

# With MOOD=bad the rows with a 2 in the question fail, and every sample leaves an artifact.
MAIN = """
import os, re
import httpx, uvicorn
from osmosis_ai.rollout import AgentWorkflow, Grader, LocalBackend, get_rollout_context
from osmosis_ai.rollout.server import create_rollout_server

http = httpx.AsyncClient(timeout=None)


class Multiply(AgentWorkflow):
    async def run(self, ctx):
        (ctx.artifacts_dir / "question.txt").write_text(ctx.prompt[-1]["content"])
        if os.environ.get("MOOD") == "bad" and " 2" in ctx.prompt[-1]["content"]:
            raise RuntimeError("not in the mood")
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
