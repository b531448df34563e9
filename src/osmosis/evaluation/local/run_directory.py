"""The directory of a local run (rollout-protocol.md §8), locked by whoever works in it."""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import shutil
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from osmosis.wire.errors import Conflict, ValidationFailed

RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}")
LOCKS = ".locks"
KEPT_CALLS = "model_calls.jsonl.gz"
"""In a trial's folder: requests and answers of its model calls, for a replay."""


@dataclass(frozen=True)
class RunDirectory:
    """Where everything of one local run is."""

    root: Path
    name: str

    @property
    def path(self) -> Path:
        return self.root / self.name

    @property
    def manifest(self) -> Path:
        return self.path / "manifest.json"

    @property
    def journal(self) -> Path:
        return self.path / "events.jsonl"

    @property
    def spending(self) -> Path:
        """What the model calls of all invocations used, for the budgets."""
        return self.path / "spending.json"

    @property
    def logs(self) -> Path:
        return self.path / "logs.txt"

    @property
    def trials(self) -> Path:
        return self.path / "rollout_trials"

    @property
    def work(self) -> Path:
        """Scratch of the running evaluation; gone once it has ended."""
        return self.path / ".work"

    def trial(self, rollout_id: str) -> Path:
        return self.trials / rollout_id

    def read_manifest(self) -> dict[str, Any] | None:
        """The manifest; None when this run has never begun."""
        return read_json(self.manifest)

    def completed_at(self) -> str | None:
        """When the run was complete, as its metrics say."""
        metrics = read_json(self.path / "metrics.json") or {}
        return metrics.get("eval_run", {}).get("completed_at")

    @contextmanager
    def locked(self) -> Generator[None]:
        """Hold the run for this process alone."""
        folder = self.root / LOCKS
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / f"{self.name}.lock").open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Conflict(
                    f"Another process is working on the local run '{self.name}'.",
                    hint="Wait for it to end, or choose another --name.",
                ) from None
            yield

    def archive(self) -> Path | None:
        """Move an earlier run of this name out of the way; returns where it went."""
        if not self.path.exists():
            return None
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        target = self.root / f"{self.name}.archive-{stamp}"
        number = 1
        while target.exists():
            target = self.root / f"{self.name}.archive-{stamp}-{number}"
            number += 1
        self.path.rename(target)
        return target

    def clear_work(self) -> None:
        shutil.rmtree(self.work, ignore_errors=True)


def check_run_name(name: str) -> str:
    """``name``, when it can be a run's; also a part of a path."""
    if not RUN_NAME.fullmatch(name):
        raise ValidationFailed(
            f"'{name}' cannot be the name of a run: up to 96 letters, digits, '.', '_' and '-', "
            "a letter or digit first.",
            field="name",
        )
    return name


def new_run_name(config: Path) -> str:
    """``<config>-<UTC time>-<8 hex>``."""
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", config.stem).strip("-._") or "run"
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    return f"{stem[:60]}-{stamp}-{secrets.token_hex(4)}"


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file whole or not at all."""
    write_bytes(path, orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))


def write_bytes(path: Path, content: bytes) -> None:
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def read_json(path: Path) -> dict[str, Any] | None:
    """The JSON object in ``path``; None when there is no such file."""
    try:
        value = orjson.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except orjson.JSONDecodeError as error:
        raise Conflict(f"{path} is damaged: {error}.", hint="Start over with --fresh.") from None
    if not isinstance(value, dict):
        raise Conflict(f"{path} is damaged: not a JSON object.", hint="Start over with --fresh.")
    return value
