"""kill -9 of any process loses nothing acknowledged and counts nothing twice."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.mock_model import mock_model
from lab.platform import Lab
from lab.ports import free_port, http_json
from lab.workspace import Workspace
from osmosis.worker.usable_cores import usable_cores
from tests.chaos.kills import (
    NARROW,
    WIDE,
    assert_every_call_accounted,
    assert_every_sample_once,
    assert_no_orphans,
    chaos_workspace,
    kill_all,
    kill_at_seeded_moments,
    processes,
)

LATENCY_MS = 150.0


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with Lab(tmp_path_factory.mktemp("chaos")) as running:
        yield running


@pytest.fixture(scope="module")
def model() -> Iterator[str]:
    with mock_model(free_port(), LATENCY_MS) as url:
        yield url


@pytest.fixture(scope="module")
def workspace(lab: Lab, model: str, environments: Path) -> Workspace:
    return chaos_workspace(lab, model, environments)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", ["one shard of several", "rollout", "worker", "server"])
def test_a_killed_process_costs_nothing_acknowledged(
    workspace: Workspace, model: str, kind: str
) -> None:
    http_json(f"{model}/reset", body=b"")
    job, only = (WIDE, random.Random(kind)) if kind == "one shard of several" else (NARROW, None)
    kind = kind.replace("one shard of several", "shard")
    run = workspace.start(job.config)
    victims: set[int] = set()

    def kill() -> None:
        victims.update(processes(workspace.lab, "shard"), processes(workspace.lab, "rollout"))
        kill_all(workspace.lab, kind, only=only)

    moments = kill_at_seeded_moments(workspace, run, kill, seed=len(kind), job=job)
    info = workspace.wait(run, limit_s=180)
    assert all(0 < done < job.rows for done in moments)
    assert_every_sample_once(workspace, info, job)
    assert_every_call_accounted(workspace, run, model, job)
    if only is not None:
        shards = min(2, usable_cores())
        assert info["effective"]["shards"] == shards
        shown = workspace.osmosis("eval", "info", run).stdout
        assert (f", in {shards} shards" in shown) == (shards > 1)
    assert_no_orphans(workspace.lab, victims - set(processes(workspace.lab, "shard")))
