"""A whole platform in a scratch directory, driven as a user drives it: by commands and git."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from lab.environments import take_environments
from lab.ports import free_port, wait_until_answers
from lab.workspace import CommandFailed, Workspace

ROOT = Path(__file__).resolve().parent.parent
OSMOSIS = Path(sys.executable).with_name("osmosis")
START_LIMIT_S = 30.0
STOP_LIMIT_S = 15.0


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
        if not wait_until_answers(f"{self.url}/api/health", self.server, START_LIMIT_S):
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

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

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

    def workspace(self, name: str, *, environments: Path | None = None) -> Workspace:
        """A copy of the example workspace, connected to the server and pushed.

        With ``environments`` the worker finds them built already.
        """
        workspace = Workspace(self, self.copy_example_workspace(name))
        self.osmosis("init", workspace.directory)
        workspace.push("Start")
        if environments:
            take_environments(environments, workspace.environments)
        return workspace

    def copy_example_workspace(self, name: str) -> Path:
        directory = self.directory / name
        shutil.copytree(
            ROOT / "examples" / "workspace",
            directory,
            ignore=shutil.ignore_patterns("__pycache__", ".osmosis", ".venv"),
        )
        return directory
