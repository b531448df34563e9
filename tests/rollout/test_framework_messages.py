"""Conversations of agent frameworks, told as chat messages for the trajectory."""

from __future__ import annotations

from osmosis.rollout.trajectory import build_trajectory
from osmosis.rollout.trajectory.content_blocks import chat_messages_of_blocks, content_blocks
from osmosis.rollout.trajectory.response_items import chat_messages_of_items

ITEMS = [
    {"role": "system", "content": "Be exact."},
    {"role": "user", "content": [{"type": "input_text", "text": "1 + 1, 2 + 2"}]},
    {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "Easy."}]},
    {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "I add.", "annotations": []}],
    },
    {"type": "function_call", "call_id": "c1", "name": "add", "arguments": '{"a": 1, "b": 1}'},
    {"type": "function_call", "call_id": "c2", "name": "add", "arguments": '{"a": 2, "b": 2}'},
    {"type": "function_call_output", "call_id": "c1", "output": "2"},
    {"type": "function_call_output", "call_id": "c2", "output": [{"type": "text", "text": "4"}]},
    {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]},
]


def call(identity: str, arguments: str) -> dict:
    function = {"name": "add", "arguments": arguments}
    return {"id": identity, "type": "function", "function": function}


def test_all_that_one_model_call_gave_is_one_assistant_message():
    assert chat_messages_of_items(ITEMS) == [
        {"role": "system", "content": "Be exact."},
        {"role": "user", "content": "1 + 1, 2 + 2"},
        {
            "role": "assistant",
            "content": "I add.",
            "reasoning_content": "Easy.",
            "tool_calls": [call("c1", '{"a": 1, "b": 1}'), call("c2", '{"a": 2, "b": 2}')],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "2"},
        {"role": "tool", "tool_call_id": "c2", "content": "4"},
        {"role": "assistant", "content": "No."},
    ]


def test_items_of_kinds_unknown_here_are_kept_as_text():
    messages = chat_messages_of_items(
        [
            {"type": "hologram", "data": {"x": 1}},
            {"type": "shell_call", "call_id": "s", "action": {"commands": ["ls"]}},
            {"type": "shell_call_output", "call_id": "s", "output": {"stdout": "a.txt"}},
        ]
    )
    assert messages[0]["content"] == '{"type": "hologram", "data": {"x": 1}}'
    assert messages[0]["tool_calls"][0]["function"] == {
        "name": "shell_call",
        "arguments": '{"commands": ["ls"]}',
    }
    assert messages[1]["content"] == '{"stdout": "a.txt"}'


def test_the_items_make_steps_whose_results_stand_with_their_calls():
    document = build_trajectory(chat_messages_of_items(ITEMS), rollout_id="r")
    assert document is not None
    assert [step["source"] for step in document["steps"]] == ["system", "user", "agent", "agent"]
    results = document["steps"][2]["observation"]["results"]
    assert [(result["source_call_id"], result["content"]) for result in results] == [
        ("c1", "2"),
        ("c2", "4"),
    ]


def test_content_blocks_become_chat_messages():
    blocks = [
        {"role": "user", "content": [{"text": "1 + 1?"}, {"cachePoint": {"type": "default"}}]},
        {
            "role": "assistant",
            "content": [
                {"reasoningContent": {"reasoningText": {"text": "Easy."}}},
                {"text": "I add."},
                {"toolUse": {"toolUseId": "c1", "name": "add", "input": {"a": 1, "b": 1}}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"toolResult": {"toolUseId": "c1", "content": [{"text": "2"}, {"json": {"n": 2}}]}}
            ],
        },
        {"role": "assistant", "content": [{"text": "2"}, {"image": {"format": "png"}}]},
    ]
    assert chat_messages_of_blocks(blocks, "Be exact.") == [
        {"role": "system", "content": "Be exact."},
        {"role": "user", "content": "1 + 1?"},
        {
            "role": "assistant",
            "content": "I add.",
            "reasoning_content": "Easy.",
            "tool_calls": [call("c1", '{"a": 1, "b": 1}')],
        },
        {"role": "tool", "tool_call_id": "c1", "content": '2\n{"n": 2}'},
        {"role": "assistant", "content": "2\n[image: png]"},
    ]


def test_plain_text_is_wrapped_in_a_block_and_blocks_stay():
    given = [{"role": "user", "content": "a"}, {"role": "user", "content": [{"text": "b"}]}]
    wrapped = content_blocks(given)
    assert [message["content"] for message in wrapped] == [[{"text": "a"}], [{"text": "b"}]]
    assert given[0]["content"] == "a"
