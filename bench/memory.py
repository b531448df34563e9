"""Does memory stay flat over a hundred thousand rows?"""

from __future__ import annotations

import time

from bench.job import Job, write_config, write_rows
from bench.parts import rss_by_part
from bench.report import report
from lab.workspace import TERMINAL, Workspace

ROWS = 100_000
WARM_ROWS = 10_000
IN_FLIGHT = 64
LIMIT_S = 3600.0
LOOK_EVERY_S = 1.0
MIB = 2**20


def rss_growth(workspace: Workspace) -> None:
    """Prints by how much each part grew from its ten-thousandth row to its last."""
    lab = workspace.lab
    assert lab.server is not None
    write_rows(workspace.directory / "data" / "long.jsonl", ROWS)
    workspace.upload("data/long.jsonl")
    config = write_config(workspace, Job(ROWS, 0.0, IN_FLIGHT), dataset="long")
    run = workspace.submit(config)
    deadline = time.monotonic() + LIMIT_S
    warm: dict[str, float] = {}
    most: dict[str, float] = {}
    while time.monotonic() < deadline:
        detail = workspace.api(f"/api/cli/eval-runs/{run}")
        if detail["eval_run"]["status"] in TERMINAL:
            break
        if detail["results"]["total_runs"] >= WARM_ROWS:
            now = rss_by_part(lab.server.pid)
            warm = warm or now
            most = {part: max(now[part], most.get(part, 0.0)) for part in now}
        time.sleep(LOOK_EVERY_S)
    info = workspace.wait(run, limit_s=60)
    for part in ("server", "worker", "shard", "rollout"):
        report(
            "rss_growth_mib",
            (most[part] - warm[part]) / MIB,
            "MiB",
            part=part,
            warm_mib=round(warm[part] / MIB, 1),
            rows=ROWS,
            passed=info["results"]["passed"],
        )
