from __future__ import annotations

from typing import Annotated, Any

import httpx
import pytest
from fastapi import Depends, FastAPI, Request

from osmosis.platform.security.signing import presigned_url, require_presigned

Claims = Annotated[dict[str, Any], Depends(require_presigned)]


@pytest.fixture
def files(platform_app: FastAPI) -> None:
    @platform_app.get("/api/cli/give-link")
    async def give_link(request: Request, path: str) -> dict[str, Any]:
        return {"url": presigned_url(request, "GET", path, {"size": 3})}

    @platform_app.api_route("/files/{name:path}", methods=["GET", "PUT"])
    async def file(name: str, claims: Claims) -> dict[str, Any]:
        return {"name": name, **claims}


async def test_a_presigned_address_needs_no_token_and_fits_one_path_and_method(
    files: None, client: httpx.AsyncClient, anonymous: httpx.AsyncClient
) -> None:
    url = (await client.get("/api/cli/give-link?path=/files/a%2520b")).json()["url"]
    assert url.startswith("http://127.0.0.1:7670/files/a%20b?signature=")
    assert (await anonymous.get(url)).json() == {"name": "a b", "size": 3}
    assert (await anonymous.put(url)).status_code == 403
    assert (await anonymous.get(url.replace("a%20b", "other"))).status_code == 403
    assert (await anonymous.get("/files/a%20b")).status_code == 403


async def test_the_address_is_built_from_the_one_that_the_client_used(
    files: None, client: httpx.AsyncClient
) -> None:
    headers = {"Host": "localhost:9999"}
    url = (await client.get("/api/cli/give-link?path=/files/x", headers=headers)).json()["url"]
    assert url.startswith("http://localhost:9999/files/x?")


async def test_an_old_address_is_refused(
    files: None,
    client: httpx.AsyncClient,
    anonymous: httpx.AsyncClient,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import time

    url = (await client.get("/api/cli/give-link?path=/files/x")).json()["url"]
    later = time.time() + 3600
    monkeypatch.setattr(time, "time", lambda: later)
    for old in (url, f"{url}&max_age_s=999999"):
        answer = await anonymous.get(old)
        assert (answer.status_code, answer.json()["code"]) == (403, "PRESIGNED_URL_INVALID")
