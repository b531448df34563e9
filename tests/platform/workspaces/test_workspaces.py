from __future__ import annotations

from typing import Any

import httpx
import pytest

WORKSPACES = "/api/cli/workspaces"


async def make(client: httpx.AsyncClient, **body: Any) -> httpx.Response:
    return await client.post(WORKSPACES, json=body)


async def test_a_new_workspace_has_a_hosted_repository(client: httpx.AsyncClient) -> None:
    answer = await make(client, name="Evals", repository="Ada/Evals.git")
    assert answer.status_code == 201
    body = answer.json()
    assert (body["name"], body["connected_repo"]) == ("evals", {"repo_full_name": "ada/evals"})
    assert body["git_url"] == "http://127.0.0.1:7670/git/ada/evals.git"
    names = [item["name"] for item in (await client.get(WORKSPACES)).json()["workspaces"]]
    assert names == ["agents", "evals"]


async def test_making_it_again_changes_nothing(client: httpx.AsyncClient) -> None:
    first = (await make(client, name="evals")).json()
    again = await make(client, name="evals")
    assert (again.status_code, again.json()) == (200, first)


async def test_a_name_of_another_person_is_taken(client: httpx.AsyncClient, stranger: Any) -> None:
    answer = await make(client, name="others")
    assert (answer.status_code, answer.json()["code"]) == (409, "WORKSPACE_NAME_TAKEN")
    answer = await make(client, name="mine", repository="eve/others")
    assert (answer.status_code, answer.json()["code"]) == (409, "REPOSITORY_TAKEN")


async def test_a_connected_workspace_is_not_silently_moved(client: httpx.AsyncClient) -> None:
    answer = await make(client, name="agents", repository="ada/else")
    assert (answer.status_code, answer.json()["code"]) == (409, "WORKSPACE_CONNECTED")


@pytest.mark.parametrize("name", ["", "a b", "-a", "a-", "ü", "a" * 65, "../x", "API"])
async def test_a_bad_name_is_refused(client: httpx.AsyncClient, name: str) -> None:
    assert (await make(client, name=name)).status_code == 400


@pytest.mark.parametrize("repository", ["x", "a/b/c", "a/..", "-a/b", "a/b c", "a%2fb/c"])
async def test_a_bad_repository_is_refused(client: httpx.AsyncClient, repository: str) -> None:
    assert (await make(client, name="fine", repository=repository)).status_code == 400


async def test_nobody_sees_the_workspaces_of_another(
    client: httpx.AsyncClient, anonymous: httpx.AsyncClient, stranger: Any
) -> None:
    listed = await anonymous.get(WORKSPACES, headers=stranger.headers)
    assert [item["name"] for item in listed.json()["workspaces"]] == ["others"]


async def test_the_quickstart_is_complete_once_a_repository_is_connected(
    client: httpx.AsyncClient, account: Any, stranger: Any
) -> None:
    path = "/api/cli/quickstart"
    body = (await client.get(path, params={"organizationId": account.workspace_id})).json()
    assert body == {
        "repo": {"connected": True, "full_name": "ada/agents"},
        "billing_ready": True,
        "completed": True,
    }
    intent = {"organizationId": account.workspace_id, "intent": "eval"}
    assert (await client.post(path, json=intent)).status_code == 200
    foreign = await client.get(path, params={"organizationId": stranger.workspace_id})
    assert foreign.status_code == 403
