from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Osmosis


def command(*words: str, data: Path, **more: str) -> list[str]:
    return [sys.executable, "-m", "osmosis.cli.main", *words]


def environment(data: Path, **more: str) -> dict[str, str]:
    clean = {key: value for key, value in os.environ.items() if not key.startswith("OSMOSIS_")}
    return {**clean, "OSMOSIS_DATA_DIR": str(data), "OSMOSIS_EMBEDDED_WORKER": "false", **more}


def test_the_server_runs_in_the_background_until_it_is_stopped(tmp_path: Path, osmosis: Osmosis):
    data = tmp_path / "data"
    started = subprocess.run(
        [sys.executable, "-m", "osmosis.cli.main", "--json", "server", "start", "-d", "--port=0"],
        env=environment(data),
        capture_output=True,
        text=True,
        check=False,
    )
    assert started.returncode == 0, started
    try:
        facts = json.loads(started.stdout)["resource"]
        found = osmosis("--json", "server", "status", "--data-dir", data)
        assert (found.code, found.json["data"]["pid"]) == (0, facts["pid"])
    finally:
        stopped = osmosis("--json", "server", "stop", "--data-dir", data).json
    assert stopped["status"] == "success"
    again = osmosis("--json", "server", "stop", "--data-dir", data).json
    assert again["status"] == "noop"
    assert osmosis("server", "status", "--data-dir", data).code == 1


def test_the_foreground_server_prints_its_address_and_ends_by_ctrl_c(tmp_path: Path):
    process = subprocess.Popen(
        [sys.executable, "-m", "osmosis.cli.main", "server", "start", "--port", "0"],
        env=environment(tmp_path / "data"),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    lines: list[str] = []
    for line in process.stdout:
        lines.append(line)
        if "Ctrl-C" in line:
            break
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=20)
    assert any("http://127.0.0.1:" in line for line in lines)
    assert any("/login?code=" in line for line in lines)
    assert process.returncode == 0


def test_a_busy_port_is_named(tmp_path: Path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = subprocess.run(
            [sys.executable, "-m", "osmosis.cli.main", "server", "start", "--port", port],
            env=environment(tmp_path / "data"),
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert port in done.stderr
    assert "Traceback" not in done.stderr


def test_a_link_signs_in_once(near: Osmosis):
    link = near("--json", "server", "link").json["resource"]
    assert "/login?code=" in link["url"]


def test_an_admin_password_comes_by_pipe(tmp_path: Path, osmosis: Osmosis):
    words = ["server", "admin", "create", "--data-dir", str(tmp_path / "data")]
    assert osmosis(*words, stdin="short\n").code == 1
    done = osmosis("--json", *words, "--email", "ada@example.test", stdin="long enough 1\n")
    assert done.json["resource"]["email"] == "ada@example.test"
    assert "long enough" not in done.out + done.err


def test_settings_that_cannot_be_are_refused(osmosis: Osmosis, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OSMOSIS_PORT", "not-a-port")
    assert osmosis("--json", "server", "status").error["code"] == "VALIDATION"
