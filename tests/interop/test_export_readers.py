"""Exports, read by the published tools that they are for: Inspect's reader and Harbor's models."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from lab.platform import Lab
from lab.workspace import Workspace
from tests.interop.environments import install, new_environment, require_new_python

pytestmark = pytest.mark.timeout(400)  # it installs both, and may be the first to set up the lab

READ_INSPECT = """
import json, sys
from inspect_ai.log import read_eval_log, read_eval_log_sample, read_eval_log_sample_summaries
path = sys.argv[1]
log = read_eval_log(path)
header = read_eval_log(path, header_only=True)
summaries = read_eval_log_sample_summaries(path)
one = read_eval_log_sample(path, id=log.samples[0].id, epoch=2)
json.dump({
    "status": log.status,
    "epochs": header.eval.config.epochs,
    "scores": {s.name: {m: v.value for m, v in s.metrics.items()} for s in header.results.scores},
    "samples": [[s.id, s.epoch, s.scores["reward"].value] for s in log.samples],
    "summaries": [[s.id, s.epoch, s.scores["reward"].value] for s in summaries],
    "roles": [m.role for m in one.messages],
    "tools": [c.function for m in one.messages for c in getattr(m, "tool_calls", None) or []],
    "answers": [m.text for m in one.messages if m.role == "tool"],
    "completion": one.output.completion,
    "events": [e.output.message.role for e in one.events if e.event == "model"],
    "tokens": sum(u.total_tokens for u in one.model_usage.values()),
}, sys.stdout)
"""
READ_ATIF = """
import json, sys, zipfile
from harbor.models.trajectories import Trajectory
archive = zipfile.ZipFile(sys.argv[1])
read = [Trajectory.model_validate_json(archive.read(name)) for name in archive.namelist()]
json.dump([len(trajectory.steps) for trajectory in read], sys.stdout)
"""


@pytest.fixture(scope="module")
def reader_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python that has both readers."""
    python = require_new_python(tmp_path_factory.mktemp("probe"))
    directory = tmp_path_factory.mktemp("readers") / "venv"
    programs = new_environment(directory, python, "inspect-ai==0.3.285")
    # Harbor's models need pydantic alone; the rest of it starts containers.
    install(directory, "--no-deps", "harbor==0.26.0")
    return programs / "python"


@pytest.fixture(scope="module")
def made(lab: Lab, environments: Path) -> tuple[Workspace, dict[str, Any]]:
    """A run with tool calls: 3 rows × 2."""
    workspace = lab.workspace("exported", environments=environments)
    workspace.upload("data/calculator.jsonl")
    config = "configs/eval/calculator-scripted.toml"
    words = ("eval", "submit", config, "-y", "--watch", "--limit", "3", "--n", "2")
    return workspace, workspace.json(*words)["result"]


def read(python: Path, script: str, path: str) -> Any:
    done = subprocess.run(
        [python, "-c", script, path], check=True, capture_output=True, text=True, timeout=120
    )
    return json.loads(done.stdout)


def exported(made: tuple[Workspace, dict[str, Any]], format: str, to: Path) -> str:
    workspace, run = made
    name = run["eval_run"]["name"]
    done = workspace.json("eval", "export", name, "--format", format, "-o", str(to))
    return str(done["resource"]["output_path"])


def test_inspect_reads_the_log_with_its_scores_and_conversations(
    reader_python: Path, made: tuple[Workspace, dict[str, Any]], tmp_path: Path
) -> None:
    log = read(reader_python, READ_INSPECT, exported(made, "inspect", tmp_path))
    results = made[1]["results"]
    assert (log["status"], log["epochs"]) == ("success", 2)
    assert log["scores"]["reward"]["mean"] == pytest.approx(results["score"])
    assert log["scores"]["passed"]["accuracy"] == pytest.approx(results["pass_rate"])
    assert sorted(log["summaries"]) == sorted(log["samples"])
    assert sorted(s[:2] for s in log["samples"]) == [
        [row, run] for row in range(3) for run in (1, 2)
    ]
    assert {"system", "user", "assistant", "tool"} >= set(log["roles"]) >= {"user", "assistant"}
    assert log["tools"] and log["answers"] and log["completion"]
    assert log["tokens"] > 0
    assert len(log["events"]) == log["roles"].count("assistant")


def test_every_trajectory_is_a_valid_atif_document(
    reader_python: Path, made: tuple[Workspace, dict[str, Any]], tmp_path: Path
) -> None:
    steps = read(reader_python, READ_ATIF, exported(made, "atif", tmp_path))
    assert len(steps) == 6
    assert min(steps) >= 2
