"""An empty home for every test, and a small server whose answers a test scripts."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("OSMOSIS_DATA_DIR", str(tmp_path / "data"))
    for name in ("TOKEN", "TOKEN_PLATFORM_URL", "PLATFORM_URL", "ALLOW_INSECURE_PLATFORM_URL"):
        monkeypatch.delenv(f"OSMOSIS_{name}", raising=False)
    return tmp_path


@dataclass
class Seen:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Answering:
    """A server on loopback: ``answers`` are given in turn, the last one again and again."""

    url: str = ""
    answers: list[tuple[int, Any, dict[str, str]]] = field(default_factory=list)
    seen: list[Seen] = field(default_factory=list)

    def answer(self, status: int, body: Any = None, **headers: str) -> None:
        self.answers.append((status, body, headers))

    def next_answer(self) -> tuple[int, Any, dict[str, str]]:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@pytest.fixture
def server() -> Iterator[Answering]:
    answering = Answering()

    class Handler(BaseHTTPRequestHandler):
        def respond(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            body = self.rfile.read(length)
            answering.seen.append(Seen(self.command, self.path, headers, body))
            status, answer, more = answering.next_answer()
            data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            data = b"" if answer is None else data
            self.send_response(status)
            for name, value in {**more, "Content-Length": str(len(data))}.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PUT = do_DELETE = respond

        def log_message(self, format: str, *args: Any) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    answering.url = f"http://127.0.0.1:{http.server_address[1]}"
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield answering
    http.shutdown()
    thread.join()
    http.server_close()
