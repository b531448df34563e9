"""Sending a file to the address that the platform gave: in one piece or in parts.

Such an address authenticates itself; no token and no header of ours goes there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import httpx

from osmosis.client.http import open_client, unreachable
from osmosis.client.urls import is_loopback
from osmosis.wire.errors import OsmosisError, Unreachable, ValidationFailed

PUT_TRIES = 5
FIRST_WAIT_S = 1.0
RETRIED_STATUSES = (429, 500, 502, 503, 504)
CHUNK_BYTES = 1 << 20
SIMPLE_TIMEOUT_S = 600.0
PART_TIMEOUT_S = 300.0
CONNECT_TIMEOUT_S = 30.0

Progress = Callable[[int], None]
Wait = Callable[[float], None]


def send_file(
    path: Path,
    upload: Mapping[str, Any],
    *,
    progress: Progress = lambda sent: None,
    wait: Wait = time.sleep,
) -> list[dict[str, Any]]:
    """Upload as ``upload`` says; give the parts that ``complete`` needs (none for one piece)."""
    method = upload.get("method", "simple")
    size = path.stat().st_size
    if method == "simple":
        headers = {str(k): str(v) for k, v in (upload.get("upload_headers") or {}).items()}
        url = str(upload["presigned_url"])
        _put(_Piece(path, url, 0, size, headers, SIMPLE_TIMEOUT_S), progress, wait)
        return []
    if method != "multipart":
        raise OsmosisError(f"The platform asks for the unknown upload method '{method}'.")
    part_bytes, urls = _checked_parts(upload, size)
    parts: list[dict[str, Any]] = []
    for number in sorted(urls):
        start = (number - 1) * part_bytes
        length = min(part_bytes, size - start)
        piece = _Piece(path, urls[number], start, length, {}, PART_TIMEOUT_S)
        etag = _put(piece, progress, wait).headers.get("ETag", "").strip().strip('"')
        if not etag:
            raise OsmosisError(f"The storage gave no ETag for part {number}.")
        parts.append({"PartNumber": number, "ETag": etag})
    return parts


def repeat(attempt: Callable[[], Any], *, wait: Wait = time.sleep) -> Any:
    """Run a call that may be repeated: five tries on a broken link, 429 or 5xx."""
    for number in range(PUT_TRIES):
        last = number == PUT_TRIES - 1
        try:
            return attempt()
        except Unreachable:
            if last:
                raise
        except OsmosisError as error:
            if last or not (error.http_status == 429 or error.http_status >= 500):
                raise
        wait(FIRST_WAIT_S * 2**number)
    raise AssertionError("unreachable: the last try returns or raises")


@dataclass(frozen=True)
class _Piece:
    """Bytes ``[start, start + length)`` of a file and where they go."""

    path: Path
    url: str
    start: int
    length: int
    headers: Mapping[str, str]
    timeout_s: float


def _put(piece: _Piece, progress: Progress, wait: Wait) -> httpx.Response:
    _check_address(piece.url)
    return repeat(lambda: _put_once(piece, progress), wait=wait)


def _put_once(piece: _Piece, progress: Progress) -> httpx.Response:
    try:
        with open_client(piece.url) as client:
            answer = client.put(
                piece.url,
                content=_chunks(piece, progress),
                headers={**piece.headers, "Content-Length": str(piece.length)},
                timeout=httpx.Timeout(piece.timeout_s, connect=CONNECT_TIMEOUT_S),
            )
    except httpx.TransportError as error:
        raise unreachable(_shown(piece.url), error) from None
    if answer.is_success:
        return answer
    refused = OsmosisError(
        _reason(answer) or f"The storage refused the upload with status {answer.status_code}.",
        details={"status_code": answer.status_code},
    )
    refused.code = "PLATFORM_ERROR"
    refused.http_status = answer.status_code if answer.status_code in RETRIED_STATUSES else 400
    raise refused


def _reason(answer: httpx.Response) -> str | None:
    """What our own platform says of it; another storage answers in other forms."""
    try:
        said: Any = answer.json()
    except ValueError:
        return None
    message = cast("dict[str, Any]", said).get("message") if isinstance(said, dict) else None
    return message if isinstance(message, str) else None


def _chunks(piece: _Piece, progress: Progress) -> Iterator[bytes]:
    left = piece.length
    with piece.path.open("rb") as file:
        file.seek(piece.start)
        while left > 0:
            chunk = file.read(min(CHUNK_BYTES, left))
            if not chunk:
                raise OsmosisError(f"{piece.path} became shorter while it was uploaded.")
            left -= len(chunk)
            yield chunk
            progress(piece.start + piece.length - left)


def _checked_parts(upload: Mapping[str, Any], size: int) -> tuple[int, dict[int, str]]:
    part_bytes, total = int(upload["part_size"]), int(upload["total_parts"])
    urls = {
        int(part["part_number"]): str(part["presigned_url"]) for part in upload["presigned_urls"]
    }
    fits = part_bytes > 0 and part_bytes * (total - 1) < size <= part_bytes * total
    if not fits or sorted(urls) != list(range(1, total + 1)):
        raise OsmosisError("The platform's upload plan does not fit the file.")
    return part_bytes, urls


def _check_address(url: str) -> None:
    if urlsplit(url).scheme != "https" and not is_loopback(url):
        raise ValidationFailed(
            f"The upload address {_shown(url)} is not https.",
            hint="Give the server an https address (OSMOSIS_PUBLIC_URL) to upload over a network.",
        )


def _shown(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"
