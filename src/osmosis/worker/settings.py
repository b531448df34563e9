"""What a worker is told: by its environment, and the token by a file or its first line of stdin."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, Field

from osmosis.wire.errors import ValidationFailed

DEFAULT_DIRECTORY = "~/.osmosis/worker"
DEFAULT_SLOTS, MAX_SLOTS = 4, 256
MAX_SHARDS = 64


class WorkerSettings(BaseModel):
    """Each field's ``description`` names the variable it comes from."""

    url: str = Field(description="OSMOSIS_WORKER_URL: address of the platform.")
    token_file: Path | None = Field(
        None, description="OSMOSIS_WORKER_TOKEN_FILE: file with the worker token; else stdin."
    )
    slots: int = Field(
        DEFAULT_SLOTS,
        ge=1,
        le=MAX_SLOTS,
        description="OSMOSIS_WORKER_SLOTS: runs executed at once.",
    )
    max_shards: int | None = Field(
        None,
        ge=1,
        le=MAX_SHARDS,
        description="OSMOSIS_WORKER_MAX_SHARDS: processes that one run may be split over; else as "
        "many as there are processors.",
    )
    directory: Path = Field(
        description="OSMOSIS_WORKER_DIR: scratch space and caches; else OSMOSIS_DATA_DIR, "
        "else ~/.osmosis/worker."
    )

    @property
    def work_dir(self) -> Path:
        return self.directory / "work"

    @property
    def ledger_dir(self) -> Path:
        """Counts of model calls, which outlive the shards and workers that keep them."""
        return self.directory / "ledgers"

    def cache_dir(self, workspace_id: str) -> Path:
        """Built environments of one workspace; never shared between workspaces."""
        return self.directory / "cache" / workspace_id

    def read_token(self) -> str:
        """The token, read anew: it may have been renewed since."""
        if self.token_file is not None:
            return self.token_file.read_text(encoding="utf-8").strip()
        return _token_from_stdin()


def load_settings(environ: Mapping[str, str] = os.environ) -> WorkerSettings:
    """Raises ValidationFailed naming the variable that is missing or wrong."""
    url = environ.get("OSMOSIS_WORKER_URL", "")
    if not url.startswith(("http://", "https://")):
        raise ValidationFailed(
            "OSMOSIS_WORKER_URL is not set to the address of a platform.",
            hint="Set it to the address that `osmosis server start` prints.",
        )
    directory = (
        environ.get("OSMOSIS_WORKER_DIR") or environ.get("OSMOSIS_DATA_DIR") or DEFAULT_DIRECTORY
    )
    token_file = environ.get("OSMOSIS_WORKER_TOKEN_FILE")
    return WorkerSettings(
        url=url,
        token_file=Path(token_file) if token_file else None,
        slots=_whole_number(environ, "OSMOSIS_WORKER_SLOTS", MAX_SLOTS) or DEFAULT_SLOTS,
        max_shards=_whole_number(environ, "OSMOSIS_WORKER_MAX_SHARDS", MAX_SHARDS),
        directory=Path(directory).expanduser().absolute(),
    )


def _whole_number(environ: Mapping[str, str], name: str, most: int) -> int | None:
    """The variable's value, from 1 to ``most``; None when it is not set."""
    text = environ.get(name)
    if not text:
        return None
    if not (text.isdecimal() and 1 <= int(text) <= most):
        raise ValidationFailed(f"{name} is '{text}', not a whole number from 1 to {most}.")
    return int(text)


_stdin_token: list[str] = []


def _token_from_stdin() -> str:
    if not _stdin_token:
        _stdin_token.append(sys.stdin.readline().strip())
    return _stdin_token[0]
