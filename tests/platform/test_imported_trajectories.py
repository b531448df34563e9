from __future__ import annotations

from typing import Any

import pytest

from osmosis.platform.imports.trajectories import problem_of
from osmosis.rollout.trajectory.document import build_trajectory

CALL = {"tool_call_id": "c1", "function_name": "add", "arguments": {}}
AGENT = {"name": "a", "version": "1"}


def document(*steps: Any, **more: Any) -> dict[str, Any]:
    return {"schema_version": "ATIF-v1.7", "agent": AGENT, "steps": list(steps), **more}


def step(number: int = 1, source: str = "agent", **more: Any) -> dict[str, Any]:
    return {"step_id": number, "source": source, "message": "m", **more}


def test_what_is_fine_has_no_problem():
    answered = {"results": [{"source_call_id": "c1", "content": "5"}]}
    used = step(2, tool_calls=[CALL], observation=answered, model_name="x")
    assert problem_of(document(step(1, "user"), used)) is None
    for version in range(8):
        assert problem_of(document(step(), schema_version=f"ATIF-v1.{version}")) is None


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ([], "is not a JSON object"),
        (document(), "it has no steps"),
        (document(step(), schema_version="ATIF-v2.0"), "schema_version"),
        (document(step(), agent={"name": "a"}), "agent must have"),
        (document("text"), "step 1: is not a JSON object"),
        (document(step(), step(3)), "step 2: step_id must be 2"),
        (document(step(source="tool")), "source must be one of"),
        (document(step(message=5)), "message must be"),
        (document(step(source="user", tool_calls=[])), "only an agent's step has tool_calls"),
        (document(step(tool_calls="x")), "tool_calls must be"),
        (document(step(tool_calls=[{"tool_call_id": 5}])), "tool_calls must be"),
        (document(step(observation=5)), "observation must"),
        (
            document(step(observation={"results": [{"source_call_id": "c9"}]})),
            "a call that the step does not make",
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_place(wrong: Any, said: str):
    assert said in str(problem_of(wrong))


def test_what_our_own_rollouts_leave_is_never_refused():
    odd: list[dict[str, Any]] = [
        {"role": "tool", "tool_call_id": "lost", "content": "5"},
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image_url"}]},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{"}},
                {"function": {"name": "g"}},
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "5"},
        {"role": "tool", "content": "whose?"},
        {"role": "critic", "content": 5},
        {"content": "nobody's"},
        {"role": "assistant", "content": "done", "reasoning_content": "hm"},
    ]
    for start in range(len(odd)):
        made = build_trajectory(odd[start:], rollout_id="a" * 32)
        assert made is None or problem_of(made) is None
