"""Calling the vendor's command and reading the JSON that it prints."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lab.platform import Lab
from lab.ports import http_json

POLL_S = 0.1
DATASET_LIMIT_S = 60.0
RUN_LIMIT_S = 180.0


@dataclass(frozen=True)
class Vendor:
    """The published command, unchanged, pointed at our server."""

    lab: Lab
    command: Path
    env: Mapping[str, str]
    cwd: Path

    def __call__(self, *words: str | Path, **env: str) -> dict[str, Any]:
        """The JSON of a command that succeeds."""
        argv = [self.command, "--json", *words]
        done = self.lab.run(argv, cwd=self.cwd, env={**self.env, **env})
        return json.loads(done.stdout)

    def fails(self, *words: str | Path, **env: str) -> dict[str, Any]:
        """The error of a command that fails as designed: typed, and with nothing on stdout."""
        argv = [self.command, "--json", *words]
        done = self.lab.run(argv, cwd=self.cwd, env={**self.env, **env}, rc=1)
        assert done.stdout == "", done.stdout
        error = json.loads(done.stderr.splitlines()[-1])["error"]
        assert error["code"] != "INTERNAL", error
        return error

    def without_token(self, **env: str) -> Vendor:
        """Only the server is named, and logins are kept in a file."""
        kept = {name: value for name, value in self.env.items() if "TOKEN" not in name}
        return replace(self, env={**kept, "OSMOSIS_TOKEN_STORE": "file", **env})

    def at(self, cwd: Path) -> Vendor:
        return replace(self, cwd=cwd)

    def wait_for_dataset(self, name: str) -> dict[str, Any]:
        deadline = time.monotonic() + DATASET_LIMIT_S
        while True:
            shown = self("dataset", "info", name)["data"]
            if shown["status"] not in ("uploading", "processing"):
                assert shown["status"] == "uploaded", self("dataset", "logs", name)
                return shown
            assert time.monotonic() < deadline, shown
            time.sleep(POLL_S)

    def api(self, path: str, body: bytes | None = None) -> dict[str, Any]:
        """A look at the server that costs no process."""
        token = self.env["OSMOSIS_TOKEN"]
        headers = {"Authorization": f"Bearer {token}", "X-Osmosis-Workspace": "vendors"}
        return http_json(self.lab.url + path, headers=headers, body=body)

    def wait_for_run(self, name: str) -> dict[str, Any]:
        """What ``eval info`` shows of the run once it has ended."""
        deadline = time.monotonic() + RUN_LIMIT_S
        while True:
            detail = self.api(f"/api/cli/eval-runs/{name}")
            if detail["eval_run"]["status"] not in ("pending", "running"):
                return self("eval", "info", name)["data"]
            assert time.monotonic() < deadline, detail
            time.sleep(POLL_S)
