"""Chat messages as ATIF steps."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import orjson

from osmosis.rollout.json_values import json_safe
from osmosis.rollout.trajectory.metrics import usage_metrics

_SOURCES = {"system": "system", "developer": "system", "user": "user", "assistant": "agent"}
_TOOL_ROLES = ("tool", "function")
_TIME_KEYS = ("created_at", "timestamp", "completed_at")


def steps_of(messages: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One step per message, but a tool's answer is an observation of the step that asked."""
    steps: list[dict[str, Any]] = []
    for message in messages:
        role = message.get("role")
        if role in _TOOL_ROLES:
            _observe(steps, message, role)
        else:
            steps.append(_step(len(steps) + 1, message, role))
    return steps


def _step(number: int, message: Mapping[str, Any], role: Any) -> dict[str, Any]:
    source = _SOURCES.get(role) if isinstance(role, str) else None
    step: dict[str, Any] = {"step_id": number}
    if moment := _timestamp(message):
        step["timestamp"] = moment
    step["source"] = source or "user"
    step["message"] = text_of(message.get("content"))
    if source == "agent":
        _add_agent_fields(step, message)
    elif source is None:
        step["extra"] = {"original_role": "" if role is None else str(role)}
    return step


def _add_agent_fields(step: dict[str, Any], message: Mapping[str, Any]) -> None:
    if reasoning := message.get("reasoning_content") or message.get("reasoning"):
        step["reasoning_content"] = text_of(reasoning)
    if calls := _tool_calls(message.get("tool_calls")):
        step["tool_calls"] = calls
    source = message if "usage" in message else _nested(message, "extra", "response")
    if metrics := usage_metrics(source.get("usage")):
        step["metrics"] = metrics
        step["llm_call_count"] = 1
        if isinstance(model := source.get("model"), str):
            step["model_name"] = model


def _nested(outer: Mapping[str, Any], *keys: str) -> Mapping[str, Any]:
    for key in keys:
        inner = outer.get(key)
        outer = inner if isinstance(inner, Mapping) else {}
    return outer


def _tool_calls(calls: Any) -> list[dict[str, Any]]:
    if not isinstance(calls, list | tuple):
        return []
    found: list[dict[str, Any]] = []
    for position, call in enumerate(calls):
        if not isinstance(call, Mapping):
            continue
        function = call.get("function")
        function = function if isinstance(function, Mapping) else call
        identity = call.get("id")
        found.append(
            {
                "tool_call_id": f"call_{position}" if identity is None else str(identity),
                "function_name": str(function.get("name") or "unknown"),
                "arguments": _arguments(function.get("arguments")),
            }
        )
    return found


def _arguments(given: Any) -> dict[str, Any]:
    if isinstance(given, Mapping):
        return json_safe(given)
    if not given:
        return {}
    text = given if isinstance(given, str) else text_of(given)
    try:
        parsed = orjson.loads(text)
    except ValueError:
        parsed = None
    return parsed if isinstance(parsed, dict) else {"_raw": text}


def _observe(steps: list[dict[str, Any]], message: Mapping[str, Any], role: str) -> None:
    if not steps or steps[-1]["source"] != "agent":
        empty = {"step_id": len(steps) + 1, "source": "system", "message": ""}
        steps.append({**empty, "extra": {"original_role": role}})
    step = steps[-1]
    call_id = message.get("tool_call_id")
    result: dict[str, Any] = {"content": text_of(message.get("content"))}
    if call_id is not None:
        call_id = str(call_id)
        if any(call["tool_call_id"] == call_id for call in step.get("tool_calls", ())):
            result = {"source_call_id": call_id, **result}
        else:
            result["extra"] = {"tool_call_id": call_id}
    step.setdefault("observation", {"results": []})["results"].append(result)


def text_of(content: Any) -> str:
    """Content as text: text parts joined by newlines, anything else as JSON."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list | tuple) and content and all(map(_is_text_part, content)):
        return "\n".join(part["text"] for part in content)
    return json.dumps(content, ensure_ascii=False, default=str)


def _is_text_part(part: Any) -> bool:
    return (
        isinstance(part, Mapping)
        and part.get("type") == "text"
        and isinstance(part.get("text"), str)
    )


def _timestamp(message: Mapping[str, Any]) -> str | None:
    for key in _TIME_KEYS:
        value = message.get(key)
        try:
            if isinstance(value, str):
                return datetime.fromisoformat(value).isoformat()
            if isinstance(value, int | float) and not isinstance(value, bool):
                return datetime.fromtimestamp(value, UTC).isoformat()
        except (ValueError, OverflowError, OSError):
            continue
    return None
