"""A whole platform in a scratch directory, driven as a user drives it: by commands and git.

Benchmarks and end-to-end tests share it. Everything runs on loopback and dies with the lab.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
OSMOSIS = Path(sys.executable).with_name("osmosis")
START_LIMIT_S = 30.0
STOP_LIMIT_S = 15.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def http_json(url: str, body: bytes | None = None) -> dict[str, Any]:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(urllib.request.Request(url, data=body), timeout=10) as response:
        return json.load(response)


class CommandFailed(AssertionError):
    """A command ended with a code that was not expected; the text holds all that it printed."""


class Lab:
    """One server with its data directory, one home, any number of workspaces."""

    def __init__(self, directory: Path, *, extra_env: dict[str, str] | None = None) -> None:
        self.directory = directory
        self.data = directory / "data"
        self.home = directory / "home"
        self.home.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.server: subprocess.Popen[bytes] | None = None
        self.env = {
            **{k: v for k, v in os.environ.items() if not k.startswith("OSMOSIS_")},
            "HOME": str(self.home),
            "XDG_CONFIG_HOME": str(self.home / ".config"),
            "OSMOSIS_DATA_DIR": str(self.data),
            "OSMOSIS_PORT": str(self.port),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_AUTHOR_NAME": "lab",
            "GIT_AUTHOR_EMAIL": "lab@localhost",
            "GIT_COMMITTER_NAME": "lab",
            "GIT_COMMITTER_EMAIL": "lab@localhost",
            "GIT_TERMINAL_PROMPT": "0",
            "NO_PROXY": "127.0.0.1,localhost",
            "COLUMNS": "120",
            **(extra_env or {}),
        }
        self.env.pop("PYTHONDONTWRITEBYTECODE", None)

    # ------------------------------------------------------------------ the server

    def start(self) -> None:
        """Start the server in the foreground of a child process and wait until it answers."""
        self.log = (self.directory / "server.out").open("ab")
        self.server = subprocess.Popen(
            [str(OSMOSIS), "server", "start"],
            cwd=self.directory,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        deadline = time.monotonic() + START_LIMIT_S
        while time.monotonic() < deadline:
            if self.server.poll() is not None:
                break
            with contextlib.suppress(OSError):
                http_json(f"{self.url}/api/health")
                return
            time.sleep(0.02)
        raise CommandFailed("the server did not start:\n" + self.server_output())

    def server_output(self) -> str:
        return (self.directory / "server.out").read_text(errors="replace")[-8000:]

    def kill_server(self) -> None:
        """kill -9, as a power cut would."""
        assert self.server is not None
        self.server.kill()
        self.server.wait(STOP_LIMIT_S)

    def stop(self) -> None:
        if self.server is None or self.server.poll() is not None:
            return
        self.server.send_signal(signal.SIGTERM)
        try:
            self.server.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self.kill_server()
        self.log.close()

    # ------------------------------------------------------------------ commands

    def run(
        self,
        argv: Sequence[str | Path],
        *,
        cwd: Path | None = None,
        rc: int | None = 0,
        stdin: str | None = None,
        env: dict[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [str(word) for word in argv],
            cwd=cwd or self.directory,
            env={**self.env, **(env or {})},
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        if rc is not None and done.returncode != rc:
            command = " ".join(map(str, argv))
            raise CommandFailed(
                f"{command}\nended with {done.returncode}, not {rc}\n{done.stdout}\n{done.stderr}"
            )
        return done

    def osmosis(self, *words: str | Path, **more: Any) -> subprocess.CompletedProcess[str]:
        return self.run([OSMOSIS, *words], **more)

    def json(self, *words: str | Path, **more: Any) -> dict[str, Any]:
        return json.loads(self.osmosis("--json", *words, **more).stdout)

    # ------------------------------------------------------------------ workspaces

    def workspace(self, name: str) -> Workspace:
        """A copy of the example workspace, connected to the server and pushed."""
        directory = self.directory / name
        shutil.copytree(
            ROOT / "examples" / "workspace",
            directory,
            ignore=shutil.ignore_patterns("__pycache__", ".osmosis", ".venv"),
        )
        self.osmosis("init", directory)
        workspace = Workspace(self, directory)
        workspace.push("Start")
        return workspace


class Workspace:
    """A workspace directory of the lab, with the few things a user does in it."""

    def __init__(self, lab: Lab, directory: Path) -> None:
        self.lab = lab
        self.directory = directory

    def osmosis(self, *words: str | Path, **more: Any) -> subprocess.CompletedProcess[str]:
        return self.lab.osmosis(*words, cwd=self.directory, **more)

    def json(self, *words: str | Path, **more: Any) -> dict[str, Any]:
        return self.lab.json(*words, cwd=self.directory, **more)

    def write(self, path: str, text: str) -> Path:
        target = self.directory / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        return target

    def push(self, message: str) -> None:
        git = ["git", "-C", self.directory]
        self.lab.run([*git, "add", "-A"])
        self.lab.run([*git, "commit", "-q", "--allow-empty", "-m", message])
        self.lab.run([*git, "push", "-q", "-u", "origin", "HEAD:main"])

    def upload(self, path: Path | str) -> None:
        """Upload a dataset and wait until it is ready."""
        self.osmosis("dataset", "upload", path, "--yes", "--overwrite")
        name = Path(path).stem
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            status = self.json("dataset", "info", name)["data"]["status"]
            if status == "uploaded":
                return
            if status == "error":
                break
            time.sleep(0.05)
        raise CommandFailed(self.osmosis("dataset", "logs", name).stdout)

    def submit(self, config: str) -> str:
        """Submit a config and give the run's name."""
        return str(self.json("eval", "submit", config, "--yes")["resource"]["name"])

    def info(self, run: str) -> dict[str, Any]:
        return self.json("eval", "info", run)["data"]

    def wait(self, run: str, *, limit_s: float = 120.0, every_s: float = 0.2) -> dict[str, Any]:
        """Wait for a terminal status and give the run's info."""
        deadline = time.monotonic() + limit_s
        while time.monotonic() < deadline:
            info = self.info(run)
            if info["eval_run"]["status"] in ("finished", "failed", "stopped"):
                return info
            time.sleep(every_s)
        raise CommandFailed(f"{run} did not end within {limit_s} s: {self.info(run)}")


@contextlib.contextmanager
def mock_model(port: int, latency_ms: float) -> Iterator[str]:
    """The mock model as a process of its own; gives its address."""
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.mock_model", f"--port={port}", f"--latency-ms={latency_ms}"],
        cwd=ROOT,
    )
    url = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + START_LIMIT_S
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                http_json(f"{url}/stats")
                break
            time.sleep(0.02)
        yield url
    finally:
        process.terminate()
        process.wait(STOP_LIMIT_S)
