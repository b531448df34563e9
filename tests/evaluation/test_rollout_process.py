import asyncio
import json
import os
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path

import aiohttp
import pytest

from osmosis.evaluation import rollout_process
from osmosis.evaluation.rollout_process import RolloutProcess, advertised_capacity
from osmosis.evaluation.sandbox import Sandbox, choose_sandbox, usable_sandboxes
from osmosis.processes import ProcessRecord, process_start_time
from osmosis.wire.errors import RunFailed
from tests.evaluation.rollout_lab import SERVER, Lab, Recorder, this_python


@pytest.fixture(autouse=True, params=["bwrap", "unshare", "none"])
def sandbox(request, monkeypatch):
    """Everything here holds in each fence, and without one."""
    fitting = [one for one in usable_sandboxes() if one.name == request.param]
    chosen = fitting[0] if fitting else Sandbox("none")
    if chosen.name != request.param:
        pytest.skip(f"no {request.param} here")
    monkeypatch.setattr(rollout_process, "choose_sandbox", lambda: chosen)
    return chosen


@pytest.fixture
def lab(tmp_path):
    return Lab(tmp_path, tmp_path / "cache")


class Running:
    """One rollout under test, with what it said."""

    def __init__(self, lab):
        self.lab = lab
        self.sink = Recorder()
        self.samples = []
        self.process = None

    async def start(self, code, **plan):
        self.lab.main(SERVER + code)
        self.process = await RolloutProcess.start(
            self.lab.plan(**plan),
            this_python(),
            self.sink,
            on_sample_output=lambda rollout, text: self.samples.append((rollout, text)),
        )
        return self.process

    async def ask(self, what):
        timeout = aiohttp.ClientTimeout(total=60)
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.get(f"{self.process.base_url}/{what}") as answer,
        ):
            return (await answer.json())["answer"]


@pytest.fixture
async def running(lab):
    one = Running(lab)
    yield one
    if one.process is not None:
        await one.process.stop(grace_s=0)


async def ends(event, within_s=20):
    async with asyncio.timeout(within_s):
        await event.wait()


async def until(condition, within_s=20):
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "did not happen in time"
        await asyncio.sleep(0.01)


def of_all_processes(kind):
    """``environ`` or ``cmdline`` of every process that may be read."""
    for path in Path("/proc").glob(f"[0-9]*/{kind}"):
        with suppress(OSError):
            yield path.read_bytes()


async def refused(running, code, **plan):
    with pytest.raises(RunFailed) as caught:
        await running.start(code, **plan)
    return caught.value


async def test_a_rollout_becomes_healthy_quickly_and_says_what_it_can_take(running):
    started = time.monotonic()
    process = await running.start("serve()")
    assert time.monotonic() - started < 5  # a quarter of a second on an idle machine
    assert process.max_concurrent == 7
    assert process.health["status"] == "ok"
    assert process.exit_description() == "running"
    await process.stop()
    assert process.exited.is_set()
    assert "SIGTERM" in process.exit_description()
    assert list((running.lab.root / "work/processes").iterdir()) == []


SHOWS_ITSELF = """
serve(
    env=lambda: dict(os.environ),
    path=lambda: [os.getcwd(), sys.path[0], *os.environ["PYTHONPATH"].split(":")],
    write=lambda: open(os.environ["_OSMOSIS_ROLLOUT_ARTIFACT_ROOT"] + "/x", "w").write("1"),
    home=lambda: open(os.path.expanduser("~/x"), "w").write("1"),
)
"""


async def test_it_gets_its_declared_variables_and_none_of_ours(running, monkeypatch):
    monkeypatch.setenv("SERVER_TOKEN", "c4n4ry")
    (running.lab.rollout / "src").mkdir()
    process = await running.start(
        SHOWS_ITSELF, env={"SETTING": "a", "PYTHONPATH": "/extra"}, secrets={"KEY": "s3cr3t"}
    )
    env = await running.ask("env")
    assert env["SETTING"] == "a" and env["KEY"] == "s3cr3t"
    assert "SERVER_TOKEN" not in env
    assert env["PYTHONUNBUFFERED"] == "1" and env["_OSMOSIS_ROLLOUT_TAG_OUTPUT"] == "1"
    assert env["_OSMOSIS_ROLLOUT_PORT"] == str(process.port)
    assert env["_OSMOSIS_ROLLOUT_ARTIFACT_ROOT"] == str(process.artifact_root)
    rollout = str(running.lab.rollout)
    assert await running.ask("path") == [rollout, rollout, rollout, f"{rollout}/src", "/extra"]
    await running.ask("write")
    await running.ask("home")
    assert (process.artifact_root / "x").read_text() == "1"
    assert not any(b"s3cr3t" in command for command in of_all_processes("cmdline"))


LOOKS_AROUND = """
def look():
    found = []
    for path in {paths!r}:
        try:
            found.append(open(path).read())
        except OSError:
            pass
    for pid in os.listdir("/proc"):
        if pid.isdigit() and pid != str(os.getpid()):
            try:
                found += [x for x in open(f"/proc/{{pid}}/environ").read().split("\\0") if "=" in x]
            except OSError:
                pass
    return found
serve(look=look)
"""


@pytest.mark.parametrize("sandbox", ["bwrap", "unshare"], indirect=True)
async def test_it_cannot_read_the_platform_nor_its_processes(running, sandbox, monkeypatch):
    (running.lab.private / "master.key").write_text("c4n4ry")
    (running.lab.code / ".env").write_text("c4n4ry")
    (running.lab.code / ".git").mkdir()
    (running.lab.code / ".git/config").write_text("c4n4ry")
    paths = [
        str(running.lab.private / "master.key"),
        str(running.lab.code / ".env"),
        str(running.lab.code / ".git/config"),
        f"/proc/{os.getpid()}/environ",
        __file__,
    ]
    await running.start(LOOKS_AROUND.format(paths=paths), secrets={"KEY": "s3cr3t"})
    found = await running.ask("look")
    # The programs of the fence are there, with nothing but a PATH.
    known = ("PATH=", "PWD=", "OLDPWD=")
    assert [item for item in found if item and not item.startswith(known)] == []


LIMITS = """
import resource
def limits():
    return {
        "core": resource.getrlimit(resource.RLIMIT_CORE)[0],
        "processes": resource.getrlimit(resource.RLIMIT_NPROC)[0],
        "oom": int(open("/proc/self/oom_score_adj").read()),
    }
serve(limits=limits)
"""


async def test_it_leaves_no_core_file_and_is_the_first_to_go_when_memory_runs_out(running):
    await running.start(LIMITS)
    assert await running.ask("limits") == {"core": 0, "processes": 16_384, "oom": 800}


async def test_output_goes_to_its_sample_or_to_the_log_without_secrets(running):
    code = """
print("process", os.environ["KEY"], flush=True)
os.write(1, b"\\x1er1\\x1esample " + os.environ["KEY"].encode() + b"\\n")
serve()
"""
    await running.start(code, secrets={"KEY": "s3cr3t-value"})
    await until(lambda: running.samples and "process " in running.sink.text)
    assert running.samples == [("r1", "sample [REDACTED]\n")]
    assert "process [REDACTED]" in running.sink.text
    assert "s3cr3t" not in running.sink.text


async def test_a_hundred_megabytes_of_output_block_nobody(running):
    code = """
def flood():
    line = "x" * 99 + "\\n"
    for _ in range(1_000):
        sys.stdout.write(line * 1_000)
    return "done"
serve(flood=flood)
"""
    await running.start(code)
    lag = 0.0

    async def beat():
        nonlocal lag
        while True:
            before = time.monotonic()
            await asyncio.sleep(0.01)
            lag = max(lag, time.monotonic() - before - 0.01)

    beating = asyncio.create_task(beat())
    assert await running.ask("flood") == "done"
    beating.cancel()
    assert lag < 1.0
    await running.process.stop()
    assert len(running.sink.text) < 2.2 * 2**20
    assert "suppressed" in running.sink.text


async def test_an_entrypoint_that_does_not_import_is_told_with_its_line(running):
    error = await refused(running, "\nimport pandass\n")
    assert error.kind == "rollout_start_failed"
    assert "does not import" in error.message and "No module named 'pandass'" in error.message
    assert f"main.py line {SERVER.count(chr(10)) + 2}" in error.message
    assert "rollouts/demo/pyproject.toml" in error.hint


async def test_an_end_before_health_shows_the_last_words_without_secrets(running):
    code = "print('about to leave', os.environ['KEY'], flush=True); os._exit(3)"
    error = await refused(running, code, secrets={"KEY": "s3cr3t-value"})
    assert "exit code 3" in error.message
    assert "about to leave [REDACTED]" in error.message
    assert "s3cr3t" not in json.dumps([error.message, error.hint, error.details])


async def test_a_crash_is_noticed_and_described(running):
    process = await running.start("serve(crash=lambda: os._exit(5))")
    with pytest.raises(aiohttp.ClientError):
        await running.ask("crash")
    await ends(process.exited)
    assert process.exit_description() == "exit code 5"


async def test_a_signal_that_ends_it_is_named(running):
    process = await running.start("serve(crash=lambda: os.kill(os.getpid(), 11))")
    with suppress(aiohttp.ClientError):
        await running.ask("crash")
    await ends(process.exited)
    assert "SIGSEGV" in process.exit_description()


STUBBORN = """
import signal, subprocess
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = "import signal, time; signal.signal(15, 1); print('up', flush=True); time.sleep(600)"
for _ in range(2):
    subprocess.Popen([sys.executable, "-c", child], start_new_session=True)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execv(sys.executable, [sys.executable, "-c", child])
    os._exit(0)
serve()
"""


async def test_what_ignores_sigterm_is_killed_with_all_its_children_and_daemons(running):
    process = await running.start(STUBBORN)
    await until(lambda: running.sink.text.count("up") == 3)
    instance = process.health["instance_id"]
    started = time.monotonic()
    await process.stop(grace_s=0.2)
    assert time.monotonic() - started < 10
    assert process.exited.is_set()
    assert not any(instance.encode() in environ for environ in of_all_processes("environ"))


async def test_a_clean_end_is_given_time(running):
    code = """
import signal
def leave(*_):
    print("drained", flush=True)
    os._exit(0)
signal.signal(signal.SIGTERM, leave)
serve()
"""
    process = await running.start(code)
    await process.stop(grace_s=20)
    assert process.exit_description() == "exit code 0"
    assert "drained" in running.sink.text


async def test_a_port_that_was_taken_meanwhile_is_left_for_another(running, monkeypatch):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        ports = iter([taken.getsockname()[1]])
        free = rollout_process._free_port
        monkeypatch.setattr(rollout_process, "_free_port", lambda: next(ports, None) or free())
        process = await running.start("serve()")
        assert process.port != taken.getsockname()[1]


KILL_EARLY = """
import pathlib, tempfile, time
starts = pathlib.Path(tempfile.gettempdir(), "starts")
starts.touch()
starts.write_text(starts.read_text() + "x")
if len(starts.read_text()) <= {times}:
    os.kill(os.getpid(), 9)
    time.sleep(60)
"""


async def test_one_that_is_killed_before_it_answers_is_started_again(running):
    process = await running.start(KILL_EARLY.format(times=2) + "serve()\n")
    assert process.health["status"] == "ok"
    again = [text for _, _, text in running.sink.logs if "started again" in text]
    assert len(again) == 2
    assert all("SIGKILL" in text for text in again)


async def test_one_that_is_killed_at_every_start_is_given_up(running):
    with pytest.raises(RunFailed) as raised:
        await running.start(KILL_EARLY.format(times=99) + "serve()\n")
    assert raised.value.kind == "rollout_start_failed"
    assert "SIGKILL" in raised.value.message
    starts = running.lab.plan().work_dir / "scratch" / "tmp" / "starts"
    assert starts.read_text() == "xxx"


async def test_a_foreign_server_on_the_port_is_not_taken_for_the_rollout(running):
    code = 'os.environ["_OSMOSIS_ROLLOUT_INSTANCE_ID"] = "somebody else"\nserve()'
    error = await refused(running, code)
    assert error.kind == "rollout_start_failed"
    assert "Another process answers" in error.message


async def test_a_rollout_that_never_answers_is_ended_at_the_limit(running, monkeypatch):
    monkeypatch.setattr(rollout_process, "START_S", 0.5)
    error = await refused(running, "import time\nprint('waiting', flush=True)\ntime.sleep(600)")
    assert error.kind == "rollout_unhealthy"
    assert "nothing listens" in error.message
    assert "waiting" in error.details["output"]


@pytest.mark.parametrize("sandbox", [choose_sandbox().name], indirect=True)
async def test_a_health_check_that_is_taken_and_never_answered_ends_at_the_limit(
    running, monkeypatch
):
    monkeypatch.setattr(rollout_process, "START_S", 0.5)
    monkeypatch.setattr(rollout_process, "HEALTH_ANSWER_S", 0.2)
    code = """
import socket, time
taken, port = [], int(os.environ["_OSMOSIS_ROLLOUT_PORT"])
with socket.create_server(("127.0.0.1", port)) as server:
    while True:
        taken.append(server.accept())
"""
    error = await refused(running, code)
    assert error.kind == "rollout_unhealthy"
    assert "/health did not answer within" in error.message


async def test_a_start_that_is_given_up_leaves_nothing_behind(running):
    starting = asyncio.create_task(running.start("import time\ntime.sleep(600)"))
    processes = running.lab.root / "work/processes"
    await until(lambda: processes.is_dir() and list(processes.glob("*.json")))
    (record,) = processes.glob("*.json")
    pid = ProcessRecord(**json.loads(record.read_text())).pid
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert process_start_time(pid) is None


@pytest.mark.parametrize("sandbox", [choose_sandbox().name], indirect=True)
async def test_the_rollout_dies_with_the_process_that_started_it(running, sandbox):
    running.lab.main(SERVER + "serve()")
    parent = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        "import asyncio, sys; sys.path.insert(0, sys.argv[1])\n"
        "from pathlib import Path\n"
        "from tests.evaluation.rollout_lab import *\n"
        "from osmosis.evaluation.rollout_process import RolloutProcess\n"
        "async def main():\n"
        "    lab = Lab(Path(sys.argv[2]), Path(sys.argv[2]) / 'cache')\n"
        "    lab.main(SERVER + 'serve()')\n"
        "    one = await RolloutProcess.start(lab.plan(), this_python(), Recorder(),\n"
        "                                     on_sample_output=lambda *_: None)\n"
        "    print(one.pid, one.port, flush=True)\n"
        "    await asyncio.sleep(600)\n"
        "asyncio.run(main())\n",
        str(Path(__file__).parents[2]),
        str(running.lab.root),
        stdout=asyncio.subprocess.PIPE,
    )
    pid, port = map(int, (await parent.stdout.readline()).split())
    parent.kill()
    await parent.wait()
    await until(lambda: process_start_time(pid) is None)

    def refuses():
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) != 0

    await until(refuses)


@pytest.mark.parametrize(
    ("health", "capacity"),
    [
        ({"max_queue_depth": 3, "concurrency": {"max_concurrent": 8}}, 3),
        ({"concurrency": {"max_concurrent": 8}}, 8),
        ({"concurrency": {"max_concurrent": True}}, None),
        ({"concurrency": {"max_concurrent": 0}, "max_queue_depth": None}, None),
        ({"concurrency": None}, None),
        ({}, None),
    ],
)
def test_the_advertised_capacity_is_read_as_the_contract_says(health, capacity):
    assert advertised_capacity(health) == capacity
