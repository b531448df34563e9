"""An OpenAI-compatible model that answers multiplications after a set latency, and counts.

    python -m lab.mock_model --port 8765 --latency-ms 100

POST /v1/chat/completions, also streamed in so many chunks, POST /v1/messages in Anthropic's
dialect, GET /v1/models, GET /stats, POST /reset. Raw ASGI, so that what a benchmark measures is
not the mock.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import re
import subprocess
import sys
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import orjson
import uvicorn

from lab.ports import wait_until_answers

ROOT = Path(__file__).resolve().parent.parent
START_LIMIT_S = 30.0
STOP_LIMIT_S = 15.0
DEFAULT_CHUNKS = 20
BACKLOG = 8192
QUESTION = re.compile(r"(\d+)\s*[x×*]\s*(\d+)")


class MockModel:
    def __init__(self, latency_s: float, chunks: int = DEFAULT_CHUNKS) -> None:
        self._latency_s = latency_s
        self._chunks = chunks
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
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}

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
        elif path.endswith("/messages"):
            await self._message(orjson.loads(body), send)
        elif path.endswith("/models"):
            await _answer(send, {"object": "list", "data": [{"id": "mock", "object": "model"}]})
        elif path == "/reset":
            self.reset()
            await _answer(send, {})
        else:
            await _answer(send, self.stats())

    async def _complete(self, request: dict[str, Any], send: Any) -> None:
        text = await self._think(request)
        about = {
            "id": f"chatcmpl-{self.requests}",
            "created": int(time.time()),
            "model": request.get("model", "mock"),
        }
        usage = {"prompt_tokens": 20, "completion_tokens": 4, "total_tokens": 24}
        if request.get("stream"):
            await _stream(send, about, text, self._chunks, usage)
            return
        message = {"role": "assistant", "content": text}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        await _answer(
            send, {**about, "object": "chat.completion", "choices": [choice], "usage": usage}
        )

    async def _message(self, request: dict[str, Any], send: Any) -> None:
        text = await self._think(request)
        await _answer(
            send,
            {
                "id": f"msg_{self.requests}",
                "type": "message",
                "role": "assistant",
                "model": request.get("model", "mock"),
                "content": [{"type": "text", "text": text}],
                "stop_reason": "end_turn",
                "usage": {"input_tokens": 20, "output_tokens": 4},
            },
        )

    async def _think(self, request: dict[str, Any]) -> str:
        """Count the request, wait as long as the model takes, and give its words."""
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
            await asyncio.sleep(self._latency_s)
        finally:
            self.in_flight -= 1
        self.last_answer_unix = time.time()
        return f"#### {int(found[1]) * int(found[2])}" if found else "Hello."


async def _stream(
    send: Any, about: dict[str, Any], text: str, chunks: int, usage: dict[str, int]
) -> None:
    """The answer as events: so many chunks of a word each, the text, the usage."""
    headers = [(b"content-type", b"text/event-stream")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    about = {**about, "object": "chat.completion.chunk"}
    for number in range(chunks):
        last = number == chunks - 1
        choice = {
            "index": 0,
            "delta": {"content": text if last else "well, "},
            "finish_reason": "stop" if last else None,
        }
        event = b"data: " + orjson.dumps({**about, "choices": [choice]}) + b"\n\n"
        await send({"type": "http.response.body", "body": event, "more_body": True})
        await asyncio.sleep(0)
    event = b"data: " + orjson.dumps({**about, "choices": [], "usage": usage})
    await send({"type": "http.response.body", "body": event + b"\n\ndata: [DONE]\n\n"})


async def _answer(send: Any, payload: dict[str, Any]) -> None:
    body = orjson.dumps(payload)
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
    ]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


@contextlib.contextmanager
def mock_model(port: int, latency_ms: float, *, chunks: int = DEFAULT_CHUNKS) -> Generator[str]:
    """The mock model as a process of its own; gives its address."""
    words = [f"--port={port}", f"--latency-ms={latency_ms}", f"--chunks={chunks}"]
    process = subprocess.Popen([sys.executable, "-m", "lab.mock_model", *words], cwd=ROOT)
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
    parser.add_argument("--chunks", type=int, default=DEFAULT_CHUNKS)
    args = parser.parse_args()
    uvicorn.run(
        MockModel(args.latency_ms / 1000, args.chunks),
        host="127.0.0.1",
        port=args.port,
        loop="uvloop",
        http="httptools",
        lifespan="off",
        access_log=False,
        log_level="warning",
        backlog=BACKLOG,
        timeout_keep_alive=75,
    )


if __name__ == "__main__":
    main()
