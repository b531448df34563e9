"""Answers between worker and platform are cut and requests repeated: nothing is lost or doubled."""

from __future__ import annotations

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
from tests.chaos.own_worker import own_worker


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
        with own_worker(lab, proxy.url):
            run = workspace.start(NARROW.config)
            info = workspace.wait(run, limit_s=180)
            assert_every_sample_once(workspace, info)
            assert_every_call_accounted(workspace, run, model)
        assert proxy.cut > 3 and proxy.repeated > 3
