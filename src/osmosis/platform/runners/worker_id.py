"""What the id of a worker tells: ``HOST-PID-RANDOM``."""

from __future__ import annotations

import platform as machine
import re

from osmosis.processes import process_start_time

WORKER_ID = re.compile(r"(?P<host>.+)-(?P<pid>[0-9]{1,9})-[^-]+")


def is_dead(worker_id: str) -> bool:
    """Whether the worker ran on this machine and its process is gone."""
    match = WORKER_ID.fullmatch(worker_id)
    if match is None or match["host"] != machine.node():
        return False
    return process_start_time(int(match["pid"])) is None
