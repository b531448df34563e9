"""A run as a file of another format: asked for, waited for, fetched."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from osmosis.client.api import Api
from osmosis.client.downloads import fetch_one, free_target
from osmosis.wire.errors import OsmosisError

POLL_FIRST_S, POLL_MAX_S = 0.1, 2.0
GOING_ON = ("pending", "running")


def export_run(
    api: Api,
    ref: str,
    format: str,
    to: Path | None,
    *,
    overwrite: bool,
) -> tuple[dict[str, Any], Path]:
    """Have a run exported and fetch the file to ``to``: a path, or a directory.

    Gives the export as the platform describes it, and where the file is.
    """
    export = api.create_export(ref, format)
    target = free_target(to, str(export["file_name"]), overwrite=overwrite)
    pause_s = POLL_FIRST_S
    while export["status"] in GOING_ON:
        time.sleep(pause_s)
        pause_s = min(pause_s * 1.5, POLL_MAX_S)
        export = api.export(ref, str(export["id"]))
    if export["status"] != "done":
        raise OsmosisError(f"The export failed: {export.get('error') or 'no reason was given'}")
    fetch_one(str(export["url"]), target, None, progress=lambda _: None, wait=time.sleep)
    return export, target
