"""The published `osmosis-ai` command, unchanged, does its main job on our server."""

from __future__ import annotations

import pytest

from lab.workspace import Workspace
from tests.interop.vendor import Vendor

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]


def test_the_vendors_command_evaluates_a_rollout_on_the_vendors_sdk(
    vendor: Vendor, workspace: Workspace, sums: str
) -> None:
    who = vendor("auth", "whoami")["data"]
    assert who["workspace"]["name"] == "vendors" and who["workspace"]["role"] == "owner"
    vendor("secret", "set", "SOME_KEY", "--env", "VALUE", VALUE="not so secret")
    rollouts = [item["name"] for item in vendor("rollout", "list")["items"]]
    assert "vendor-multiply" in rollouts

    submitted = vendor("eval", "submit", "configs/eval/main.toml", "--yes")
    run = submitted["resource"]["name"]
    assert submitted["resource"]["status"] == "pending"
    info = vendor.wait_for_run(run)
    assert info["eval_run"]["status"] == "finished", workspace.osmosis("eval", "logs", run).stdout
    assert info["dataset"]["name"] == sums
    assert info["results"]["total_runs"] == 4
    assert info["resolved_secret_scopes"] == {"SOME_KEY": "user"}
    assert info["metrics_available"] is True
    assert info["metrics"]["summary"]["graded"] == 4, info["metrics"]
    assert run in [item["name"] for item in vendor("eval", "list")["items"]]


def test_our_own_command_works_in_the_same_directory(vendor: Vendor, workspace: Workspace) -> None:
    shown = workspace.json("rollout", "list")
    assert shown["git"] == vendor("rollout", "list")["git"]
    remote = workspace.lab.run(["git", "-C", workspace.directory, "fetch"])
    assert remote.stderr == ""
