"""A gateway alone: ``python -m bench.gateway_process MODEL_BASE_URL``, until its stdin closes."""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import uvloop

from osmosis.evaluation.gateway import Gateway
from osmosis.evaluation.plan import EvaluationPlan
from osmosis.evaluation.redaction import Redactor

ROLLOUT_ID = "0" * 32


class Silent:
    """The part of a sink that the gateway uses."""

    def log(self, *_: Any) -> None:
        pass


async def serve(base_url: str) -> None:
    scratch = Path(tempfile.gettempdir())
    plan = EvaluationPlan(
        run_id="bench",
        name="bench",
        code_dir=scratch,
        work_dir=scratch,
        cache_dir=scratch,
        rollout="bench",
        entrypoint="main.py",
        model_path="openai/mock",
        env={"OPENAI_BASE_URL": base_url, "OPENAI_API_KEY": "none"},
    )
    sink: Any = Silent()
    gateway = Gateway(plan, Redactor([]), sink)
    await gateway.start()
    session = gateway.open_session(ROLLOUT_ID)
    print(json.dumps({"url": session.chat_completions_url, "key": session.api_key}), flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await gateway.close()


if __name__ == "__main__":
    uvloop.run(serve(sys.argv[1]))
