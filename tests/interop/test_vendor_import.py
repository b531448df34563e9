"""A local run of the published `osmosis-ai` command becomes a run of our platform."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import uv

from lab.mock_model import mock_model
from lab.ports import free_port
from lab.workspace import Workspace
from osmosis.evaluation.package_index import index_variables
from tests.e2e.configs import eval_config
from tests.interop.vendor import Vendor

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

CONFIG = "configs/eval/theirs.toml"


@pytest.fixture(scope="module")
def runner(
    vendor: Vendor,
    vendor_python: Path,
    workspace: Workspace,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Vendor]:
    """The vendor's command with its engine, a model, and the way to the package index."""
    directory = tmp_path_factory.mktemp("vendor-eval") / "venv"
    python = vendor_python / "python"
    install = [uv.find_uv_bin(), "--quiet"]
    quiet = {**os.environ, "VIRTUAL_ENV": str(directory)}
    subprocess.run([*install, "venv", "--python", str(python), str(directory)], check=True)
    subprocess.run([*install, "pip", "install", "osmosis-ai[eval]==0.3.8"], check=True, env=quiet)
    cache = subprocess.run([uv.find_uv_bin(), "cache", "dir"], capture_output=True, check=True)
    with mock_model(free_port(), 5) as url:
        workspace.write(
            CONFIG,
            eval_config(
                "vendor-multiply",
                dataset="sums",
                model="openai/mock",
                secrets=["OPENAI_API_KEY"],
                limit=4,
                n=2,
                batch_size=4,
            ),
        )
        env = {
            **vendor.env,
            **index_variables(),
            "UV_CACHE_DIR": cache.stdout.decode().strip(),
            "UV_PYTHON": str(python),
            "UV_PYTHON_DOWNLOADS": "never",
            "OPENAI_API_KEY": "sk-of-nobody",
            "OPENAI_BASE_URL": f"{url}/v1",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        }
        yield replace(vendor, command=directory / "bin" / "osmosis", env=env)


def test_a_run_of_the_vendors_engine_is_imported_by_the_vendors_command_and_by_ours(
    runner: Vendor, workspace: Workspace
) -> None:
    runner("eval", "run", CONFIG, "--name", "theirs", "--dataset-file", "data/sums.jsonl", "-y")
    imported = runner("eval", "upload", "theirs")["resource"]
    assert imported["status"] == "finalized"
    assert imported["uploaded_files"] == imported["expected_files"]
    again = runner("eval", "upload", "theirs")["resource"]
    assert again["eval_run_id"] == imported["eval_run_id"]

    shown = workspace.api(f"/api/cli/eval-runs/{imported['eval_run_name']}")
    assert shown["eval_run"]["origin"] == "local"
    assert shown["results"]["graded"] == 8
    ours = workspace.json("eval", "upload", ".osmosis/evals/theirs")["resource"]
    assert ours["eval_run_id"] == imported["eval_run_id"]
    info = runner("eval", "info", imported["eval_run_name"])["data"]
    assert info["eval_run"]["status"] == "finished"
    assert info["metrics"]["summary"]["total_samples"] == 8
