"""Receiving one part of a dataset: straight to disk, exactly as long as announced, hashed."""

from __future__ import annotations

import asyncio
import hashlib
import os
import secrets
from collections.abc import AsyncIterator
from pathlib import Path

from starlette.requests import ClientDisconnect

from osmosis.wire.errors import OsmosisError, ValidationFailed

WRITE_BYTES = 1024 * 1024


class UploadInterrupted(OsmosisError):
    code, http_status = "UPLOAD_INTERRUPTED", 400


async def receive_part(
    body: AsyncIterator[bytes], declared: str | None, folder: Path, number: int, size: int
) -> str:
    """Store the part and return the SHA-256 of its bytes; the same again replaces it.

    A part that is cut off or has another length leaves what was there before untouched.
    """
    if declared is None or not declared.isdecimal():
        raise ValidationFailed(
            "An upload must say its Content-Length.", platform_code="LENGTH_REQUIRED"
        )
    if int(declared) != size:
        raise ValidationFailed(
            f"This address takes exactly {size:,} bytes, but {int(declared):,} were announced.",
            hint="Upload the file that was announced when the upload was created.",
            platform_code="LENGTH_WRONG",
        )
    folder.mkdir(parents=True, exist_ok=True)
    temporary = folder / f".{number}.{secrets.token_hex(8)}"
    try:
        digest = await _write(body, temporary, size)
        temporary.rename(folder / str(number))
    except FileNotFoundError:
        raise UploadInterrupted("The upload was completed or aborted meanwhile.") from None
    finally:
        temporary.unlink(missing_ok=True)
    return digest


async def _write(body: AsyncIterator[bytes], path: Path, size: int) -> str:
    digest = hashlib.sha256()
    written = 0
    pending = bytearray()
    with path.open("xb") as file:

        def write(chunk: bytes) -> None:
            file.write(chunk)
            digest.update(chunk)

        def finish() -> None:
            file.flush()
            os.fsync(file.fileno())

        try:
            async for chunk in body:
                written += len(chunk)
                if written > size:
                    break
                pending += chunk
                if len(pending) >= WRITE_BYTES:
                    await asyncio.to_thread(write, bytes(pending))
                    pending.clear()
        except ClientDisconnect:
            written = -1
        if written != size:
            raise UploadInterrupted(
                "The upload was cut off before its end.", hint="Send the same part again."
            )
        write(bytes(pending))
        await asyncio.to_thread(finish)
    return digest.hexdigest()
