"""Anthropic's Messages dialect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aiohttp import web

from osmosis.evaluation.gateway.chat import ChatRequest, Reply, read_body
from osmosis.evaluation.gateway.dialects.dialect import bearer_of
from osmosis.evaluation.gateway.dialects.messages_input import messages_of
from osmosis.evaluation.gateway.dialects.messages_objects import (
    THINKING_TYPES,
    ending,
    message_object,
    thinking_block,
    tool_use_block,
)
from osmosis.evaluation.gateway.dialects.messages_story import MessagesStory
from osmosis.evaluation.gateway.dialects.story import StoryStream, thought_of, tool_calls_of
from osmosis.evaluation.gateway.event_stream import EventStream
from osmosis.evaluation.gateway.failures import Refused
from osmosis.evaluation.gateway.json_codec import dumps
from osmosis.wire.samples import Route

HEARTBEAT = b'event: ping\ndata: {"type": "ping"}\n\n'
REFUSED: Mapping[str, str] = {
    "container": "there are no containers here",
    "mcp_servers": "tools that the provider runs are not offered here",
}
TRANSLATED = frozenset(
    {
        "messages", "system", "tools", "tool_choice", "stop_sequences", "thinking",
        "output_config", "output_format",
    }
)  # fmt: skip
WITHOUT_MEANING = frozenset(
    {
        "metadata", "service_tier", "cache_control", "context_management", "betas", "speed",
        "inference_geo", "diagnostics", "user_profile_id", "workspace_id",
    }
)  # fmt: skip
"""Fields about the vendor's own service, which the model does not see."""
TOOL_CHOICES = {"auto": "auto", "any": "required", "none": "none"}
ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
}


class Messages:
    """``POST …/v1/messages`` and ``…/messages``"""

    def __init__(self) -> None:
        self._model = ""
        self._stops: list[str] = []
        self._thinking = False

    def credentials(self, headers: Mapping[str, str]) -> tuple[str, ...]:
        return (headers.get("x-api-key", ""), bearer_of(headers))

    def read(self, raw: bytes, route: Route) -> ChatRequest:
        asked = read_body(raw)
        for field, reason in REFUSED.items():
            if asked.get(field):
                raise Refused(400, f"The field '{field}' is refused: {reason}.", "field_refused")
        left_out = TRANSLATED | WITHOUT_MEANING | REFUSED.keys()
        body = {
            key: value for key, value in asked.items() if key not in left_out and value is not None
        }
        body["messages"] = messages_of(asked.get("system"), asked.get("messages"))
        stops = asked.get("stop_sequences")
        if stops:
            body["stop"] = self._stops = stops if isinstance(stops, list) else [stops]
        _set_output(body, asked)
        _set_tools(body, asked)
        chat = ChatRequest.of(body, route)
        thinking = asked.get("thinking")
        if isinstance(thinking, dict) and thinking.get("type") != "disabled":
            chat.thinking = thinking
            self._thinking = True
        self._model = chat.requested_model
        return chat

    def answer(self, reply: Reply) -> bytes:
        choice: dict[str, Any] = (reply.body or {})["choices"][0]
        message, calls = reply.message, tool_calls_of(reply.message)
        content = _thoughts(message) if self._thinking else []
        text = message["content"] or message.get("refusal") or ""
        if text or not calls:
            content.append({"type": "text", "text": text})
        content.extend(tool_use_block(call) for call in calls)
        how = ending(
            reply.finish_reason, choice.get("stop_reason"), self._stops, has_calls=bool(calls)
        )
        return dumps({**message_object(self._model, content, reply.usage), **how})

    def events(self, request: web.BaseRequest) -> EventStream:
        story = MessagesStory(self._model, self._stops, thinking=self._thinking)
        return StoryStream(request, story, HEARTBEAT)

    def error(self, status: int, message: str, *, type: str, code: str | None) -> dict[str, object]:
        fallback = "invalid_request_error" if status < 500 else "api_error"
        error = {"type": ERROR_TYPES.get(status, fallback), "message": message}
        return {"type": "error", "error": error, "request_id": None}


def _thoughts(message: dict[str, Any]) -> list[dict[str, Any]]:
    blocks = message.get("thinking_blocks")
    if isinstance(blocks, list) and blocks:
        return [
            {"signature": "", **block} if block["type"] == "thinking" else block
            for block in blocks
            if isinstance(block, dict) and block.get("type") in THINKING_TYPES
        ]
    thought = thought_of(message)
    return [thinking_block(thought)] if thought else []


def _set_output(body: dict[str, Any], asked: dict[str, Any]) -> None:
    """``output_config``: effort, and the form of the answer."""
    config = asked.get("output_config")
    config = config if isinstance(config, dict) else {}
    if config.get("effort") is not None:
        body["reasoning_effort"] = config["effort"]
    form = config.get("format") or asked.get("output_format")
    if not form:
        return
    if not isinstance(form, dict) or form.get("type") != "json_schema":
        raise Refused(400, "output_config.format must be of type 'json_schema'.")
    schema = {"name": "output", "strict": True, "schema": form.get("schema")}
    body["response_format"] = {"type": "json_schema", "json_schema": schema}


def _set_tools(body: dict[str, Any], asked: dict[str, Any]) -> None:
    tools = asked.get("tools")
    if not tools:
        return
    if not isinstance(tools, list):
        raise Refused(400, "The field 'tools' must be a list.")
    body["tools"] = [_function(tool, f"tools[{index}]") for index, tool in enumerate(tools)]
    choice = asked.get("tool_choice")
    if choice is None:
        return
    kind = str(choice.get("type")) if isinstance(choice, dict) else ""
    if kind == "tool":
        body["tool_choice"] = {"type": "function", "function": {"name": choice.get("name")}}
    elif kind in TOOL_CHOICES:
        body["tool_choice"] = TOOL_CHOICES[kind]
    else:
        raise Refused(400, "tool_choice.type must be auto, any, tool or none.")
    if choice.get("disable_parallel_tool_use") is not None:
        body["parallel_tool_calls"] = not choice["disable_parallel_tool_use"]


def _function(tool: Any, where: str) -> dict[str, Any]:
    if not isinstance(tool, dict):
        raise Refused(400, f"{where} must be an object.")
    kind = tool.get("type") or "custom"
    if kind != "custom":
        raise Refused(
            400,
            f"{where} is of type '{kind}': tools that the provider defines are not offered here, "
            "only tools of your own, with an 'input_schema'.",
            "field_refused",
        )
    function = {key: tool[key] for key in ("name", "description", "strict") if key in tool}
    function["parameters"] = tool.get("input_schema") or {"type": "object", "properties": {}}
    return {"type": "function", "function": function}
