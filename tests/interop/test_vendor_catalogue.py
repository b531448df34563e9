"""Rollouts, models and workspaces; and the features that this server does not have."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.workspace import Workspace
from tests.interop.vendor import Vendor

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]


def test_rollouts_are_listed_by_branch(vendor: Vendor, workspace: Workspace) -> None:
    head = workspace.lab.run(["git", "-C", workspace.directory, "rev-parse", "HEAD"]).stdout.strip()
    listed = vendor("rollout", "list", "--branch", "main")
    assert listed["branch"] == "main"
    (ours,) = [item for item in listed["items"] if item["name"] == "vendor-multiply"]
    assert ours["last_synced_commit_sha"] == head
    assert ours["repo_full_name"] == listed["git"]["identity"]
    error = vendor.fails("rollout", "list", "--branch", "no-such-branch")
    assert error["code"] == "NOT_FOUND" and "no-such-branch" in error["message"]


def test_named_endpoints_are_the_base_models(vendor: Vendor, workspace: Workspace) -> None:
    url = "http://127.0.0.1:9/v1"
    workspace.osmosis("model", "endpoint", "add", "tiny", "--base-url", url, "--model", "org/tiny")
    listed = vendor("model", "list")
    assert [item["model_name"] for item in listed["base_models"]["items"]] == ["tiny"]
    assert listed["lora_models"]["items"] == []
    shown = vendor("model", "info", "tiny")["data"]
    assert "tiny" in str(shown) and "lora_model" not in shown
    for name in ("no-such-model", "org/no-such-model"):
        assert vendor.fails("model", "info", name)["code"] == "NOT_FOUND"


@pytest.mark.parametrize("words", ["train list", "benchmark list"])
def test_lists_of_what_is_not_there_are_empty(vendor: Vendor, words: str) -> None:
    listed = vendor(*words.split())
    assert listed["items"] == [] and listed["total_count"] == 0


@pytest.mark.parametrize(
    "words",
    [
        "train info some-run",
        "benchmark runs stop some-run --yes",
        "model deploy some-model",
    ],
)
def test_what_is_not_offered_is_a_typed_error(vendor: Vendor, words: str) -> None:
    error = vendor.fails(*words.split())
    assert error["code"] == "NOT_FOUND"
    assert error["details"]["platform_code"] == "NOT_SUPPORTED"
    assert "not supported by this server" in error["message"]


@pytest.fixture
def elsewhere(vendor: Vendor, tmp_path: Path) -> Iterator[Vendor]:
    """The command in a directory without a repository."""
    yield vendor.at(tmp_path)


def test_a_workspace_is_named_where_there_is_no_repository(elsewhere: Vendor, sums: str) -> None:
    listed = elsewhere("--workspace", "vendors", "dataset", "list")
    assert sums in [item["file_name"] for item in listed["items"]]
    assert listed["workspace"]["name"] == "vendors"
    assert elsewhere("--workspace", "vendors", "eval", "list")["items"] is not None
    assert elsewhere.fails("eval", "list")["code"] == "WORKSPACE_REQUIRED"
    error = elsewhere.fails("--workspace", "no-such-workspace", "eval", "list")
    assert error["details"]["platform_code"] == "WORKSPACE_SCOPE_HEADER_ACCESS_DENIED"


def test_a_submit_may_name_the_workspace(vendor: Vendor, workspace: Workspace, sums: str) -> None:
    config = workspace.directory / "configs/eval/main.toml"
    words = ("--workspace", "vendors", "eval", "submit", config, "--yes")
    run = vendor(*words, SOME_KEY="x")["resource"]["name"]
    stop = ("--workspace", "vendors", "eval", "stop", run, "--yes")
    assert vendor(*stop)["resource"]["name"] == run


def test_the_doctor_knows_the_workspace_on_the_platform(vendor: Vendor) -> None:
    shown = vendor("doctor")["resource"]
    assert shown["valid"] is True and shown["workspace"]["name"] == "vendors"
