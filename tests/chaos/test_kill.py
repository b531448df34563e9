"""kill -9 of any process loses nothing acknowledged and counts nothing twice."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.mock_model import mock_model
from lab.platform import Lab
from lab.ports import free_port
from lab.processes import find
from lab.workspace import Workspace
from tests.chaos.kills import (
    CONFIG,
    ROWS,
    assert_every_sample_once,
    assert_no_orphans,
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
def workspace(lab: Lab) -> Iterator[Workspace]:
    with mock_model(free_port(), LATENCY_MS) as model:
        made = lab.workspace("chaos")
        made.osmosis("model", "endpoint", "add", "mock", "--base-url", f"{model}/v1")
        rows = [
            {"user_prompt": f"What is {i} x {i + 1}?", "ground_truth": str(i * (i + 1))}
            for i in range(1, ROWS + 1)
        ]
        path: Path = made.write("data/chaos.jsonl", "".join(json.dumps(r) + "\n" for r in rows))
        made.write("configs/eval/chaos.toml", CONFIG.replace('"multiply"\n\n', '"chaos"\n\n'))
        made.upload(path)
        yield made


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", ["shard", "rollout", "worker"])
def test_a_killed_process_costs_nothing_acknowledged(workspace: Workspace, kind: str) -> None:
    lab = workspace.lab
    run = workspace.submit("configs/eval/chaos.toml")
    victims: set[int] = set()

    def kill() -> None:
        victims.update(processes(lab, "shard"), processes(lab, "rollout"))
        kill_all(lab, kind)

    moments = kill_at_seeded_moments(workspace, run, kill, seed=len(kind))
    info = workspace.wait(run, limit_s=180)
    assert all(0 < done < ROWS for done in moments)
    assert_every_sample_once(workspace, info)
    assert_no_orphans(lab, victims - set(processes(lab, "shard")))


@pytest.mark.timeout(300)
def test_a_killed_server_goes_on_after_its_start(workspace: Workspace) -> None:
    lab = workspace.lab
    run = workspace.submit("configs/eval/chaos.toml")
    victims: set[int] = set()

    def kill() -> None:
        assert lab.server is not None
        victims.update(find(lab.server.pid, "osmosis.worker"), processes(lab, "rollout"))
        lab.kill_server()
        lab.start()

    kill_at_seeded_moments(workspace, run, kill, seed=7)
    info = workspace.wait(run, limit_s=180)
    assert_every_sample_once(workspace, info)
    assert_no_orphans(lab, victims)
