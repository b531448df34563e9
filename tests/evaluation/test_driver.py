"""One try over the polling protocol, against a server that follows a script."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from functools import partial

import pytest
from aiohttp import web

from osmosis.evaluation import driver
from osmosis.evaluation.driver import (
    AdmissionRefused,
    Expired,
    ProcessLost,
    ProtocolBroken,
    TryLost,
    cancel,
    drive,
)
from osmosis.evaluation.rollout_link import STARTS_AT_ONCE, RolloutLink
from osmosis.wire.errors import RunFailed
from tests.evaluation.silence import SILENCE_S, twenty_silent_minutes

ADMITTED = {
    "rollout_id": "r1", "status": "queued", "polling_lease_token": "secret",
    "result_wait_timeout_sec": 30.0, "polling_lease_timeout_sec": 120.0,
}  # fmt: skip
RUNNING = (200, {"rollout_id": "r1", "status": "running"})
DONE = (200, {"rollout_id": "r1", "status": "success", "sample": {"reward": 1.0}})


@asynccontextmanager
async def server(admissions, results=()):
    """Answers in order; ``None`` hangs up, ``"hang"`` never answers, the last one is repeated.

    ``("wait", step)`` comes when the server's own wait for a result is over.
    """
    asked = []

    async def answer(request, script):
        asked.append((request.method, request.path_qs, dict(request.headers)))
        step = script.pop(0) if len(script) > 1 else script[0]
        if step is None:
            request.transport.abort()
            return web.Response()
        if step == "hang":
            await asyncio.sleep(30)
        if step[0] == "wait":
            await asyncio.sleep(ADMITTED["result_wait_timeout_sec"])
            step = step[1]
        status, body, *headers = step
        text = body if isinstance(body, str) else json.dumps(body)
        return web.Response(status=status, text=text, headers=headers[0] if headers else None)

    admissions, results = list(admissions), list(results)
    app = web.Application()
    app.router.add_post("/rollout", partial(answer, script=admissions))
    app.router.add_get("/rollout/r1/result", partial(answer, script=results))
    runner = web.AppRunner(app, shutdown_timeout=0.01)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    link = RolloutLink(f"http://127.0.0.1:{runner.addresses[0][1]}")
    try:
        yield link, asked
    finally:
        link.close("stopped")
        await runner.cleanup()


async def run(link, limit_s=20.0):
    return await drive(link, "r1", {"rollout_id": "r1"}, limit_s=limit_s)


async def test_polls_until_the_result_is_there_under_its_lease():
    async with server([(202, ADMITTED)], [RUNNING, RUNNING, DONE]) as (link, asked):
        result = await run(link)
    assert (result.status, result.sample) == ("success", {"reward": 1.0})
    assert [path for _, path, _ in asked] == [
        "/rollout",
        *["/rollout/r1/result?until=finished"] * 3,
    ]
    assert asked[1][2]["X-Osmosis-Rollout-Lease"] == "secret"


async def test_broken_links_and_gateway_errors_while_polling_are_waited_out():
    async with server([(202, ADMITTED)], [None, (503, {}), None, DONE]) as (link, _):
        assert (await run(link)).status == "success"


async def test_a_busy_or_starting_server_is_asked_again():
    busy = (429, {}, {"Retry-After": "0"})
    async with server([busy, (503, {}), (202, ADMITTED)], [DONE]) as (link, _):
        result = await run(link)
    assert result.queued_s >= 0.05


async def test_a_broken_admission_loses_the_try_for_it_may_be_running():
    async with server([None]) as (link, _):
        with pytest.raises(TryLost):
            await run(link)


@pytest.mark.parametrize(
    ("admission", "error"),
    [
        ((400, {"detail": "no"}), AdmissionRefused),
        ((500, {"detail": "no"}), AdmissionRefused),
        ((409, {"detail": "known"}), TryLost),
        ((202, "no json"), ProtocolBroken),
        ((202, []), ProtocolBroken),
        ((202, ADMITTED | {"rollout_id": "r2"}), ProtocolBroken),
        ((202, ADMITTED | {"polling_lease_timeout_sec": -1}), ProtocolBroken),
        ((202, ADMITTED | {"polling_lease_token": "a\r\nX: b"}), ProtocolBroken),
        ((202, {}), RunFailed),
        ((422, {"detail": [{"loc": ["body", "completion_callback_url"]}]}), RunFailed),
    ],
)
async def test_each_odd_admission_has_its_meaning(admission, error):
    async with server([admission]) as (link, _):
        with pytest.raises(error):
            await run(link)


@pytest.mark.parametrize(
    ("result", "error"),
    [
        ((404, {}), TryLost),
        ((403, {}), ProtocolBroken),
        ((200, "no json"), ProtocolBroken),
        ((200, {"rollout_id": "r2", "status": "success"}), ProtocolBroken),
        ((200, {"rollout_id": "r1", "status": "splendid"}), ProtocolBroken),
        ((200, {"rollout_id": "r1", "status": "success", "sample": 3}), ProtocolBroken),
    ],
)
async def test_each_odd_result_has_its_meaning(result, error):
    async with server([(202, ADMITTED)], [result]) as (link, _):
        with pytest.raises(error):
            await run(link)


async def test_lone_surrogates_and_nan_in_a_result_are_repaired():
    body = '{"rollout_id": "r1", "status": "success", "sample": {"a": "\\ud800", "b": NaN}}'
    async with server([(202, ADMITTED)], [(200, body)]) as (link, _):
        assert (await run(link)).sample == {"a": "�", "b": None}


@pytest.mark.parametrize(
    ("admission", "results", "step"),
    [
        ("hang", [], "did not answer POST /rollout"),
        ((429, {}, {"Retry-After": "0"}), [], "429"),
        ((202, ADMITTED), ["hang"], None),
        ((202, ADMITTED | {"result_wait_timeout_sec": 0.01}), ["hang"], "GET /rollout/r1/result"),
    ],
)
async def test_the_deadline_covers_every_wait_and_its_end_names_the_step(
    admission, results, step, monkeypatch
):
    monkeypatch.setattr(driver, "POLL_SLACK_S", 0.01)
    async with server([admission], results) as (link, _):
        with pytest.raises(Expired) as caught:
            await run(link, limit_s=0.4)
    assert caught.value.step is None if step is None else step in caught.value.step


async def test_samples_behind_an_admission_that_hangs_end_in_time_and_say_so():
    async with server(["hang"]) as (link, asked):
        tries = [
            asyncio.create_task(drive(link, f"r{at}", {}, limit_s=20))
            for at in range(STARTS_AT_ONCE)
        ]
        async with asyncio.timeout(10):
            while len(asked) < STARTS_AT_ONCE:  # noqa: ASYNC110  # what is awaited has no event
                await asyncio.sleep(0.01)
        with pytest.raises(Expired) as caught:
            await drive(link, "late", {}, limit_s=0.2)
        for task in tries:
            task.cancel()
        await asyncio.gather(*tries, return_exceptions=True)
    assert len(asked) == STARTS_AT_ONCE
    assert "behind samples whose POST /rollout had no answer" in caught.value.step


async def test_a_server_that_takes_a_sample_and_leaves_each_poll_open_loses_the_try(monkeypatch):
    monkeypatch.setattr(driver, "POLL_SLACK_S", 0.01)
    impatient = ADMITTED | {"result_wait_timeout_sec": 0.01, "polling_lease_timeout_sec": 0.05}
    async with server([(202, impatient)], ["hang"]) as (link, _):
        with pytest.raises(TryLost, match=r"GET /rollout/r1/result.*no answer in time"):
            await run(link)


async def test_twenty_silent_minutes_inside_the_budget_are_polled_through():
    results = [("wait", RUNNING)] * (SILENCE_S // 30) + [("wait", DONE)]
    async with server([(202, ADMITTED)], results) as (link, asked):
        call = asyncio.create_task(run(link, limit_s=2 * SILENCE_S))
        while len(asked) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        async with twenty_silent_minutes(call):
            polls = len(asked) - 1
            call.cancel()
    assert SILENCE_S // 40 <= polls <= SILENCE_S // 30 + 1, "one after another, none given up"


async def test_a_closed_link_ends_the_try_at_once():
    async with server([(202, ADMITTED)], ["hang"]) as (link, asked):
        task = asyncio.create_task(run(link))
        async with asyncio.timeout(5):
            while len(asked) < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            link.close("exited")
            with pytest.raises(ProcessLost):
                await task
        assert not await cancel(link, None)


async def test_connections_are_kept_and_given_up_exchanges_are_not_mixed_up():
    async with server([(202, ADMITTED)], ["hang", DONE]) as (link, _):
        with pytest.raises(Expired):
            await run(link, limit_s=0.2)
        assert (await run(link)).status == "success"
        assert len(link._pool._idle) == 1


async def test_only_a_few_samples_are_on_their_way_into_the_rollout_at_once():
    arriving = most = 0
    open_gate = asyncio.Event()

    async def admit(request):
        nonlocal arriving, most
        arriving += 1
        most = max(most, arriving)
        await open_gate.wait()
        rollout_id = (await request.json())["rollout_id"]
        arriving -= 1
        return web.json_response({**ADMITTED, "rollout_id": rollout_id}, status=202)

    async def result(request):
        return web.json_response({**DONE[1], "rollout_id": request.match_info["id"]})

    app = web.Application()
    app.router.add_post("/rollout", admit)
    app.router.add_get("/rollout/{id}/result", result)
    runner = web.AppRunner(app, shutdown_timeout=0.01)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    link = RolloutLink(f"http://127.0.0.1:{runner.addresses[0][1]}")
    try:
        drives = [
            asyncio.create_task(drive(link, f"r{i}", {"rollout_id": f"r{i}"}, limit_s=20))
            for i in range(4 * STARTS_AT_ONCE)
        ]
        async with asyncio.timeout(10):
            while arriving < STARTS_AT_ONCE:  # noqa: ASYNC110  # what is awaited has no event
                await asyncio.sleep(0.01)
        open_gate.set()
        results = await asyncio.gather(*drives)
    finally:
        link.close("stopped")
        await runner.cleanup()
    assert {result.status for result in results} == {"success"}
    assert most == STARTS_AT_ONCE
