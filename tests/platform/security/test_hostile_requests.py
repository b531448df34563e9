"""Requests made to break the server: none may cost it much, and none is answered with a 500."""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest

from osmosis.platform.platform import Platform
from osmosis.platform.settings import Settings
from tests.platform.conftest import Account
from tests.platform.runs import add_dataset
from tests.platform.security.test_strangers import BODIES, ROUTES, World, address, world

__all__ = ["world"]

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


def leaves(body: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where the plain values of a JSON-like value stand."""
    items = body.items() if isinstance(body, dict) else enumerate(body)
    for key, value in items:
        if isinstance(value, dict | list):
            yield from leaves(value, (*path, key))
        else:
            yield (*path, key)


def with_hostile(body: Any, path: tuple[Any, ...], value: str) -> bytes:
    """The body as JSON, with raw text in the place of one value."""
    copy = json.loads(json.dumps(body))
    place = copy
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = "@@"
    return json.dumps(copy).replace('"@@"', value).encode()


async def test_no_value_in_a_body_breaks_the_server(
    client: httpx.AsyncClient, world: World
) -> None:
    headers = {"Content-Type": "application/json"}
    for (name, value), (path, body) in itertools.product(HOSTILE.items(), BODIES.items()):
        if path.startswith("/api/runner/"):
            continue
        url = address(path, world)
        bodies = [with_hostile(body, place, value) for place in leaves(body)]
        for content in (value.encode(), *bodies):
            answer = await client.post(url, content=content, headers=headers)
            assert answer.status_code < 500, (name, path, content[:200], answer.text)
            assert "set-cookie" not in answer.headers


@pytest.mark.parametrize("value", ["%00", "..%2f..%2fetc%2fpasswd"])
async def test_no_address_breaks_the_server(
    client: httpx.AsyncClient, page_client: httpx.AsyncClient, world: World, value: str
) -> None:
    queries = [f"{name}={value}" for name in ("limit", "offset", "cursor", "rows", "from", "types")]
    for method, path in ROUTES:
        if method != "GET" or path.endswith("/live") or path.startswith("/api/runner/"):
            continue
        who = client if path.startswith("/api/") else page_client
        whole = address(path, world)
        parts = whole.split("/")
        changed = [
            "/".join((*parts[:at], value, *parts[at + 1 :]))
            for at, part in enumerate(path.split("/"))
            if part.startswith("{")
        ]
        for url in (*changed, *(f"{whole}?{query}" for query in queries)):
            answer = await who.get(url)
            assert answer.status_code < 500, (url, answer.text)
            assert "root:" not in answer.text


async def test_a_datasets_name_cannot_leave_its_header(
    client: httpx.AsyncClient, anonymous: httpx.AsyncClient, platform: Platform, account: Account
) -> None:
    for name in ('a"; filename="b', "a\r\nSet-Cookie: x=y", "ä\u202egnp", "a;b\\c"):
        dataset = await add_dataset(platform, account, name=name)
        url = (await client.get(f"/api/cli/datasets/{dataset.id}/download")).json()["presigned_url"]
        answer = await anonymous.get(url)
        assert answer.status_code == 200
        assert "set-cookie" not in answer.headers
        disposition = answer.headers["content-disposition"]
        assert disposition.isascii() and "\n" not in disposition
        assert disposition.startswith("attachment; filename")
