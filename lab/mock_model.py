"""An OpenAI-compatible model that answers multiplications after a set latency, and counts.

    python -m lab.mock_model --port 8765 --latency-ms 100

POST /v1/chat/completions, GET /v1/models, GET /stats, POST /reset. Raw ASGI, so that what a
benchmark measures is not the mock.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import uvicorn

from lab.ports import wait_until_answers

ROOT = Path(__file__).resolve().parent.parent
START_LIMIT_S = 30.0
STOP_LIMIT_S = 15.0
QUESTION = re.compile(r"(\d+)\s*[x×*]\s*(\d+)")


class MockModel:
    def __init__(self, latency_s: float) -> None:
        self.latency_s = latency_s
        self.reset()

    def reset(self) -> None:
        self.requests = 0
        self.row_requests = 0
        self.in_flight = 0
        self.max_in_flight = 0
        self.first_row_unix: float | None = None
        self.last_row_unix: float | None = None
        self.last_answer_unix: float | None = None

    def stats(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "latency_s"}

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        path = scope["path"]
        if path.endswith("/chat/completions"):
            await self._complete(orjson.loads(body), send)
        elif path.endswith("/models"):
            await _answer(send, {"object": "list", "data": [{"id": "mock", "object": "model"}]})
        elif path == "/reset":
            self.reset()
            await _answer(send, {})
        else:
            await _answer(send, self.stats())

    async def _complete(self, request: dict[str, Any], send: Any) -> None:
        now = time.time()
        content = request["messages"][-1]["content"]
        found = QUESTION.search(content if isinstance(content, str) else str(content))
        self.requests += 1
        if found:
            self.row_requests += 1
            self.first_row_unix = self.first_row_unix or now
            self.last_row_unix = now
        self.in_flight += 1
        self.max_in_flight = max(self.max_in_flight, self.in_flight)
        try:
            await asyncio.sleep(self.latency_s)
        finally:
            self.in_flight -= 1
        text = f"#### {int(found[1]) * int(found[2])}" if found else "Hello."
        message = {"role": "assistant", "content": text}
        self.last_answer_unix = time.time()
        await _answer(
            send,
            {
                "id": f"chatcmpl-{self.requests}",
                "object": "chat.completion",
                "created": int(now),
                "model": request.get("model", "mock"),
                "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
                "usage": {"prompt_tokens": 20, "completion_tokens": 4, "total_tokens": 24},
            },
        )


async def _answer(send: Any, payload: dict[str, Any]) -> None:
    body = orjson.dumps(payload)
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
    ]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


@contextlib.contextmanager
def mock_model(port: int, latency_ms: float) -> Iterator[str]:
    """The mock model as a process of its own; gives its address."""
    process = subprocess.Popen(
        [sys.executable, "-m", "lab.mock_model", f"--port={port}", f"--latency-ms={latency_ms}"],
        cwd=ROOT,
    )
    url = f"http://127.0.0.1:{port}"
    try:
        if not wait_until_answers(f"{url}/stats", process, START_LIMIT_S):
            raise RuntimeError("the mock model did not start")
        yield url
    finally:
        process.terminate()
        process.wait(STOP_LIMIT_S)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--latency-ms", type=float, default=100.0)
    args = parser.parse_args()
    uvicorn.run(
        MockModel(args.latency_ms / 1000),
        host="127.0.0.1",
        port=args.port,
        loop="uvloop",
        http="httptools",
        lifespan="off",
        access_log=False,
        log_level="warning",
        timeout_keep_alive=75,
    )


if __name__ == "__main__":
    main()
