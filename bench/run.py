"""One measured evaluation: its span, its CPU by part, its first call."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import datetime

from bench.job import Job
from bench.parts import cpu_by_part
from lab.ports import http_json
from lab.processes import cpu_s
from lab.workspace import Workspace

LIMIT_S = 1800.0


@dataclass(frozen=True)
class Measured:
    """Seconds, and milliseconds of CPU for each row."""

    dispatch_ratio: float
    cpu_ms_per_row: float
    submit_to_first_row_call_s: float
    submit_to_finished_s: float
    upstream_hits_per_row: float
    parts_ms_per_row: dict[str, float] = field(default_factory=dict[str, float])


class WrongResult(AssertionError):
    """The run ended, but not as it should: its figures would be worth nothing."""


def measure(workspace: Workspace, config: str, model: str, job: Job) -> Measured:
    """Submit the config, wait for its end, and say what it took."""
    lab = workspace.lab
    assert lab.server is not None
    http_json(f"{model}/reset", body=b"{}")
    cpu_before = cpu_s(lab.server.pid)
    with cpu_by_part(lab.server.pid) as parts:
        run = workspace.submit(config)
        info = workspace.wait(run, limit_s=LIMIT_S, every_s=0.5)
        cpu = cpu_s(lab.server.pid) - cpu_before
    stats = http_json(f"{model}/stats")
    results, detail = info["results"], info["eval_run"]
    if detail["status"] != "finished" or results["passed"] != job.rows:
        raise WrongResult(f"the run did not go as it should: {json.dumps(info)[:2000]}")
    ended = datetime.fromisoformat(detail["completed_at"]).timestamp()
    created = datetime.fromisoformat(detail["created_at"]).timestamp()
    span = stats["last_row_unix"] - stats["first_row_unix"] + job.latency_s
    return Measured(
        dispatch_ratio=span / job.ideal_s,
        cpu_ms_per_row=cpu * 1000 / job.rows,
        submit_to_first_row_call_s=stats["first_row_unix"] - created,
        submit_to_finished_s=ended - created,
        upstream_hits_per_row=stats["row_requests"] / job.rows,
        parts_ms_per_row={part: seconds * 1000 / job.rows for part, seconds in parts.items()},
    )
