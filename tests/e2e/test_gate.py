"""A gate as CI uses it, and reading single samples, on a run that really took place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from lab.workspace import Workspace
from tests.cli.conftest import Done, Osmosis, osmosis
from tests.e2e.in_process import enter

__all__ = ["osmosis"]

CONFIG = "configs/eval/multiply-scripted.toml"


@pytest.fixture(scope="module")
def run(workspace: Workspace) -> dict[str, Any]:
    """A finished run of 20 rows × 2 with some rewards of 0."""
    words = ("eval", "submit", CONFIG, "-y", "--watch", "--limit", "20", "--n", "2")
    result = workspace.json(*words)["result"]
    assert 0 < result["results"]["passed"] < result["results"]["graded"] == 40
    return result


@pytest.fixture
def here(
    workspace: Workspace, run: dict[str, Any], osmosis: Osmosis, monkeypatch: pytest.MonkeyPatch
) -> Osmosis:
    enter(workspace, monkeypatch)
    return osmosis


def wait(here: Osmosis, run: dict[str, Any], *words: object) -> Done:
    return here("--json", "eval", "wait", run["eval_run"]["name"], *words)


def test_the_verdict_is_one_in_text_json_and_exit_code(here: Osmosis, run: dict[str, Any]) -> None:
    rate = run["results"]["pass_rate"]
    reached = wait(here, run, "--min-pass-rate", rate, "--min-score", "0.1")
    assert (reached.code, reached.json["data"]["verdict"]["outcome"]) == (0, "passed")
    missed = wait(here, run, "--min-pass-rate", "100%")
    assert (missed.code, missed.json["data"]["verdict"]["exit_code"]) == (3, 3)
    shown = here("eval", "wait", run["eval_run"]["name"], "--min-pass-rate", "1")
    assert shown.code == 3
    assert "Gate: failed" in shown.out and "Missed" in shown.out


def test_rows_below_a_row_threshold_are_named(here: Osmosis, run: dict[str, Any]) -> None:
    done = wait(here, run, "--min-row-pass-rate", "1")
    (check,) = done.json["data"]["verdict"]["checks"]
    listed = here("--json", "eval", "samples", run["eval_run"]["name"], "--failed").json
    assert check["rows"] == sorted({item["row_index"] for item in listed["items"]})


def test_the_junit_report_counts_as_the_run_does(
    here: Osmosis, run: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / "reports" / "junit.xml"
    assert wait(here, run, "--min-pass-rate", "1", "--junit", path).code == 3
    gate, samples = ET.parse(path).getroot()
    assert (gate.attrib["tests"], gate.attrib["failures"]) == ("1", "1")
    results = run["results"]
    assert samples.attrib["tests"] == str(results["graded"])
    assert samples.attrib["failures"] == str(results["graded"] - results["passed"])


def test_a_submit_with_a_threshold_waits_and_judges(here: Osmosis) -> None:
    words = ("eval", "submit", CONFIG, "-y", "--limit", "2", "--n", "1", "--min-score", "2")
    done = here("--json", *words)
    assert done.code == 3
    assert done.json["result"]["verdict"]["checks"][0]["required"] == 2
    assert done.json["resource"]["status"] == "finished"


def test_a_wait_that_runs_out_of_time_is_incomplete(here: Osmosis, workspace: Workspace) -> None:
    name = workspace.submit(CONFIG, "--limit", "200", "--n", "20", "--batch-size", "1")
    done = here("--json", "eval", "wait", name, "--timeout", "0.2", "--min-pass-rate", "0")
    workspace.osmosis("eval", "stop", name, "-y")
    assert done.code == 4
    workspace.wait(name)
    assert here("--json", "eval", "wait", name, "--min-pass-rate", "0").code == 4


@pytest.mark.parametrize(
    "words",
    [
        ("--min-pass-rate", "90"),
        ("--min-pass-rate", "much"),
        ("--max-regression", "0.1"),
        ("--only-significant",),
    ],
)
def test_a_flag_that_means_nothing_is_a_usage_mistake(
    here: Osmosis, run: dict[str, Any], words: tuple[str, ...]
) -> None:
    assert wait(here, run, *words).code == 2


def test_a_sample_is_read_with_its_tools_and_calls(here: Osmosis, workspace: Workspace) -> None:
    done = workspace.json(
        "eval", "submit", "configs/eval/calculator-scripted.toml", "-y", "--watch", "--limit", "1"
    )
    name = done["resource"]["name"]
    shown = here("--plain", "eval", "show", name, "0")
    assert shown.code == 0
    assert "-> " in shown.out and "<- " in shown.out
    assert "Model calls" in shown.out and "Grading" in shown.out
    data = here("--json", "eval", "show", name, "0/0", "--from", "1", "--steps", "1").json["data"]
    assert (data["from"], len(data["steps"])) == (1, 1)
    assert here("eval", "show", name, "zero").code == 2
    assert here("--json", "eval", "show", name, "7").error["code"] == "NOT_FOUND"


def test_info_draws_the_rewards_and_names_the_worst_samples(
    here: Osmosis, run: dict[str, Any]
) -> None:
    shown = here("--plain", "eval", "info", run["eval_run"]["name"]).out
    passed, missed = run["results"]["passed"], run["results"]["graded"] - run["results"]["passed"]
    assert f"0.95 to 1: {'#' * 40} {passed} pass" in shown
    assert f"# {missed}\n" in shown
    assert shown.count("reward 0.0000") == min(missed, 5)


def test_samples_page_in_the_order_that_is_asked_for(here: Osmosis, run: dict[str, Any]) -> None:
    name = run["eval_run"]["name"]
    first = here("--json", "eval", "samples", name, "--worst", "--limit", "30").json
    rest = here("--json", "eval", "samples", name, "--worst", "--cursor", first["next_cursor"]).json
    rewards = [item["reward"] for item in first["items"] + rest["items"]]
    assert rewards == sorted(rewards) and len(rewards) == 40
    assert here("--json", "eval", "samples", name, "--all").json["total_count"] == 40
    listed = here("--plain", "eval", "samples", name, "--row", "3,5-6").out.splitlines()
    assert [line.split("\t")[0] for line in listed] == ["3", "3", "5", "5", "6", "6"]
    assert "No sample is like that." in here("eval", "samples", name, "--error", "timeout").out
    assert json.loads(here("--json", "eval", "samples", name, "--error", "x").out)["items"] == []
