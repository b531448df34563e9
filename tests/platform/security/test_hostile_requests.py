"""Requests made to break the server: none may cost it much, and none is answered with a 500."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from osmosis.platform.settings import Settings

CHUNK = b" " * 2**18
PLENTY = 64 * 2**20

HOSTILE = {
    "a lone surrogate": '"\\ud800x"',
    "a NUL": '"a\\u0000b"',
    "no number": "NaN",
    "an endless number": "Infinity",
    "more than a float holds": "1e400",
    "more than 64 bits hold": "1" + "0" * 5000,
    "a deep list": "[" * 20_000 + "]" * 20_000,
    "a header line": '"\\r\\nSet-Cookie: a=b"',
}


@pytest.mark.parametrize(
    "path",
    ["claim", "runs/x/heartbeat", "runs/x/logs", "runs/x/finish", "runs/x/records"],
)
async def test_nobody_makes_the_server_read_a_huge_body(
    anonymous: httpx.AsyncClient, platform_settings: Settings, path: str
) -> None:
    taken = 0

    async def body() -> AsyncIterator[bytes]:
        nonlocal taken
        while taken < PLENTY:
            taken += len(CHUNK)
            yield CHUNK

    answer = await anonymous.post(
        f"/api/runner/{path}", content=body(), headers={"Content-Type": "application/json"}
    )
    assert answer.status_code in (401, 413), answer.text
    assert taken <= platform_settings.body_limit_bytes + 2 * len(CHUNK)
