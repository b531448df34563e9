from __future__ import annotations

import pytest

from tests.rollout.driver import echo, reward_one


async def test_with_an_api_key_every_route_demands_exactly_it(serve):
    driver = serve(echo, reward_one, api_key="s3cret")
    for method, path in (
        ("GET", "/health"),
        ("POST", "/rollout"),
        ("POST", "/rollout/cancel"),
        ("GET", "/rollout/x/result"),
        ("GET", "/docs"),
    ):
        for given in ({}, {"Authorization": "Bearer other"}, {"Authorization": "bearer s3cret"}):
            answer = await driver.http.request(method, path, headers=given)
            assert answer.status_code == 401, (method, path, given)
    answer = await driver.http.get("/health", headers={"Authorization": "Bearer s3cret"})
    assert answer.status_code == 200


async def test_without_an_api_key_nothing_is_demanded(serve):
    assert (await serve(echo).http.get("/health")).status_code == 200


async def test_health_tells_capacity_life_and_identity(serve, monkeypatch):
    monkeypatch.setenv("_OSMOSIS_ROLLOUT_INSTANCE_ID", "instance-7")
    body = await serve(echo).health()
    assert body["status"] == "ok"
    assert body["concurrency"] == {"max_concurrent": 4, "queued": 0, "running": 0}
    assert body["lifecycle"] == {"accepting_rollouts": True, "active_rollouts": 0}
    assert body["instance_id"] == "instance-7"
    assert body["sdk"]["name"] == "osmosis-platform"
    monkeypatch.delenv("_OSMOSIS_ROLLOUT_INSTANCE_ID")
    body = await serve(echo).health()
    assert body["instance_id"] == body["process_id"]


@pytest.mark.parametrize("path", ["/rollout/x/status", "/openapi.json", "/docs"])
async def test_there_are_no_other_routes(serve, path):
    assert (await serve(echo).http.get(path)).status_code == 404
