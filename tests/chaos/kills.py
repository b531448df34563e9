"""Killing one kind of process at seeded moments of a run, and what must hold after."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.platform import Lab
from lab.ports import http_json
from lab.processes import find, is_alive
from lab.workspace import Workspace
from tests.e2e.configs import eval_config

MOMENTS = 5
MOMENT_LIMIT_S = 60.0
"""How long a run may stand still, and a process be missing."""
REPORT_LIMIT_S = 15.0
MOST_UNACKNOWLEDGED = 64
"""Calls that a kill may cost beside those of samples in flight: a batch on its way."""


@dataclass(frozen=True)
class Job:
    """A run to strike at: so many rows, and so many in flight at once."""

    name: str
    rows: int
    batch_size: int
    in_flight: int

    @property
    def config(self) -> str:
        return f"configs/eval/{self.name}.toml"


NARROW = Job("chaos", rows=200, batch_size=8, in_flight=8)
WIDE = Job("chaos-wide", rows=600, batch_size=512, in_flight=64)
"""Two shards, where there are two processors; the rollout takes 64 samples at once."""

PATTERNS: dict[str, tuple[str, ...]] = {
    "worker": ("osmosis.worker",),
    "shard": ("osmosis.worker.shard",),
    "rollout": ("main.py",),
}


def chaos_workspace(lab: Lab, model: str, environments: Path | None = None) -> Workspace:
    """A workspace with the configs of both jobs: questions to ``model``."""
    made = lab.workspace("chaos", environments=environments)
    made.osmosis("model", "endpoint", "add", "mock", "--base-url", f"{model}/v1")
    rows = [
        {"user_prompt": f"What is {i} x {i + 1}?", "ground_truth": str(i * (i + 1))}
        for i in range(1, WIDE.rows + 1)
    ]
    path = made.write("data/chaos.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    for job in (NARROW, WIDE):
        config = eval_config(
            model="mock", dataset="chaos", limit=job.rows, batch_size=job.batch_size
        )
        made.write(job.config, config)
    made.upload(path)
    return made


def processes(lab: Lab, kind: str) -> list[int]:
    """The processes of one kind below the server. A spare shard is no target: it holds no run."""
    assert lab.server is not None
    found = find(lab.server.pid, *PATTERNS[kind])
    if kind == "worker":
        shards = set(find(lab.server.pid, *PATTERNS["shard"]))
        found = [pid for pid in found if pid not in shards]
    if kind == "shard":
        busy = {pid for pid in found if find(pid, *PATTERNS["rollout"])}
        found = [pid for pid in found if pid in busy]
    return found


def completed(workspace: Workspace, run: str) -> int:
    """Samples that have a record; AssertionError when the run has failed."""
    detail = workspace.api(f"/api/cli/eval-runs/{run}")
    assert detail["eval_run"]["status"] != "failed", detail["eval_run"]
    return int((detail["results"] or {}).get("total_runs", 0))


def kill_at_seeded_moments(
    workspace: Workspace, run: str, kill: Callable[[], None], *, seed: int, job: Job = NARROW
) -> list[int]:
    """Call ``kill`` at MOMENTS seeded counts of completed samples; gives the counts seen."""
    rng = random.Random(seed)
    share = job.rows // (MOMENTS + 1)
    seen: list[int] = []
    for moment in range(MOMENTS):
        target = 1 + moment * share + rng.randrange(share)
        done, deadline = -1, 0.0
        while (now := completed(workspace, run)) < target:
            if now > done:
                done, deadline = now, time.monotonic() + MOMENT_LIMIT_S
            assert time.monotonic() < deadline, f"{done} of {target} samples: the run stands still"
            time.sleep(0.02)
        done = now
        assert done < job.rows, "the run ended before the moment came; make it slower"
        kill()
        seen.append(done)
    return seen


def kill_all(lab: Lab, kind: str, *, only: random.Random | None = None) -> None:
    """kill -9 every process of the kind, or one that ``only`` draws; a killed server is started
    again."""
    if kind == "server":
        lab.kill_server()
        lab.start()
        return
    deadline = time.monotonic() + MOMENT_LIMIT_S
    while not (found := processes(lab, kind)):
        assert time.monotonic() < deadline, f"no {kind} process to kill"
        time.sleep(0.02)
    for pid in found if only is None else [only.choice(found)]:
        with contextlib.suppress(ProcessLookupError):  # it was ending by itself
            os.kill(pid, signal.SIGKILL)


def assert_every_sample_once(workspace: Workspace, info: dict[str, Any], job: Job = NARROW) -> None:
    """rows x n samples, none twice, and sums equal to the sum of the parts."""
    assert info["eval_run"]["status"] == "finished", info["eval_run"]
    run = info["eval_run"]["id"]
    samples: list[dict[str, Any]] = []
    cursor = ""
    while True:
        page = workspace.api(f"/api/cli/eval-runs/{run}/samples?limit=50{cursor}")
        samples += page["samples"]
        if not page["next_cursor"]:
            break
        cursor = f"&cursor={page['next_cursor']}"
    pairs = [(sample["row_index"], sample["run_index"]) for sample in samples]
    assert sorted(pairs) == [(row, 0) for row in range(job.rows)]
    results = info["results"]
    assert results["total_runs"] == job.rows
    assert results["passed"] == sum(sample["reward"] == 1.0 for sample in samples)
    assert results["failed"] == sum(sample["status"] == "failed" for sample in samples)
    assert results["total_tokens"] == sum(sample["tokens"] or 0 for sample in samples)


def assert_every_call_accounted(
    workspace: Workspace, run: str, model: str, job: Job = NARROW
) -> None:
    """No row asked twice, but for calls that were in flight at a kill; and those are reported."""
    deadline = time.monotonic() + REPORT_LIMIT_S
    while True:
        asked = http_json(f"{model}/stats")["row_requests"]
        results = workspace.api(f"/api/cli/eval-runs/{run}")["results"]
        lost = results.get("lost_calls", 0)
        if asked <= job.rows + lost:
            most = MOMENTS * (job.in_flight + MOST_UNACKNOWLEDGED)
            assert lost <= most, "far more reported than can be in flight"
            return
        assert time.monotonic() < deadline, f"{asked} calls for {job.rows} rows, {lost} reported"
        time.sleep(0.1)


def assert_no_orphans(lab: Lab, before: set[int]) -> None:
    """No shard or rollout process is left once the run has ended."""
    assert lab.server is not None
    deadline = time.monotonic() + 15
    while True:
        left = [pid for pid in before if is_alive(pid)]
        left += processes(lab, "rollout")
        if not left:
            return
        assert time.monotonic() < deadline, f"processes left behind: {left}"
        time.sleep(0.1)
