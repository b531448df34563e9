"""The long form: ``make chaos ARGS="--kills 50 --seed 7"``.

Kills shards, rollouts, workers and servers, and freezes workers for longer than their lease, at
random moments of one run after the other, of one shard or of several; checks each run when it has
ended. The seed is printed,
and the same seed chooses the same victims.
"""

from __future__ import annotations

import argparse
import os
import random
import secrets
import signal
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from lab.mock_model import mock_model
from lab.platform import Lab
from lab.ports import free_port, http_json
from lab.processes import tree
from lab.workspace import Workspace
from tests.chaos.kills import (
    MOMENTS,
    NARROW,
    WIDE,
    assert_every_call_accounted,
    assert_every_sample_once,
    chaos_workspace,
    kill_all,
    kill_at_seeded_moments,
    processes,
)

KINDS = ("shard", "rollout", "worker", "server", "freeze")
LATENCY_MS = 150.0
ONE_OF_SEVERAL_SHARE = 0.5
FROZEN_S = 17.0
"""Longer than a lease."""
RUN_LIMIT_S = 600.0


def strike(lab: Lab, kind: str, rng: random.Random) -> None:
    """One blow of the kind; of several shards or rollouts one is struck, or all."""
    if kind != "freeze":
        kill_all(lab, kind, only=rng if rng.random() < ONE_OF_SEVERAL_SHARE else None)
        return
    frozen = [pid for worker in processes(lab, "worker") for pid in tree(worker)]
    for number in (signal.SIGSTOP, signal.SIGCONT):
        for pid in frozen:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        if number == signal.SIGSTOP:
            time.sleep(FROZEN_S)


def one_run(workspace: Workspace, model: str, rng: random.Random) -> str:
    """MOMENTS blows at one run; raises AssertionError when something is lost. Gives their kinds."""
    http_json(f"{model}/reset", body=b"")
    job = rng.choice((NARROW, WIDE))
    run = workspace.start(job.config)
    kinds = [rng.choice(KINDS) for _ in range(MOMENTS)]
    left = iter(kinds)
    kill_at_seeded_moments(
        workspace,
        run,
        lambda: strike(workspace.lab, next(left), rng),
        seed=rng.randrange(2**32),
        job=job,
    )
    assert_every_sample_once(workspace, workspace.wait(run, limit_s=RUN_LIMIT_S), job)
    assert_every_call_accounted(workspace, run, model, job)
    return f"{job.name}: {' '.join(kinds)}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="make chaos")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(2**31))
    args = parser.parse_args()
    print(f"seed {args.seed}", flush=True)
    rng = random.Random(args.seed)
    with (
        tempfile.TemporaryDirectory(prefix="chaos-") as directory,
        mock_model(free_port(), LATENCY_MS) as model,
        Lab(Path(directory)) as lab,
    ):
        workspace = chaos_workspace(lab, model)
        for done in range(0, args.kills, MOMENTS):
            kinds = one_run(workspace, model, rng)
            print(f"{done + MOMENTS} of {args.kills}: {kinds}: nothing lost", flush=True)


if __name__ == "__main__":
    main()
