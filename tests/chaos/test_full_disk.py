"""A data directory that runs full in the middle of a run: the run waits, and goes on with room."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.mock_model import mock_model
from lab.platform import Lab
from lab.ports import free_port, http_json
from tests.chaos.kills import NARROW, assert_every_sample_once, chaos_workspace, completed

SIZE = "1g"
CHUNK = bytes(1 << 20)
ROOM_FOR_A_RUN = 64 << 20
NOTICED_WITHIN_S = 60.0


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "data"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(place)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small disk needs root")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def fill_up_to(path: Path, free: int) -> None:
    """Take what is left but for ``free`` bytes; in the middle of a run there is no time for it."""
    with path.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, shutil.disk_usage(path.parent).free - free)


def fill(path: Path) -> None:
    """Take every byte that is left."""
    with path.open("wb", buffering=0) as file:
        try:
            while file.write(CHUNK) == len(CHUNK):
                pass
            while file.write(b"x"):
                pass
        except OSError:
            return


@pytest.mark.timeout(240)
def test_a_full_disk_makes_the_run_wait_and_loses_nothing(
    small_disk: Path, tmp_path: Path, environments: Path
) -> None:
    with mock_model(free_port(), 150.0) as model, Lab(tmp_path) as lab:
        workspace = chaos_workspace(lab, model, environments)
        fill_up_to(small_disk / "much", ROOM_FOR_A_RUN)
        run = workspace.start(NARROW.config)
        deadline = time.monotonic() + NOTICED_WITHIN_S
        while completed(workspace, run) < 20:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        filler = small_disk / "filler"
        fill(filler)
        deadline = time.monotonic() + NOTICED_WITHIN_S
        while "problem" not in http_json(f"{lab.url}/api/health"):
            assert time.monotonic() < deadline, "the server does not say that its disk is full"
            time.sleep(0.05)
        detail = workspace.api(f"/api/cli/eval-runs/{run}")
        assert detail["eval_run"]["status"] == "running"
        assert "disk" in detail["eval_run"]["waiting_for"]
        acknowledged = completed(workspace, run)
        filler.unlink()
        info = workspace.wait(run, limit_s=120)
        assert_every_sample_once(workspace, info)
        assert info["results"]["total_runs"] > acknowledged
