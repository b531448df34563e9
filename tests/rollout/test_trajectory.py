from __future__ import annotations

import json

from osmosis.rollout import RolloutSample
from osmosis.rollout.trajectory import attach_call_metrics, build_trajectory, messages_of
from tests.rollout.driver import echo, reward_one


def steps(*messages):
    document = build_trajectory(messages, rollout_id="r")
    assert document is not None
    return document["steps"]


def assistant(*calls, **more):
    tool_calls = [
        {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
        for call_id, name, arguments in calls
    ]
    return {"role": "assistant", "content": None, "tool_calls": tool_calls, **more}


def test_a_document_names_its_rollout_and_what_was_asked_and_found():
    document = build_trajectory(
        [{"role": "user", "content": "u"}],
        rollout_id="r1",
        label="L",
        reward=0.5,
        metrics={"turns": 2, "bad": float("nan")},
        extra_fields={"kept": 1, "dropped": object()},
        request_metadata={"m": 1},
        request_extra_fields={"row_index": 3, "run_index": 0},
    )
    assert document is not None
    assert document["schema_version"] == "ATIF-v1.7"
    assert document["session_id"] == document["trajectory_id"] == "r1"
    assert document["extra"]["osmosis"] == {
        "rollout_id": "r1",
        "label": "L",
        "reward": 0.5,
        "sample_metrics": {"turns": 2},
        "sample_extra_fields": {"kept": 1},
        "request_metadata": {"m": 1},
        "request_extra_fields": {"row_index": 3, "run_index": 0},
    }
    assert document["final_metrics"] == {"total_steps": 1}
    json.dumps(document, allow_nan=False)


def test_without_messages_there_is_no_document():
    assert build_trajectory([], rollout_id="r") is None


def test_roles_become_sources_and_an_unknown_role_is_remembered():
    roles = ["system", "developer", "user", "assistant", "critic"]
    found = steps(*({"role": role, "content": role} for role in roles))
    assert [step["source"] for step in found] == ["system", "system", "user", "agent", "user"]
    assert [step["step_id"] for step in found] == [1, 2, 3, 4, 5]
    assert found[-1]["extra"] == {"original_role": "critic"}


def test_a_tools_answer_is_an_observation_of_the_step_that_asked():
    [step] = steps(
        assistant(("c1", "add", '{"a": 1}')), {"role": "tool", "tool_call_id": "c1", "content": "2"}
    )
    assert step["message"] == ""
    assert step["tool_calls"] == [
        {"tool_call_id": "c1", "function_name": "add", "arguments": {"a": 1}}
    ]
    assert step["observation"]["results"] == [{"source_call_id": "c1", "content": "2"}]


def test_an_answer_that_nobody_asked_for_keeps_its_id_aside():
    agent, user, late = steps(
        assistant(("c1", "f", {})),
        {"role": "tool", "tool_call_id": "other", "content": "x"},
        {"role": "user", "content": "u"},
        {"role": "tool", "tool_call_id": "c1", "content": "late"},
    )
    assert agent["observation"]["results"] == [{"content": "x", "extra": {"tool_call_id": "other"}}]
    assert user["source"] == "user"
    assert (late["source"], late["message"]) == ("system", "")
    assert late["observation"]["results"][0]["content"] == "late"


def test_tool_arguments_that_are_no_object_are_kept_raw():
    [step] = steps(assistant(("1", "f", "nope"), ("2", "f", "[1]"), ("3", "f", {"x": 1})))
    found = [call["arguments"] for call in step["tool_calls"]]
    assert found == [{"_raw": "nope"}, {"_raw": "[1]"}, {"x": 1}]


def test_content_parts_are_joined_and_other_content_becomes_json():
    text = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    image = [{"type": "image_url", "image_url": {"url": "u"}}]
    found = steps({"role": "user", "content": text}, {"role": "user", "content": image})
    assert found[0]["message"] == "a\nb"
    assert json.loads(found[1]["message"]) == image


def test_times_become_iso_times():
    found = steps(
        {"role": "user", "content": "", "created_at": 0},
        {"role": "user", "content": "", "timestamp": "2026-01-02T03:04:05Z"},
        {"role": "user", "content": "", "completed_at": "soon"},
    )
    assert [step.get("timestamp") for step in found] == [
        "1970-01-01T00:00:00+00:00",
        "2026-01-02T03:04:05+00:00",
        None,
    ]


def test_a_messages_own_usage_counts_when_no_calls_are_known():
    document = build_trajectory(
        [
            assistant(usage={"input_tokens": 3, "output_tokens": 4}, model="m"),
            assistant(extra={"response": {"usage": {"prompt_tokens": 1}}}),
        ],
        rollout_id="r",
    )
    assert document is not None
    assert document["steps"][0]["metrics"] == {"prompt_tokens": 3, "completion_tokens": 4}
    assert document["steps"][0]["model_name"] == "m"
    assert document["final_metrics"]["total_prompt_tokens"] == 4


def test_calls_are_matched_with_agent_steps_in_order():
    messages = [{"role": "user", "content": "u"}, assistant(), assistant()]
    document = build_trajectory(
        messages,
        rollout_id="r",
        model_name="openai/x",
        call_metrics=[
            {"prompt_tokens": 10, "completion_tokens": 1, "cost_usd": 0.5, "model_name": "x"},
            {"prompt_tokens": 20, "completion_tokens": 2, "cached_tokens": 5, "cost_usd": None},
        ],
    )
    assert document is not None
    _, first, second = document["steps"]
    assert first["metrics"] == {"prompt_tokens": 10, "completion_tokens": 1, "cost_usd": 0.5}
    assert (first["model_name"], first["llm_call_count"]) == ("x", 1)
    assert second["metrics"]["cached_tokens"] == 5
    assert document["agent"]["model_name"] == "openai/x"
    assert document["final_metrics"] == {
        "total_prompt_tokens": 30,
        "total_completion_tokens": 3,
        "total_cached_tokens": 5,
        "total_cost_usd": 0.5,
        "total_steps": 3,
    }


def test_calls_that_cannot_be_matched_only_add_to_the_totals():
    document = build_trajectory([assistant()], rollout_id="r")
    assert document is not None
    attach_call_metrics(document, [{"prompt_tokens": 1}, {"prompt_tokens": 2}])
    assert "metrics" not in document["steps"][0]
    unmatched = document["extra"]["osmosis"]["unmatched_llm_call_metrics"]
    assert unmatched == [{"prompt_tokens": 1}, {"prompt_tokens": 2}]
    assert document["final_metrics"]["total_prompt_tokens"] == 3


async def test_the_trajectory_is_on_disk_before_the_result_is_seen(serve):
    driver = serve(echo, reward_one)
    fields = {"row_index": 1, "run_index": 2}
    rollout = await driver.start(extra_fields=fields, metadata={"m": 1})
    await driver.result(rollout)
    document = driver.trajectory(rollout)
    assert [step["message"] for step in document["steps"]] == ["q", "a"]
    about = document["extra"]["osmosis"]
    assert (about["rollout_id"], about["reward"], about["label"]) == (rollout, 1.0, "L")
    assert (about["request_extra_fields"], about["request_metadata"]) == (fields, {"m": 1})


async def test_a_graders_failure_still_leaves_the_trajectory(serve):
    async def grade(ctx):
        raise RuntimeError("no")

    driver = serve(echo, grade)
    rollout = await driver.start()
    await driver.result(rollout)
    assert len(driver.trajectory(rollout)["steps"]) == 2


async def test_no_file_is_written_when_the_sample_says_so_or_there_is_none(serve):
    async def hide(ctx):
        ctx.sample = RolloutSample(messages=[], trajectory_messages=None, reward=1)

    async def fail(ctx):
        raise RuntimeError("no")

    for driver in (serve(echo, hide), serve(fail, reward_one)):
        rollout = await driver.start()
        await driver.result(rollout)
        assert not (driver.root / rollout / "trajectory.json").exists()


class Incomparable:
    """Like an array of numpy, whose comparison has no truth value."""

    __hash__ = None

    def __eq__(self, other):
        raise ValueError("ambiguous")

    def __deepcopy__(self, memo):
        return Incomparable()


async def test_a_driver_that_makes_trajectories_itself_is_told_when_it_must_read_a_file(serve):
    async def say(ctx):
        ctx.set_reward(1)
        if ctx.metadata["how"] == "more":
            ctx.sample.messages.append({"role": "user", "content": "the grader's"})
        if ctx.metadata["how"] == "hidden":
            ctx.sample.trajectory_messages = None
        if ctx.metadata["how"] == "odd":
            ctx.sample.messages = [{"role": "user", "content": Incomparable()}]

    driver = serve(echo, say)
    for how, where in (
        ("plain", "messages"),
        ("more", "file"),
        ("hidden", "none"),
        ("odd", "file"),
    ):
        rollout = await driver.start(metadata={"how": how}, compact_trajectory=True)
        body = await driver.result(rollout)
        assert (body["status"], body["trajectory"]) == ("success", where), how
        written = (driver.root / rollout / "trajectory.json").exists()
        assert written == (where == "file"), how
    assert "trajectory" not in await driver.run(metadata={"how": "plain"})


def test_a_conversation_in_the_usual_shape_comes_back_from_its_document():
    messages = [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "2 + 2?"},
        {
            "role": "assistant",
            "content": "",
            "reasoning_content": "add",
            "tool_calls": [
                {
                    "id": "c1",
                    "type": "function",
                    "function": {"name": "add", "arguments": '{"a":2,"b":2}'},
                }
            ],
        },
        {"role": "tool", "content": "4", "tool_call_id": "c1"},
        {"role": "critic", "content": "check it"},
        {"role": "assistant", "content": "4"},
    ]
    document = build_trajectory(messages, rollout_id="r")
    assert messages_of(document) == messages


def test_a_tools_answer_without_a_question_comes_back_too():
    messages = [{"role": "tool", "content": "4"}, {"role": "assistant", "content": "4"}]
    assert messages_of(build_trajectory(messages, rollout_id="r")) == messages
