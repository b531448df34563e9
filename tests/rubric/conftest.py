"""A judge on loopback that answers as it is told, and remembers what it was asked."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

GOOD = '{"explanation": "It is right.", "score": 0.75}'


@dataclass
class Reply:
    """One HTTP answer: a chat completion of ``content``, or an error."""

    content: Any = GOOD
    status: int = 200
    finish_reason: str | None = "stop"
    error: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    message: dict[str, Any] = field(default_factory=dict)

    def body(self) -> bytes:
        if self.status != 200:
            return json.dumps({"error": {"message": self.error, "type": "mock"}}).encode()
        message = {"role": "assistant", "content": self.content, **self.message}
        choice = {"index": 0, "message": message, "finish_reason": self.finish_reason}
        usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        return json.dumps({"id": "1", "choices": [choice], "usage": usage}).encode()


Answerer = Callable[[dict[str, Any]], Reply | str]


class MockJudge:
    """``answer`` is called with each request's body; ``requests`` holds them in order."""

    def __init__(self) -> None:
        self.answer: Answerer = lambda _: Reply()
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.models: list[str] = []
        self.in_flight = self.most_in_flight = 0
        self._lock = threading.Lock()
        judge = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1  # head and body in one packet

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                reply = judge._reply(body, self.headers.get("Authorization"))
                raw = reply.body()
                try:
                    self.send_response(reply.status)
                    for name, value in reply.headers.items():
                        self.send_header(name, value)
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", str(len(raw)))
                    self.end_headers()
                    self.wfile.write(raw)
                except OSError:
                    self.close_connection = True  # the client gave up waiting

            def do_GET(self) -> None:
                raw = json.dumps({"data": [{"id": name} for name in judge.models]}).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(raw)))
                self.end_headers()
                self.wfile.write(raw)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    def _reply(self, body: dict[str, Any], key: str | None) -> Reply:
        with self._lock:
            self.requests.append(body)
            self.keys.append(key)
            self.in_flight += 1
            self.most_in_flight = max(self.most_in_flight, self.in_flight)
            found = self.answer(body)
        reply = Reply(found) if isinstance(found, str) else found
        try:
            time.sleep(reply.delay_s)
        finally:
            with self._lock:
                self.in_flight -= 1
        return reply

    def says(self, *replies: Reply | str) -> None:
        """Answer with these in turn, the last one for good."""
        left = list(replies)
        self.answer = lambda _: left.pop(0) if len(left) > 1 else left[0]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def mock_judge() -> Iterator[MockJudge]:
    judge = MockJudge()
    yield judge
    judge.close()


@pytest.fixture(autouse=True)
def no_provider_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the machine's own keys and addresses reaches a test."""
    import os

    for name in list(os.environ):
        if name.endswith(("_API_KEY", "_API_BASE", "_BASE_URL")):
            monkeypatch.delenv(name)
