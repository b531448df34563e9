"""Sending a finished local run to the platform (platform-api.md §3.5); may be repeated."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from osmosis.client.http import Connection
from osmosis.client.uploads import repeat, send_file
from osmosis.wire.errors import OsmosisError

ROOT = "/api/cli/eval-runs/imports"
BATCH = 100
START_TIMEOUT_S = 120.0
FINALIZE_TIMEOUT_S = 600.0


@dataclass(frozen=True)
class LocalFile:
    """A file of a local run under the path that the platform knows it by."""

    path: str
    source: Path
    size: int
    sha256: str

    def declared(self) -> dict[str, Any]:
        return {"path": self.path, "size": self.size, "sha256": self.sha256}


def import_run(
    api: Connection,
    declaration: Mapping[str, Any],
    files: list[LocalFile],
    *,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> dict[str, Any]:
    """Start or go on with an import, send what is missing, finish it; gives its final state."""
    body = {**declaration, "files": [file.declared() for file in files]}
    state = repeat(lambda: api.call("POST", ROOT, body=body, timeout_s=START_TIMEOUT_S))
    session = f"{ROOT}/{state['session_id']}"
    by_path = {file.path: file for file in files}
    if state.get("status") != "finalized":
        for start in range(0, len(files), BATCH):
            _send(api, session, files[start : start + BATCH], by_path)
            progress(min(start + BATCH, len(files)), len(files))
    final = repeat(
        lambda: api.call("POST", f"{session}/finalize", body={}, timeout_s=FINALIZE_TIMEOUT_S)
    )
    if final.get("status") != "finalized" or not final.get("eval_run_name"):
        raise OsmosisError("The platform did not finish the import.")
    return final


def _send(
    api: Connection, session: str, batch: list[LocalFile], by_path: Mapping[str, LocalFile]
) -> None:
    paths = [file.path for file in batch]
    answer = repeat(lambda: api.call("POST", f"{session}/uploads", body={"paths": paths}))
    for wanted in answer.get("files") or []:
        file = by_path.get(str(wanted.get("path")))
        if file is None or file.path not in paths or wanted.get("sha256") != file.sha256:
            raise OsmosisError(f"The platform asks for the unknown file '{wanted.get('path')}'.")
        parts = send_file(file.source, wanted["upload"])
        body: dict[str, Any] = {"path": file.path}
        if parts:
            body["parts"] = [
                {"part_number": part["PartNumber"], "etag": part["ETag"]} for part in parts
            ]
        _complete(api, session, body)


def _complete(api: Connection, session: str, body: Mapping[str, Any]) -> None:
    repeat(lambda: api.call("POST", f"{session}/uploads/complete", body=body))
