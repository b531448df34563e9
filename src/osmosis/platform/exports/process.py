"""``python -m osmosis.platform.exports.process``: the job that writes an export.

JSON in on stdin, JSON out on stdout. The file appears under its name when it is whole, so a second
run after a crash starts over and nobody fetches half of one.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine, event
from sqlalchemy.engine import make_url

from osmosis.platform.exports.archives import write_atif
from osmosis.platform.exports.html_report import write_html
from osmosis.platform.exports.inspect_log import write_log
from osmosis.platform.exports.junit import write_report
from osmosis.platform.exports.parquet import write_parquet
from osmosis.platform.exports.stored import StoredRun, stored_run
from osmosis.platform.exports.tables import write_csv, write_jsonl

WRITERS: dict[str, Callable[[StoredRun, Path], None]] = {
    "jsonl": write_jsonl,
    "csv": write_csv,
    "parquet": write_parquet,
    "atif": write_atif,
    "inspect": write_log,
    "junit": write_report,
    "html": write_html,
}
BUSY_TIMEOUT_MS = 30_000


def main() -> None:
    json.dump(export(json.load(sys.stdin)), sys.stdout)


def export(request: dict[str, Any]) -> dict[str, Any]:
    """Write the file that the request asks for."""
    path = Path(request["path"])
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    url = make_url(request["database"])
    engine = create_engine(url.set(drivername=url.get_backend_name()))
    if url.get_backend_name() == "sqlite":
        event.listen(engine, "connect", _read_only)
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with engine.connect() as connection:
            run = stored_run(request, connection)
            WRITERS[request["format"]](run, temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
        engine.dispose()
    return {"samples": run.samples_read, "bytes": path.stat().st_size}


def _read_only(connection: Any, _record: Any) -> None:
    connection.execute("PRAGMA query_only=ON")
    connection.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")


if __name__ == "__main__":
    main()
