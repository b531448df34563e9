"""Answers between worker and platform are cut and requests repeated: nothing is lost or doubled."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lab.cutting_proxy import CuttingProxy
from lab.mock_model import mock_model
from lab.platform import Lab
from lab.ports import free_port
from tests.chaos.kills import (
    NARROW,
    assert_every_call_accounted,
    assert_every_sample_once,
    chaos_workspace,
)


@pytest.mark.timeout(240)
def test_cut_answers_and_repeated_requests_lose_and_double_nothing(
    tmp_path: Path, environments: Path
) -> None:
    with (
        mock_model(free_port(), 200.0) as model,
        Lab(tmp_path, extra_env={"OSMOSIS_EMBEDDED_WORKER": "false"}) as lab,
        CuttingProxy(lab.url, seed=5) as proxy,
    ):
        workspace = chaos_workspace(lab, model, environments)
        worker = subprocess.Popen(
            [sys.executable, "-m", "osmosis.worker"],
            env={
                **lab.env,
                "PATH": os.environ["PATH"],
                "OSMOSIS_WORKER_URL": proxy.url,
                "OSMOSIS_WORKER_TOKEN_FILE": str(lab.data / "worker-token"),
                "OSMOSIS_WORKER_DIR": str(lab.data),
            },
            stderr=subprocess.DEVNULL,
        )
        try:
            run = workspace.start(NARROW.config)
            info = workspace.wait(run, limit_s=180)
            assert_every_sample_once(workspace, info)
            assert_every_call_accounted(workspace, run, model)
        finally:
            worker.terminate()
            worker.wait(30)
        assert proxy.cut > 3 and proxy.repeated > 3
