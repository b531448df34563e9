"""The worker's machine has another idea of the time: no lease is lost, and every moment fits."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from lab.mock_model import mock_model
from lab.platform import Lab
from lab.ports import free_port
from lab.workspace import Workspace
from tests.chaos.kills import (
    NARROW,
    assert_every_call_accounted,
    assert_every_sample_once,
    chaos_workspace,
)
from tests.chaos.own_worker import own_worker

SKEWED_CLOCK = """
import os, sys, time
real = time.time
time.time = lambda: real() + float(os.environ["SKEWED_BY_S"])
with open(os.environ["SKEWED_LOG"], "a") as log:
    log.write(" ".join(sys.orig_argv) + "\\n")
"""
"""A ``sitecustomize`` for every process of the worker, before any of our code is imported."""

SLACK_S = 3.0
"""The worker follows the platform's clock as closely as it can tell."""


@pytest.mark.timeout(240)
@pytest.mark.parametrize("skewed_by_s", [-3600, 3600])
def test_a_worker_whose_clock_is_wrong_by_an_hour_runs_as_any_other(
    tmp_path: Path, environments: Path, skewed_by_s: int
) -> None:
    (tmp_path / "clock").mkdir()
    (tmp_path / "clock" / "sitecustomize.py").write_text(SKEWED_CLOCK)
    with (
        mock_model(free_port(), 50.0) as model,
        Lab(tmp_path, extra_env={"OSMOSIS_EMBEDDED_WORKER": "false"}) as lab,
    ):
        workspace = chaos_workspace(lab, model, environments)
        skewed = {
            "PYTHONPATH": str(tmp_path / "clock"),
            "SKEWED_BY_S": str(skewed_by_s),
            "SKEWED_LOG": str(tmp_path / "skewed"),
        }
        with own_worker(lab, lab.url, skewed):
            run = workspace.start(NARROW.config)
            info = workspace.wait(run, limit_s=180)
        assert_every_sample_once(workspace, info)
        assert_every_call_accounted(workspace, run, model)
        assert not info["results"].get("lost_calls")
        assert_moments_fit(workspace, info)
    assert "osmosis.worker" in (tmp_path / "skewed").read_text()


def assert_moments_fit(workspace: Workspace, info: dict[str, Any]) -> None:
    """Samples and log entries lie between submit and end of the run, in the platform's time."""
    run = info["eval_run"]
    began, ended = seconds(run["created_at"]), seconds(run["completed_at"])
    samples = workspace.api(f"/api/cli/eval-runs/{run['id']}/samples?limit=50")["samples"]
    logs = workspace.api(f"/api/cli/eval-runs/{run['id']}/logs?limit=200")["logs"]
    moments = [seconds(one[key]) for one in samples for key in one if key.endswith("_at")]
    moments += [seconds(entry["timestamp"]) for entry in logs]
    assert moments
    assert all(began - SLACK_S <= moment <= ended + SLACK_S for moment in moments)


def seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
