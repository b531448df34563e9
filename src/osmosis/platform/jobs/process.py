"""One job's process: JSON in, JSON out, bounded in time and output, dead with its parent."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from typing import Any, cast

from osmosis.platform.child import child_argv
from osmosis.platform.process_end import ended

ERROR_TAIL_BYTES = 2000
READ_BYTES = 65_536
INHERITED = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "VIRTUAL_ENV", "PYTHONPATH")


class JobProcessError(Exception):
    """Why a job's process gave no answer, in a sentence."""


async def run_process(
    module: str, payload: dict[str, Any], *, timeout_s: float, output_bytes: int
) -> dict[str, Any]:
    """Run ``python -m module`` on the payload and return its answer."""
    process = await asyncio.create_subprocess_exec(
        *child_argv(module),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={name: os.environ[name] for name in INHERITED if name in os.environ},
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(timeout_s):
            answer, complaint = await _talk(process, json.dumps(payload).encode(), output_bytes)
            status = await process.wait()
            if answer is None:
                raise JobProcessError(f"Its process answered more than {output_bytes} bytes.")
    except TimeoutError:
        raise JobProcessError(f"It took longer than {timeout_s:g} seconds and was ended.") from None
    finally:
        _kill(process)
        # Shielded: a cancelled job must still reap its process.
        await asyncio.shield(ended(process))
    if status != 0:
        last = complaint.decode(errors="replace").strip().splitlines()
        why = f": {last[-1]}" if last else "."
        raise JobProcessError(f"Its process ended with status {status}{why}")
    try:
        parsed = json.loads(answer)
    except ValueError:
        parsed = None
    if not isinstance(parsed, dict):
        raise JobProcessError("Its process answered something that is not a JSON object.")
    return parsed


async def _talk(
    process: asyncio.subprocess.Process, question: bytes, output_bytes: int
) -> tuple[bytes | None, bytes]:
    """What it wrote to both its outputs, to their ends; None for an answer beyond the bound."""
    _, answer, complaint = await asyncio.gather(
        _send(cast(asyncio.StreamWriter, process.stdin), question),
        _read_answer(process, output_bytes),
        _read_tail(cast(asyncio.StreamReader, process.stderr)),
    )
    return answer, complaint


def _kill(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


async def _send(stdin: asyncio.StreamWriter, question: bytes) -> None:
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        stdin.write(question)
        await stdin.drain()
    stdin.close()


async def _read_answer(process: asyncio.subprocess.Process, limit_bytes: int) -> bytes | None:
    stream = cast(asyncio.StreamReader, process.stdout)
    taken = bytearray()
    too_much = False
    while chunk := await stream.read(READ_BYTES):
        if too_much:
            continue
        taken += chunk
        if len(taken) > limit_bytes:
            too_much = True
            _kill(process)
    return None if too_much else bytes(taken)


async def _read_tail(stream: asyncio.StreamReader) -> bytes:
    tail = b""
    while chunk := await stream.read(READ_BYTES):
        tail = (tail + chunk)[-ERROR_TAIL_BYTES:]
    return tail
