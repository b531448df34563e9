from __future__ import annotations

import httpx
import pytest

from tests.rollout.driver import ADMISSION, Driver, echo, reward_one


@pytest.fixture
async def driver(tmp_path):
    driver = Driver(echo, reward_one, tmp_path)
    yield driver
    await driver.close()


async def test_a_middleware_of_user_code_sees_admission_and_polls(driver):
    seen = []

    @driver.app.middleware("http")
    async def note(request, call_next):
        seen.append((request.method, request.url.path))
        return await call_next(request)

    rollout_id = await driver.start()
    assert (await driver.result(rollout_id))["status"] == "success"
    assert seen[0] == ("POST", "/rollout")
    assert set(seen[1:]) == {("GET", f"/rollout/{rollout_id}/result")}


async def test_the_short_way_and_the_long_way_answer_alike(driver):
    async def answers():
        refused = await driver.http.post("/rollout", content=b"{")
        unknown = await driver.http.get(
            "/rollout/nobody/result", headers={"X-Osmosis-Rollout-Lease": "t"}
        )
        bare = await driver.http.get("/rollout/nobody/result")
        return [(a.status_code, a.json(), a.headers.get("content-type")) for a in
                (refused, unknown, bare)]  # fmt: skip

    short = await answers()

    @driver.app.middleware("http")
    async def passing(request, call_next):
        return await call_next(request)

    assert await answers() == short
    assert [status for status, _, _ in short] == [422, 404, 422]


async def test_other_paths_and_methods_go_the_long_way(driver):
    @driver.app.get("/rollout/extra/path/result")
    async def mine():
        return {"mine": True}

    assert (await driver.http.get("/rollout/extra/path/result")).json() == {"mine": True}
    assert (await driver.http.get("/rollout")).status_code == 405
    assert (await driver.http.post("/rollout/x/result")).status_code == 405


async def test_a_mounted_app_answers_below_its_prefix(driver):
    from starlette.applications import Starlette
    from starlette.routing import Mount

    outer = Starlette(routes=[Mount("/inner", app=driver.app)])
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(outer), base_url="http://rollout"
    ) as http:
        body = {**ADMISSION, "rollout_id": "mounted", "chat_completions_url": "http://model/v1"}
        assert (await http.post("/inner/rollout", json=body)).status_code == 202
        assert (await http.post("/rollout", json=body)).status_code == 404
