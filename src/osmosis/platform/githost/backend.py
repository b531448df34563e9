"""One request served by ``git http-backend``: both directions streamed, bounded, never buffered.

The process reads the request body and writes a CGI response. Three things run side by side: the
body goes in, the answer comes out, and a watch ends both when the client is gone, when nothing
moves for too long, or when the whole takes too long. Whatever ends it, the process group is gone
afterwards.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from starlette.types import Receive, Send

from osmosis.platform.gitsync.git import READ_BYTES, end_group, git_environment, pipes
from osmosis.platform.settings import Settings

MAX_HEAD_BYTES = 64 * 1024
WATCH_S = 1.0
KEPT_COMPLAINT_BYTES = 4096


@dataclass(frozen=True)
class GitRequest:
    """What the CGI program needs of the HTTP request."""

    method: str
    repository: Path
    service_path: str
    query: str
    user: str
    headers: dict[str, str]


@dataclass
class Served:
    """How it ended. ``complete``: git said all it had to say, and the client was there."""

    complete: bool = False
    why: str = ""
    complaint: bytes = b""


def cgi_environment(settings: Settings, request: GitRequest) -> dict[str, str]:
    """The process's whole environment: nothing of the server's own but the search path."""
    config = (
        ("http.receivepack", "true"),
        ("http.getanyfile", "false"),
        ("receive.denyNonFastForwards", "false"),
        ("receive.denyDeletes", "false"),
        ("receive.denyDeleteCurrent", "ignore"),
        ("receive.denyCurrentBranch", "ignore"),
        ("receive.maxInputSize", str(settings.git_push_bytes)),
        ("receive.fsckObjects", "true"),
        ("uploadpack.allowFilter", "true"),
        ("pack.threads", "1"),
    )
    environment = git_environment(settings, config) | {
        "GIT_PROJECT_ROOT": str(request.repository.parent),
        "GIT_HTTP_EXPORT_ALL": "1",
        "PATH_INFO": f"/{request.repository.name}/{request.service_path}",
        "QUERY_STRING": request.query,
        "REQUEST_METHOD": request.method,
        "REMOTE_USER": request.user,
        "GIT_COMMITTER_NAME": request.user,
        "GIT_COMMITTER_EMAIL": request.user,
        "SERVER_PROTOCOL": "HTTP/1.1",
        "GATEWAY_INTERFACE": "CGI/1.1",
    }
    # Without a length (a chunked body) the program reads to the end of its input.
    for header, variable in (
        ("content-type", "CONTENT_TYPE"),
        ("content-length", "CONTENT_LENGTH"),
        ("content-encoding", "HTTP_CONTENT_ENCODING"),
        ("git-protocol", "GIT_PROTOCOL"),
    ):
        if value := request.headers.get(header):
            environment[variable] = value
    return environment


async def serve(
    settings: Settings,
    request: GitRequest,
    receive: Receive,
    send: Send,
    *,
    before_end: Callable[[Served], Awaitable[None]],
) -> Served:
    """Run the request. ``before_end`` is awaited after git has ended and before the last byte of
    the response, so that what it does is done when the client's command returns."""
    process = await asyncio.create_subprocess_exec(
        "git",
        "http-backend",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=cgi_environment(settings, request),
        cwd=settings.git_dir,
        limit=READ_BYTES,
        start_new_session=True,
    )
    exchange = _Exchange(settings, process, receive, send)
    try:
        await exchange.run()
    finally:
        await asyncio.shield(end_group(process))
    served = exchange.served
    await before_end(served)
    if served.complete:
        await send({"type": "http.response.body", "body": b"", "more_body": False})
    return served


class _Exchange:
    def __init__(
        self,
        settings: Settings,
        process: asyncio.subprocess.Process,
        receive: Receive,
        send: Send,
    ) -> None:
        self.settings = settings
        self.stdin, self.stdout, self.stderr = pipes(process)
        self.receive = receive
        self.send = send
        self.served = Served()
        self.moved_at = time.monotonic()

    async def run(self) -> None:
        """Until git has answered all, the client is gone, or the watch gave up."""
        answer = asyncio.create_task(self._answer())
        body = asyncio.create_task(self._body())
        watch = asyncio.create_task(self._watch())
        complaint = asyncio.create_task(self._complaint())
        try:
            await asyncio.wait({answer, body, watch}, return_when=asyncio.FIRST_COMPLETED)
            if answer.done():
                answer.result()
                self.served.complete = True
            elif watch.done():
                self.served.why = watch.result()
            else:
                body.result()
                self.served.why = "the client went away"
        finally:
            for task in (answer, body, watch, complaint):
                task.cancel()
            await asyncio.gather(answer, body, watch, complaint, return_exceptions=True)

    async def _body(self) -> None:
        """The request body into git; returns when the client is gone."""
        open_ended = True
        while True:
            message = await self.receive()
            self.moved_at = time.monotonic()
            if message["type"] == "http.disconnect":
                return
            if not open_ended:
                continue
            # git may have read enough and closed its end; the rest of the body is dropped.
            if not self.stdin.is_closing():
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    self.stdin.write(message.get("body", b""))
                    await self.stdin.drain()
            if not message.get("more_body", False):
                open_ended = False
                self.stdin.close()

    async def _answer(self) -> None:
        """git's answer to the client, all but the end of the response."""
        status, headers, rest = await self._head()
        await self.send({"type": "http.response.start", "status": status, "headers": headers})
        chunk = rest or await self.stdout.read(READ_BYTES)
        while chunk:
            await self.send({"type": "http.response.body", "body": chunk, "more_body": True})
            self.moved_at = time.monotonic()
            chunk = await self.stdout.read(READ_BYTES)

    async def _head(self) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
        taken = b""
        while (end := taken.find(b"\r\n\r\n")) < 0:
            chunk = await self.stdout.read(READ_BYTES)
            if not chunk or len(taken) > MAX_HEAD_BYTES:
                raise BackendFailed("git http-backend gave no answer")
            taken += chunk
        status = 200
        headers: list[tuple[bytes, bytes]] = []
        for line in taken[:end].split(b"\r\n"):
            name, _, value = line.partition(b":")
            if name.lower() == b"status":
                status = int(value.split()[0])
            else:
                headers.append((name.strip().lower(), value.strip()))
        return status, headers, taken[end + 4 :]

    async def _watch(self) -> str:
        deadline = time.monotonic() + self.settings.git_transfer_timeout_s
        while True:
            await asyncio.sleep(WATCH_S)
            now = time.monotonic()
            if now > deadline:
                return "it took too long"
            if now > self.moved_at + self.settings.git_idle_timeout_s:
                return "nothing moved for too long"

    async def _complaint(self) -> None:
        """Drain stderr, so that git never waits on it, and keep the end for the server's log."""
        while chunk := await self.stderr.read(KEPT_COMPLAINT_BYTES):
            self.served.complaint = (self.served.complaint + chunk)[-KEPT_COMPLAINT_BYTES:]


class BackendFailed(Exception):
    """The CGI program broke before it answered."""
