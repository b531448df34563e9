from __future__ import annotations

from typing import Any

import httpx
import pytest

SECRETS = "/api/cli/environment-secrets"


async def ask(client: httpx.AsyncClient, **headers: str | None) -> tuple[int, str | None]:
    sent = {name.replace("_", "-"): value for name, value in headers.items() if value is not None}
    del client.headers["X-Osmosis-Git"]
    answer = await client.get(SECRETS, headers=sent)
    return answer.status_code, answer.json().get("code")


async def test_a_workspace_is_found_by_repository_in_any_case(client: httpx.AsyncClient) -> None:
    assert await ask(client, x_osmosis_git="Ada/Agents") == (200, None)


async def test_a_workspace_is_found_by_name(client: httpx.AsyncClient) -> None:
    assert await ask(client, x_osmosis_workspace="Agents") == (200, None)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, (400, "GIT_SCOPE_REQUIRED")),
        (
            {"x_osmosis_git": "ada/agents", "x_osmosis_workspace": "agents"},
            (400, "WORKSPACE_SCOPE_HEADER_CONFLICT"),
        ),
        ({"x_osmosis_git": "not an identity"}, (400, "GIT_SCOPE_INVALID")),
        ({"x_osmosis_git": "ada/unknown"}, (404, "GIT_REPOSITORY_NOT_CONNECTED")),
        ({"x_osmosis_git": "eve/others"}, (403, "GIT_REPOSITORY_ACCESS_DENIED")),
        ({"x_osmosis_workspace": "others"}, (403, "WORKSPACE_SCOPE_HEADER_ACCESS_DENIED")),
        ({"x_osmosis_workspace": "unknown"}, (403, "WORKSPACE_SCOPE_HEADER_ACCESS_DENIED")),
    ],
)
async def test_each_way_to_be_out_of_scope_has_its_code(
    client: httpx.AsyncClient, stranger: Any, headers: dict[str, str], expected: tuple[int, str]
) -> None:
    assert await ask(client, **headers) == expected
