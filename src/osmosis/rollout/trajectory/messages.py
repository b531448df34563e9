"""The chat messages of an ATIF document: the way back from :mod:`osmosis.rollout.trajectory.steps`.

What a document does not keep (the spelling of a tool call's arguments, keys of a framework's own)
does not come back; whoever needs the very messages compares and keeps them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

_ROLES = {"system": "system", "user": "user", "agent": "assistant"}


def messages_of(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The conversation that ``document`` tells, in the shape of chat completions."""
    messages: list[dict[str, Any]] = []
    for step in document.get("steps") or ():
        role = (step.get("extra") or {}).get("original_role") or _ROLES.get(step.get("source"))
        results = (step.get("observation") or {}).get("results") or ()
        if role not in ("tool", "function"):
            messages.append(_message(role or "user", step))
        messages += [_tool_answer(result) for result in results]
    return messages


def _message(role: str, step: Mapping[str, Any]) -> dict[str, Any]:
    message: dict[str, Any] = {"role": role, "content": step.get("message", "")}
    if reasoning := step.get("reasoning_content"):
        message["reasoning_content"] = reasoning
    if calls := step.get("tool_calls"):
        message["tool_calls"] = [_tool_call(call) for call in calls]
    return message


def _tool_call(call: Mapping[str, Any]) -> dict[str, Any]:
    arguments = call.get("arguments") or {}
    raw = arguments.get("_raw") if set(arguments) == {"_raw"} else None
    text = raw if isinstance(raw, str) else orjson.dumps(arguments).decode()
    function = {"name": call.get("function_name"), "arguments": text}
    return {"id": call.get("tool_call_id"), "type": "function", "function": function}


def _tool_answer(result: Mapping[str, Any]) -> dict[str, Any]:
    call_id = result.get("source_call_id") or (result.get("extra") or {}).get("tool_call_id")
    answer = {"role": "tool", "content": result.get("content", "")}
    return answer if call_id is None else {**answer, "tool_call_id": call_id}
