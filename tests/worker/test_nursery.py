"""Shards forked from a preloaded process: what they inherit, and what must not be inherited."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from aiohttp import web

from osmosis.worker import nursery_process
from osmosis.worker.channel import EXIT_ABANDONED
from osmosis.worker.nursery_process import EXIT_UNFORKABLE, NurseryLost, NurseryProcess
from osmosis.worker.own_child import collect_adopted, exit_status
from osmosis.worker.shard_process import shard_environment

FORKED_CALL = str(Path(__file__).with_name("forked_call.py"))
CANARY = "sk-canary-of-the-worker"


@pytest.fixture
async def claude():
    """The address of a server that answers like Anthropic's."""

    async def answer(request):
        told = await request.json()
        text = f"{request.headers['x-api-key']} said {told['messages'][0]['content'][0]['text']}"
        return web.json_response(
            {
                "id": "msg_1", "type": "message", "role": "assistant", "model": "claude",
                "content": [{"type": "text", "text": text}], "stop_reason": "end_turn",
                "usage": {"input_tokens": 1, "output_tokens": 1},
            }
        )  # fmt: skip

    app = web.Application()
    app.router.add_post("/v1/messages", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    yield f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}"
    await runner.cleanup()


@pytest.fixture
def start(monkeypatch, tmp_path):
    """A nursery of ``forked_call.py``, with the environment that a worker gives it."""
    argv = [sys.executable, FORKED_CALL, str(os.getpid())]

    def begin(*more, litellm=False):
        monkeypatch.setattr(nursery_process, "nursery_argv", lambda: [*argv, *more])
        environment = shard_environment({**os.environ, "ANTHROPIC_API_KEY": CANARY})
        return NurseryProcess.start(environment, tmp_path / "processes", litellm=litellm)

    return begin


class Child:
    """One forked shard, and the test's end of its channel."""

    def __init__(self, pid, channel):
        self.pid = pid
        self._channel = channel
        self._status = asyncio.create_task(exit_status(pid, lambda: collect_adopted(pid)))

    @classmethod
    async def of(cls, nursery):
        ours, theirs = socket.socketpair()
        with theirs:
            pid = await nursery.fork(theirs)
        ours.setblocking(False)
        return cls(pid, ours)

    async def heard(self):
        loop = asyncio.get_running_loop()
        return json.loads(await loop.sock_recv(self._channel, 10_000))

    def tell(self, words):
        self._channel.send(words)

    def hang_up(self):
        self._channel.close()

    async def ended(self):
        async with asyncio.timeout(20):
            status = await self._status
        self._channel.close()
        return status


async def test_forks_of_a_parent_with_litellm_answer_calls_and_share_nothing_but_what_is_loaded(
    start, claude, tmp_path
):
    nursery = start(litellm=True)
    one, other = await Child.of(nursery), await Child.of(nursery)
    seen, seen_too = await one.heard(), await other.heard()
    assert seen["loaded"] and seen["variables"] == []
    assert seen["parent"] == os.getpid(), "the worker is the one that it dies with"
    assert seen["group"] == seen["session"] == one.pid
    for what in ("random", "uuid", "ssl", "group"):
        assert seen[what] != seen_too[what]
    process = psutil.Process(nursery.pid)
    assert process.num_threads() == 1
    assert CANARY not in " ".join([*process.cmdline(), *process.environ().values()])
    assert [path.name.partition("-")[0] for path in (tmp_path / "processes").iterdir()] == [
        str(nursery.pid)
    ]
    nursery.kill()
    await nursery.wait()
    for child in (one, other):  # they outlive the one that forked them
        child.tell(claude.encode())
        assert await child.heard() == "sk-run said hello"
        assert await child.ended() == 7
    assert list((tmp_path / "processes").iterdir()) == []


async def test_a_parent_with_a_second_thread_forks_nothing(start):
    nursery = start("threaded")
    ours, theirs = socket.socketpair()
    with ours, theirs, pytest.raises(NurseryLost):
        await nursery.fork(theirs)
    assert await nursery.wait() == EXIT_UNFORKABLE
    assert not nursery.usable


def test_sockets_that_it_was_started_with_are_no_hindrance():
    # A worker's own output goes to its server through such.
    code = "from osmosis.worker.shard_nursery import require_forkable as check; check()"
    ours, theirs = socket.socketpair()
    with ours, theirs:
        given = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
        assert subprocess.run([sys.executable, "-c", code], **given, check=False).returncode == 0


async def test_a_forked_shard_looks_like_a_shard_and_its_end_is_known_exactly(tmp_path):
    nursery = NurseryProcess.start(shard_environment(os.environ), tmp_path)
    child, killed = await Child.of(nursery), await Child.of(nursery)
    words = psutil.Process(child.pid).cmdline()
    assert [word for word in words if word] == [
        sys.executable, "-P", "-m", "osmosis.worker.shard", str(os.getpid())
    ]  # fmt: skip
    os.kill(killed.pid, signal.SIGKILL)
    assert await killed.ended() == -signal.SIGKILL
    child.hang_up()
    assert await child.ended() == EXIT_ABANDONED
    nursery.kill()
    await nursery.wait()
