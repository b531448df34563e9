"""A workspace directory of a lab, with the few things a user does in it."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab.ports import http_json
from osmosis.workspace.config import load_eval_config, submission_body
from osmosis.workspace.repository import workspace_identity

if TYPE_CHECKING:
    from lab.platform import Lab

DATASET_LIMIT_S = 60.0
TERMINAL = ("finished", "failed", "stopped")


class CommandFailed(AssertionError):
    """A command ended with a code that was not expected; the text holds all that it printed."""


class Workspace:
    def __init__(self, lab: Lab, directory: Path) -> None:
        self.lab = lab
        self.directory = directory
        self._headers: dict[str, str] | None = None

    @property
    def environments(self) -> Path:
        """Where the worker of this machine keeps what it has built for this workspace."""
        return self.lab.data / "cache" / str(self.api("/api/cli/verify")["workspace"]["id"])

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
        deadline = time.monotonic() + DATASET_LIMIT_S
        while time.monotonic() < deadline:
            status = self.json("dataset", "info", name)["data"]["status"]
            if status == "uploaded":
                return
            if status == "error":
                break
            time.sleep(0.05)
        raise CommandFailed(self.osmosis("dataset", "logs", name).stdout)

    def submit(self, config: str, *flags: str) -> str:
        """Submit a config and give the run's name."""
        return str(self.json("eval", "submit", config, "--yes", *flags)["resource"]["name"])

    def info(self, run: str) -> dict[str, Any]:
        return self.json("eval", "info", run)["data"]

    def start(self, config: str) -> str:
        """Start a run of a config and give its name: as ``submit``, without command and checks."""
        body = submission_body(load_eval_config(self.directory / config))
        return str(self.api("/api/cli/eval-runs", json.dumps(body).encode())["name"])

    def api(self, path: str, body: bytes | None = None) -> dict[str, Any]:
        """GET an address of the API, or POST to it, as this workspace; lighter than a command."""
        if self._headers is None:
            token = (self.lab.data / "local-token").read_text().strip()
            self._headers = {
                "Authorization": f"Bearer {token}",
                "X-Osmosis-Git": workspace_identity(self.directory)[0],
                "Content-Type": "application/json",
            }
        return http_json(self.lab.url + path, headers=self._headers, body=body)

    def wait(self, run: str, *, limit_s: float = 120.0, every_s: float = 0.1) -> dict[str, Any]:
        """Wait for a terminal status and give what the API says of the run then."""
        deadline = time.monotonic() + limit_s
        while time.monotonic() < deadline:
            detail = self.api(f"/api/cli/eval-runs/{run}")
            if detail["eval_run"]["status"] in TERMINAL:
                return detail
            time.sleep(every_s)
        raise CommandFailed(f"{run} did not end within {limit_s} s: {self.info(run)}")
