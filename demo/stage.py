"""The demo's own platform, workspace and commands, all below one scratch directory."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from demo.show import command
from lab.platform import OSMOSIS, Lab
from lab.ports import http_json

DATASET_LIMIT_S = 60.0


class Stage(Lab):
    """A lab whose commands are run before the reader's eyes."""

    def __init__(self, scratch: Path) -> None:
        super().__init__(scratch)
        self.workspace_dir = scratch / "workspace"
        self.env["PATH"] = f"{OSMOSIS.parent}{os.pathsep}{os.environ['PATH']}"
        self.env.pop("COLUMNS")

    def show(self, *words: str, quiet: bool = False) -> None:
        """Run a command with its output in the terminal; raises CalledProcessError."""
        if not quiet:
            command(list(words))
        sys.stdout.flush()
        cwd = self.workspace_dir if self.workspace_dir.is_dir() else self.directory
        subprocess.run(list(words), cwd=cwd, env=self.env, check=True)

    def command(self, *words: str) -> None:
        self.show("osmosis", *words)

    def read(self, *words: str) -> dict[str, Any]:
        return self.json(*words, cwd=self.workspace_dir)

    def wait_for_dataset(self, name: str) -> None:
        deadline = time.monotonic() + DATASET_LIMIT_S
        while time.monotonic() < deadline:
            if self.read("dataset", "info", name)["data"]["status"] == "uploaded":
                return
            time.sleep(0.1)
        sys.exit(f"The dataset {name} did not become ready within {DATASET_LIMIT_S:.0f} s.")

    def one_passing_one_failing(self, run: str) -> Iterator[tuple[str, dict[str, Any]]]:
        samples = self._api(f"/api/cli/eval-runs/{run}/samples?limit=50")["samples"]
        for title, wanted in (("passed", True), ("did not pass", False)):
            for sample in samples:
                if ((sample.get("reward") or 0) >= 1) is wanted:
                    row, index = sample["row_index"], sample["run_index"]
                    whole = self._api(f"/api/cli/eval-runs/{run}/samples/{row}/{index}")
                    yield f"row {row}: {title}", whole
                    break

    def login_link(self) -> str:
        return str(self._api("/api/cli/login-links", b"{}")["url"])

    def _api(self, path: str, body: bytes | None = None) -> dict[str, Any]:
        headers = {
            "Authorization": f"Bearer {(self.data / 'local-token').read_text().strip()}",
            "X-Osmosis-Git": self.read("rollout", "list")["git"]["identity"],
            "Content-Type": "application/json",
        }
        return http_json(self.url + path, headers=headers, body=body)
