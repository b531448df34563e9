"""A typed client of the runner API (``osmosis.wire.runner``). It never retries; callers do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp
import orjson

from osmosis.wire.runner import (
    LEASE_HEADER,
    Claim,
    ClaimRequest,
    FinishRequest,
    Heartbeat,
    HeartbeatRequest,
    LogBatch,
    LostCalls,
    RecordsAck,
)
from osmosis.wire.samples import SampleRecord
from osmosis.worker.errors import Broken, LeaseLost, Refused, RunnerError, Unavailable

CONNECT_TIMEOUT_S = 5.0
CALL_TIMEOUT_S = 30.0
HEARTBEAT_TIMEOUT_S = 5.0
CLAIM_SLACK_S = 10.0
STREAM_SILENCE_S = 60.0
"""How long a download may stand still."""
KEEPALIVE_S = 3.0
CHUNK_BYTES = 1 << 18
JSON = {"Content-Type": "application/json"}
NDJSON = {"Content-Type": "application/x-ndjson"}


class RunnerClient:
    """Calls that are about no run in particular; :meth:`run` gives those that are."""

    def __init__(self, base_url: str, token: str) -> None:
        self._root = base_url.rstrip("/") + "/api/runner"
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEPALIVE_S),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"Authorization": f"Bearer {token}"},
        )

    async def close(self) -> None:
        await self._session.close()

    async def claim(
        self, worker_id: str, wait_s: float, holding: list[str] | None = None
    ) -> Claim | None:
        """The next run, waiting up to ``wait_s`` for one; ``holding`` are those in hand."""
        request = ClaimRequest(worker_id=worker_id, wait_s=wait_s, holding=holding)
        body = request.model_dump_json().encode()
        status, answer = await self.call(
            "POST", "/claim", body, headers=JSON, timeout_s=wait_s + CLAIM_SLACK_S
        )
        return None if status == 204 else Claim.model_validate_json(answer)

    async def lost_calls(self, run_id: str, report: LostCalls) -> None:
        """Tell what a shard sent and never recorded; needs no lease, for it is lost by then."""
        path = f"/runs/{quote(run_id, safe='')}/lost-calls"
        await self.call("POST", path, report.model_dump_json().encode(), headers=JSON)

    def run(self, run_id: str, lease_token: str) -> RunClient:
        return RunClient(self, run_id, lease_token)

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        headers: dict[str, str] | None = None,
        timeout_s: float | None = CALL_TIMEOUT_S,
    ) -> tuple[int, bytes]:
        """One exchange, read whole."""
        timeout = aiohttp.ClientTimeout(total=timeout_s, sock_connect=CONNECT_TIMEOUT_S)
        async with self.exchange(method, path, body, headers=headers, timeout=timeout) as response:
            return response.status, await response.read()

    @asynccontextmanager
    async def exchange(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        headers: dict[str, str] | None,
        timeout: aiohttp.ClientTimeout,
    ) -> AsyncGenerator[aiohttp.ClientResponse]:
        """An answered request of status 2xx; whatever goes wrong inside becomes a RunnerError."""
        answered = False
        try:
            async with self._session.request(
                method,
                self._root + path,
                data=body,
                headers=headers,
                timeout=timeout,
                allow_redirects=False,
            ) as response:
                if response.status >= 300:
                    raise _error(response.status, await response.read())
                answered = True
                yield response
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            text = str(error) or type(error).__name__
            if answered:
                raise Broken(f"the platform broke off its answer: {text}") from error
            raise Unavailable(f"the platform does not answer: {text}") from error


class RunClient:
    """Calls about one claimed run, under its lease."""

    def __init__(self, client: RunnerClient, run_id: str, lease_token: str) -> None:
        self._client = client
        self._path = f"/runs/{quote(run_id, safe='')}"
        self._lease = {LEASE_HEADER: lease_token}

    async def heartbeat(
        self, request: HeartbeatRequest, *, timeout_s: float = HEARTBEAT_TIMEOUT_S
    ) -> Heartbeat:
        _, answer = await self._post(
            "/heartbeat",
            request.model_dump_json().encode(),
            timeout_s=min(timeout_s, HEARTBEAT_TIMEOUT_S),
        )
        return Heartbeat.model_validate_json(answer)

    async def records(self, ndjson: bytes, *, timeout_s: float = CALL_TIMEOUT_S) -> RecordsAck:
        """Post records; they are durable once this returns."""
        _, answer = await self._post("/records", ndjson, NDJSON, timeout_s=timeout_s)
        return RecordsAck.model_validate_json(answer)

    async def logs(self, batch: LogBatch) -> None:
        await self._post("/logs", batch.model_dump_json(exclude_none=True).encode())

    async def finish(self, request: FinishRequest) -> None:
        await self._post("/finish", request.model_dump_json().encode())

    async def artifact(self, rollout_id: str, relative_path: str, source: Path) -> None:
        """Send one file. Read beside the event loop; artifacts are bounded in size."""
        content = await asyncio.to_thread(source.read_bytes)
        await self._client.call(
            "PUT",
            f"{self._path}/artifacts/{rollout_id}/{quote(relative_path)}",
            content,
            headers={"Content-Type": "application/octet-stream", **self._lease},
            timeout_s=None,
        )

    async def cached_response(self, key: str, *, timeout_s: float) -> bytes | None:
        """What the workspace's response cache holds under ``key``."""
        status, answer = await self._client.call(
            "GET", f"{self._path}/responses/{key}", headers=self._lease, timeout_s=timeout_s
        )
        return None if status == 204 else answer

    async def cache_response(self, key: str, value: bytes, *, timeout_s: float) -> None:
        await self._client.call(
            "PUT",
            f"{self._path}/responses/{key}",
            value,
            headers={"Content-Type": "application/octet-stream", **self._lease},
            timeout_s=timeout_s,
        )

    async def stored(self, row_index: int, run_index: int) -> SampleRecord:
        """A sample of the run as it was recorded."""
        _, answer = await self._client.call(
            "GET", f"{self._path}/stored/{row_index}/{run_index}", headers=self._lease
        )
        return SampleRecord.model_validate_json(answer)

    async def stored_artifact(self, rollout_id: str, relative_path: str, target: Path) -> None:
        """Save one file of such a sample."""
        await self.download(f"artifacts/{rollout_id}/{quote(relative_path)}", target)

    async def done(self) -> AsyncIterator[tuple[int, int]]:
        """(row_index, run_index) of every recorded sample."""
        async for line in self._lines("/done"):
            row_index, run_index = orjson.loads(line)
            yield row_index, run_index

    async def rows(self, first: int, step: int) -> AsyncIterator[bytes]:
        """The selected rows ``first``, ``first + step``, …, one line each, as fast as read."""
        async for line in self._lines(f"/rows?first={first}&step={step}"):
            yield line

    async def download(self, what: str, target: Path) -> None:
        """Save the stream ``code`` whole; a broken one leaves no file."""
        partial = target.with_name(target.name + ".partial")
        try:
            async with self._stream(f"/{what}") as response:
                with partial.open("wb") as file:
                    async for chunk in response.content.iter_chunked(CHUNK_BYTES):
                        file.write(chunk)
            partial.replace(target)
        finally:
            partial.unlink(missing_ok=True)

    async def _lines(self, path: str) -> AsyncIterator[bytes]:
        """The lines of a stream that are not empty. One that breaks off ends with an error."""
        rest = b""
        async with self._stream(path) as response:
            async for chunk in response.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    if line:
                        yield line
        if rest.strip():
            yield rest

    def _stream(self, path: str) -> Any:
        return self._client.exchange(
            "GET",
            self._path + path,
            headers=self._lease,
            timeout=aiohttp.ClientTimeout(
                total=None, sock_connect=CONNECT_TIMEOUT_S, sock_read=STREAM_SILENCE_S
            ),
        )

    async def _post(
        self,
        path: str,
        body: bytes,
        kind: dict[str, str] = JSON,
        *,
        timeout_s: float = CALL_TIMEOUT_S,
    ) -> tuple[int, bytes]:
        return await self._client.call(
            "POST", self._path + path, body, headers={**kind, **self._lease}, timeout_s=timeout_s
        )


def _error(status: int, body: bytes) -> RunnerError:
    try:
        parsed = orjson.loads(body)
    except orjson.JSONDecodeError:
        parsed = None
    found: dict[str, Any] = parsed if isinstance(parsed, dict) else {}
    message = str(found.get("message") or found.get("detail") or f"HTTP {status}")[:2000]
    if status == 409 and found.get("code") in ("LEASE_LOST", None):
        return LeaseLost(message)
    if status >= 500 or status in (408, 429):
        return Unavailable(message)
    hint = found.get("hint")
    return Refused(status, message, hint if isinstance(hint, str) else None)
