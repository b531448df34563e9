from __future__ import annotations

from typing import Any

import httpx
import pytest

ENDPOINTS, BASE = "/api/cli/model-endpoints", "/api/cli/models/base"


async def put(client: httpx.AsyncClient, name: str = "local", **more: Any) -> httpx.Response:
    body = {"name": name, "base_url": "http://127.0.0.1:8000/v1", **more}
    return await client.post(ENDPOINTS, json=body)


async def test_an_endpoint_is_added_changed_listed_and_removed(client: httpx.AsyncClient) -> None:
    made = (await put(client, model="llama", api_key_secret="LOCAL_KEY")).json()
    assert made["api_key_stored"] is False
    changed = (await put(client, base_url="https://models.example/v1/")).json()
    assert changed["id"] == made["id"]
    assert changed["base_url"] == "https://models.example/v1"
    assert changed["api_key_secret"] is None and changed["api_key_stored"] is None
    page = (await client.get(ENDPOINTS)).json()
    assert (page["total_count"], page["model_endpoints"]) == (1, [changed])
    assert (await client.delete(f"{ENDPOINTS}/local")).status_code == 200
    assert (await client.get(ENDPOINTS)).json()["model_endpoints"] == []


async def test_an_endpoint_is_removed_by_a_name_in_the_body_too(client: httpx.AsyncClient) -> None:
    await put(client)
    answer = await client.request("DELETE", ENDPOINTS, json={"name": "local"})
    assert answer.status_code == 200


async def test_an_unknown_endpoint_suggests_the_near_one(client: httpx.AsyncClient) -> None:
    await put(client, "local-llama")
    answer = await client.delete(f"{ENDPOINTS}/local-lama")
    assert answer.status_code == 404
    assert "Did you mean 'local-llama'?" in answer.json()["error"]


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("127.0.0.1:8000", "full http"),
        ("ftp://x", "full http"),
        ("http://", "full http"),
        ("http://a b/v1", "full http"),
        ("http://x:99999/v1", "full http"),
        ("https://user:canary@x/v1", "credentials"),
        ("https://x/v1?key=canary", "query"),
        ("https://x/v1/chat/completions", "Use https://x/v1"),
    ],
)
async def test_a_base_url_that_cannot_work_is_refused(
    client: httpx.AsyncClient, url: str, says: str
) -> None:
    answer = await put(client, base_url=url)
    assert (answer.status_code, answer.json()["field"]) == (400, "base_url")
    assert says in answer.json()["error"]
    assert "canary" not in answer.text


@pytest.mark.parametrize("name", ["", "a/b", "scripted", "Base", ".x", "a" * 64])
async def test_a_bad_endpoint_name_is_refused(client: httpx.AsyncClient, name: str) -> None:
    assert (await put(client, name)).status_code == 400


async def test_the_key_is_a_name_and_never_a_value(client: httpx.AsyncClient) -> None:
    answer = await put(client, api_key_secret="sk-canary")
    assert answer.status_code == 400
    assert "canary" not in answer.text


async def test_endpoints_are_the_base_models_of_the_vendors_command(
    client: httpx.AsyncClient,
) -> None:
    await put(client, model="org/llama")
    page = (await client.get(f"{BASE}?limit=50&offset=0")).json()
    [item] = page["models"]
    assert (item["model_name"], item["base_model"]) == ("local", "org/llama")
    assert {"id", "creator_name", "created_at", "updated_at"} <= set(item)
    assert (await client.get(f"{BASE}/local")).json() == item
    assert (await client.get("/api/cli/models/local")).status_code == 404
    assert (await client.get(f"{BASE}/Org%2FName")).status_code == 404


async def test_lora_models_are_an_empty_page_without_deployments(client: httpx.AsyncClient) -> None:
    page = (await client.get("/api/cli/models/lora")).json()
    assert page["models"] == []
    assert "active_deployments" not in page
    answer = await client.post("/api/cli/models/x/deploy", json={})
    assert (answer.status_code, answer.json()["code"]) == (404, "NOT_SUPPORTED")


async def test_nobody_sees_the_endpoints_of_another_workspace(
    client: httpx.AsyncClient, anonymous: httpx.AsyncClient, stranger: Any
) -> None:
    await put(client)
    for path in (ENDPOINTS, BASE):
        page = (await anonymous.get(path, headers=stranger.headers)).json()
        assert page["total_count"] == 0
    answer = await anonymous.delete(f"{ENDPOINTS}/local", headers=stranger.headers)
    assert answer.status_code == 404
