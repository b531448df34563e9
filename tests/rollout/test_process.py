"""A rollout server as a process of its own: what it prints, how it ends."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import textwrap
import time

import httpx
import pytest

MAIN = """
import asyncio, logging, os, sys, threading
import uvicorn
early = logging.StreamHandler(sys.stderr)
logging.getLogger("early").addHandler(early)
from osmosis.rollout import AgentWorkflow, Grader, LocalBackend
from osmosis.rollout.server import create_rollout_server

class Talk(AgentWorkflow):
    async def run(self, ctx):
        name = ctx.metadata["name"]
        print(f"{name} one")
        sys.stdout.write(f"{name} par")
        await asyncio.sleep(0.02)
        sys.stdout.write("tial\\nand the rest")
        print(f"{name} err", file=sys.stderr)
        await asyncio.to_thread(print, f"{name} thread")
        logging.getLogger("early").warning("%s logged", name)
        print("x" * 200_000, end="")
        if os.environ.get("_OSMOSIS_ROLLOUT_TAG_OUTPUT"):
            print("\\ud800 damaged")
        return [{"role": "assistant", "content": "a"}]

class One(Grader):
    async def grade(self, ctx):
        print(ctx.metadata["name"], "graded")
        ctx.set_reward(1)

print("before", flush=True)
app = create_rollout_server(backend=LocalBackend(workflow=Talk, grader=One))
if __name__ == "__main__":
    print("serving", flush=True)
    port = int(os.environ["_OSMOSIS_ROLLOUT_PORT"])
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning")
"""


@pytest.fixture
def start(tmp_path):
    processes = []

    def begin(**environment):
        (tmp_path / "main.py").write_text(textwrap.dedent(MAIN))
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        process = subprocess.Popen(
            [sys.executable, "main.py"],
            cwd=tmp_path,
            env={
                **os.environ,
                "_OSMOSIS_ROLLOUT_PORT": str(port),
                "_OSMOSIS_ROLLOUT_ARTIFACT_ROOT": str(tmp_path / "root"),
                "PYTHONUNBUFFERED": "1",
                **environment,
            },
            stdout=(tmp_path / "output").open("wb"),
            stderr=subprocess.STDOUT,
        )
        processes.append(process)
        url = f"http://127.0.0.1:{port}"
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            try:
                httpx.get(f"{url}/health")
                return process, url
            except httpx.TransportError:
                assert process.poll() is None, (tmp_path / "output").read_text()
                time.sleep(0.02)
        raise AssertionError("the server did not come up")

    yield begin
    for process in processes:
        process.kill()
        process.wait()


def output_of(process, tmp_path):
    process.send_signal(signal.SIGTERM)
    process.wait(20)
    return (tmp_path / "output").read_text()


def run_rollouts(url, names):
    leases = {}
    with httpx.Client(base_url=url, timeout=30) as http:
        for name in names:
            body = {"initial_messages": [], "metadata": {"name": name}, "rollout_id": name}
            answer = http.post("/rollout", json={**body, "chat_completions_url": "http://m"})
            leases[name] = answer.json()["polling_lease_token"]
        for name, lease in leases.items():
            headers = {"X-Osmosis-Rollout-Lease": lease}
            answer = http.get(f"/rollout/{name}/result?until=finished", headers=headers)
            assert answer.json()["status"] == "success", answer.text


def test_each_line_carries_the_rollout_that_printed_it(start, tmp_path):
    process, url = start(_OSMOSIS_ROLLOUT_TAG_OUTPUT="1")
    run_rollouts(url, ["r1", "r2"])
    lines = output_of(process, tmp_path).split("\n")
    assert {"before", "serving"} <= {line for line in lines if not line.startswith("\x1e")}
    for name, other in (("r1", "r2"), ("r2", "r1")):
        own = [line.split("\x1e")[2] for line in lines if line.startswith(f"\x1e{name}\x1e")]
        assert not any(other in line for line in own)
        for expected in ("one", "partial", "err", "logged", "graded"):
            assert f"{name} {expected}" in own, (expected, own)
        assert f"and the rest{name} thread" in own, "one stream, one line"
        assert sum(line.count("x" * 1000) for line in own) >= 200
        assert any("damaged" in line for line in own)


def test_without_the_variable_output_is_left_alone(start, tmp_path):
    process, url = start()
    run_rollouts(url, ["r1"])
    assert "\x1e" not in output_of(process, tmp_path)
    assert process.returncode in (0, -signal.SIGTERM)
