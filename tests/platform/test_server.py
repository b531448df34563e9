"""The server as a process: started, found, killed, stopped, refused."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from osmosis.platform.ports import listen
from osmosis.platform.server import (
    create_admin,
    environment,
    read_record,
    start_detached,
    status,
    stop,
)
from osmosis.platform.server_log import without_tokens
from osmosis.platform.settings import Settings
from osmosis.process_log import LogLines
from osmosis.wire.errors import Conflict, OsmosisError

SERVE = (
    "from osmosis.platform.server import serve; from osmosis.platform.settings import Settings; "
    "serve(Settings.load())"
)


@pytest.fixture
def settings(tmp_path: Path) -> Iterator[Settings]:
    made = Settings(data_dir=tmp_path / "data", port=0, embedded_worker=False)
    yield made
    record = read_record(made)
    if record is not None:
        record.send(signal.SIGKILL)


def test_the_server_starts_in_the_background_and_stops(settings: Settings) -> None:
    assert not status(settings).running
    assert not stop(settings)
    started = start_detached(settings)
    assert started.healthy and started.url
    assert status(settings) == started
    assert start_detached(settings).pid == started.pid
    assert httpx.get(f"{started.url}/api/health").json()["status"] == "ok"
    begun = time.monotonic()
    assert stop(settings)
    assert time.monotonic() - begun < 5
    assert not status(settings).running
    assert "code=" not in (settings.logs_dir / "server.out").read_text()
    assert not settings.server_file.exists()


def test_a_second_server_and_a_busy_port_are_explained(settings: Settings, tmp_path: Path) -> None:
    started = start_detached(settings)
    with pytest.raises(OsmosisError, match=f"running already at {started.url} .pid {started.pid}"):
        _serve_and_fail(settings)
    port = int(str(started.url).rpartition(":")[2])
    other = settings.model_copy(update={"data_dir": tmp_path / "other", "port": port})
    with pytest.raises(OsmosisError, match=rf"Port {port} is in use by .*pid {started.pid}"):
        _serve_and_fail(other)


def test_a_killed_server_is_not_taken_for_running_and_starts_again(settings: Settings) -> None:
    first = start_detached(settings)
    assert first.pid
    os.kill(first.pid, signal.SIGKILL)
    os.waitpid(first.pid, 0)
    assert settings.server_file.exists()
    assert not status(settings).running
    second = start_detached(settings)
    assert second.healthy and second.pid != first.pid


def test_a_foreground_server_prints_a_link_that_signs_in_and_ends_on_ctrl_c(
    settings: Settings,
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", SERVE],
        env={**os.environ, **environment(settings)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    lines: list[str] = []
    while not lines or "Ctrl-C" not in lines[-1]:
        lines.append(process.stdout.readline())
        assert process.poll() is None
    link = next(word for line in lines for word in line.split() if "/login?code=" in word)
    assert httpx.get(link).status_code == 303
    process.send_signal(signal.SIGINT)
    assert process.wait(10) == 0
    process.stdout.close()


def test_binding_wide_needs_an_admin_with_a_password(settings: Settings) -> None:
    wide = settings.model_copy(update={"host": "0.0.0.0"})
    with pytest.raises(OsmosisError, match="osmosis server admin create"):
        start_detached(wide)
    assert create_admin(wide, "correct horse battery").endswith("@localhost")
    assert start_detached(wide).healthy


def test_a_busy_port_names_its_holder() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(Conflict) as caught:
            listen("127.0.0.1", port)
    assert f"pid {os.getpid()}" in caught.value.message
    assert f"--port {port + 1}" in str(caught.value.hint)


def test_no_token_gets_into_the_log() -> None:
    import logging

    record = logging.LogRecord(
        "osmosis", logging.INFO, "f", 1, "token osm_%s", ("abcdefghijklmnopqrstuvwxyz123",), None
    )
    line = json.loads(LogLines(as_json=True, redact=without_tokens).format(record))
    assert line["message"] == "token [REDACTED]"


def _serve_and_fail(settings: Settings) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "osmosis.platform.server"],
        env={**os.environ, **environment(settings)},
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert done.returncode == 1
    raise OsmosisError(done.stderr)
