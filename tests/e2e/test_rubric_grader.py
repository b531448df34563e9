"""A grader's judge, end to end: over the run's judge route, and with a model of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.workspace import Workspace
from tests.e2e.configs import eval_config
from tests.rubric.conftest import MockJudge, Reply

KEY = "sk-canary-of-the-judge"
OWN_MODEL = """
            model="openai/own-judge",
            base_url=os.environ["JUDGE_URL"],
            api_key=os.environ["JUDGE_KEY"],
"""


@pytest.fixture
def judge() -> Iterator[MockJudge]:
    """Scores 1 what states the reference; its first answer to each is no verdict."""
    running = MockJudge()
    seen: set[str] = set()

    def answer(body: dict[str, Any]) -> Reply | str:
        text = body["messages"][1]["content"]
        if "temperature" in body:
            return Reply(status=400, error="temperature is not supported by this model")
        if text not in seen and "could not be used" not in text:
            seen.add(text)
            return "It is hard to say."
        right = "Lima" in text or "Tokyo" in text
        return json.dumps({"explanation": f"right: {right}", "score": 1 if right else 0})

    running.answer = answer
    yield running
    running.close()


def trajectories(workspace: Workspace, run: str, folder: Path) -> list[dict[str, Any]]:
    workspace.osmosis("eval", "download", run, "--type", "all", "-o", folder)
    return [json.loads(path.read_text()) for path in sorted(folder.rglob("row_*_run_*.json"))]


def test_the_runs_judge_is_asked_on_its_route_and_each_score_has_its_reason(
    workspace: Workspace, tmp_path: Path
):
    workspace.write(
        "configs/eval/r1.toml",
        eval_config(
            "judged",
            model="scripted/models/judged.toml",
            limit=6,
            batch_size=6,
            advanced={"judge_model": "scripted/models/judged.toml"},
        ),
    )
    run = workspace.start("configs/eval/r1.toml")
    info = workspace.wait(run)
    assert (info["results"]["graded"], info["results"]["failed"]) == (6, 0), info
    found = trajectories(workspace, run, tmp_path / "run")
    for document in found:
        osmosis = document["extra"]["osmosis"]
        states = "states" if osmosis["reward"] == 1.0 else "does not state"
        assert (
            osmosis["sample_extra_fields"]["explanation"] == f"The answer {states} the reference."
        )

    again = workspace.json(
        "eval", "rubric", "-d", tmp_path / "run", "-r", "Does it state the reference?",
        "--model", "scripted/models/judged.toml",
    )  # fmt: skip
    assert again["resource"]["record_count"] == 6
    rewards = [document["extra"]["osmosis"]["reward"] for document in found]
    assert [record["scores"] for record in again["resource"]["records"]] == [[r] for r in rewards]


def test_a_rollout_with_a_judge_of_its_own_needs_nothing_but_the_sdk(
    workspace: Workspace, judge: MockJudge, tmp_path: Path
):
    source = (workspace.directory / "rollouts/judged/main.py").read_text()
    own = source.replace("            rubric=RUBRIC,\n", f"            rubric=RUBRIC,{OWN_MODEL}")
    assert own != source
    project = (workspace.directory / "rollouts/judged/pyproject.toml").read_text()
    workspace.write("rollouts/own-judge/main.py", own)
    workspace.write("rollouts/own-judge/pyproject.toml", project.replace('"judged"', '"own-judge"'))
    workspace.push("A judge of its own")
    workspace.osmosis("secret", "set", "JUDGE_KEY", stdin=f"{KEY}\n")
    workspace.write(
        "configs/eval/r2.toml",
        eval_config(
            "own-judge",
            model="scripted/models/judged.toml",
            dataset="judged",
            limit=4,
            batch_size=2,
            env={"JUDGE_URL": judge.url},
            secrets=["JUDGE_KEY"],
        ),
    )
    run = workspace.start("configs/eval/r2.toml")
    info = workspace.wait(run)
    results = info["results"]
    assert (results["graded"], results["failed"]) == (4, 0), info
    assert set(judge.keys) == {f"Bearer {KEY}"}
    refused = [body for body in judge.requests if "temperature" in body]
    assert 1 <= len(refused) <= 2, "what the judge takes is learned once for all graders"
    assert len(judge.requests) == len(refused) + 4 * 2
    found = trajectories(workspace, run, tmp_path / "run")
    assert len(found) == 4
    for path in (tmp_path / "run").rglob("*"):
        assert path.is_dir() or KEY.encode() not in path.read_bytes()
