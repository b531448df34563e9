"""A nursery whose shards make one call through LiteLLM and tell what they are, for test_nursery.

forked_call.py WORKER_PID [litellm] [threaded]
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import ssl
import sys
import threading
import uuid
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from osmosis.evaluation.gateway.chat import ChatRequest
from osmosis.evaluation.gateway.litellm_adapter import litellm_model
from osmosis.processes import die_with_my_parent
from osmosis.worker import shard, shard_nursery


def serve(worker_pid: int) -> None:
    die_with_my_parent(worker_pid)
    seen = {
        "random": random.random(),
        "uuid": uuid.uuid4().hex,
        "ssl": ssl.RAND_bytes(8).hex(),
        "parent": os.getppid(),
        "group": os.getpgid(0),
        "session": os.getsid(0),
        "loaded": "litellm" in sys.modules,
        "variables": sorted(name for name in os.environ if "ANTHROPIC" in name),
    }
    os.write(0, json.dumps(seen).encode() + b"\n")
    address = os.read(0, 1000).decode()
    variables = {"ANTHROPIC_API_KEY": "sk-run", "ANTHROPIC_API_BASE": address}
    text = asyncio.run(_ask(variables))
    os.write(0, json.dumps(text).encode() + b"\n")
    os._exit(7)


async def _ask(variables: dict[str, str]) -> str:
    model = litellm_model("anthropic/claude-sonnet-4-5", variables)
    body = {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 9}
    reply = await model.complete(ChatRequest.of(body, "policy"))
    await model.close()
    return reply.message["content"]


if __name__ == "__main__":
    shard.serve = serve
    if "threaded" in sys.argv:
        threading.Thread(target=threading.Event().wait, daemon=True).start()
    shard_nursery.main()
