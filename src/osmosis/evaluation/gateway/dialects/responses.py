"""OpenAI's Responses dialect, without its memory: every request brings its whole conversation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aiohttp import web

from osmosis.evaluation.gateway.chat import ChatRequest, Reply, read_body
from osmosis.evaluation.gateway.dialects.dialect import bearer_of
from osmosis.evaluation.gateway.dialects.responses_input import messages_of
from osmosis.evaluation.gateway.dialects.responses_objects import (
    ResponseFrame,
    call_item,
    message_item,
    new_id,
    reasoning_item,
    refusal_part,
    text_part,
)
from osmosis.evaluation.gateway.dialects.responses_story import ResponsesStory
from osmosis.evaluation.gateway.dialects.story import (
    StoryStream,
    logprobs_of,
    thought_of,
    tool_calls_of,
)
from osmosis.evaluation.gateway.event_stream import EventStream
from osmosis.evaluation.gateway.failures import Refused
from osmosis.evaluation.gateway.json_codec import dumps
from osmosis.wire.samples import Route

STATELESS = "answers are not stored here; send the whole conversation as 'input'"
REFUSED: Mapping[str, str] = {
    "previous_response_id": STATELESS,
    "conversation": STATELESS,
    "store": "answers are not stored here; leave it out or send false",
    "background": "a call is answered while the client waits; leave it out or send false",
    "prompt": "there are no stored prompts here; send 'instructions' and 'input'",
    "truncation": "a conversation is never cut here; leave it out or send 'disabled'",
    "context_management": "a conversation is never compacted here; leave it out",
    "moderation": "nothing is moderated here; leave it out",
}
HARMLESS = (None, False, "disabled", [], {})
TRANSLATED = frozenset(
    {"input", "instructions", "max_output_tokens", "reasoning", "text", "tools", "tool_choice"}
)
WITHOUT_MEANING = frozenset(
    {
        "include", "metadata", "stream_options", "max_tool_calls", "background_options",
        "prompt_cache_options", "prompt_cache_retention", "image", "access_programs",
    }
)  # fmt: skip
"""Fields about things that do not exist on this side: storage, built-in tools, the vendor's cache.
"""


class Responses:
    """``POST …/responses``"""

    def __init__(self) -> None:
        self._frame = ResponseFrame({}, "")

    def credentials(self, headers: Mapping[str, str]) -> tuple[str, ...]:
        return (bearer_of(headers),)

    def read(self, raw: bytes, route: Route) -> ChatRequest:
        asked = read_body(raw)
        for field, reason in REFUSED.items():
            if asked.get(field) not in HARMLESS:
                raise Refused(400, f"The field '{field}' is refused: {reason}.", "field_refused")
        left_out = TRANSLATED | WITHOUT_MEANING | REFUSED.keys()
        body = {
            key: value for key, value in asked.items() if key not in left_out and value is not None
        }
        body["messages"] = messages_of(asked.get("instructions"), asked.get("input"))
        if asked.get("max_output_tokens") is not None:
            body["max_tokens"] = asked["max_output_tokens"]
        effort = _object(asked, "reasoning").get("effort")
        if effort is not None:
            body["reasoning_effort"] = effort
        _set_text(body, _object(asked, "text"))
        if "message.output_text.logprobs" in _list(asked, "include") or body.get("top_logprobs"):
            body["logprobs"] = True
        _set_tools(body, asked)
        chat = ChatRequest.of(body, route)
        self._frame = ResponseFrame(asked, chat.requested_model)
        return chat

    def answer(self, reply: Reply) -> bytes:
        choice: dict[str, Any] = (reply.body or {})["choices"][0]
        output: list[dict[str, Any]] = []
        message = reply.message
        thought, text, refusal = thought_of(message), message["content"], message.get("refusal")
        calls = tool_calls_of(message)
        if thought:
            output.append(reasoning_item(new_id("rs"), thought))
        parts: list[dict[str, Any]] = []
        if text or not (calls or refusal):
            parts.append(text_part(text, logprobs_of(choice)))
        if isinstance(refusal, str) and refusal:
            parts.append(refusal_part(refusal))
        if parts:
            output.append(message_item(new_id("msg"), parts))
        output.extend(call_item(new_id("fc"), call) for call in calls)
        return dumps(self._frame.ended(output, reply.finish_reason, reply.usage))

    def events(self, request: web.BaseRequest) -> EventStream:
        return StoryStream(request, ResponsesStory(self._frame), b": ping\n\n")

    def error(self, status: int, message: str, *, type: str, code: str | None) -> dict[str, object]:
        return {"error": {"message": message, "type": type, "param": None, "code": code}}


def _set_text(body: dict[str, Any], text: dict[str, Any]) -> None:
    """``text``: the form of the answer."""
    if text.get("verbosity") is not None:
        body["verbosity"] = text["verbosity"]
    form = text.get("format")
    if not isinstance(form, dict) or form.get("type", "text") == "text":
        return
    if form["type"] == "json_schema":
        schema = {key: value for key, value in form.items() if key != "type" and value is not None}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    elif form["type"] == "json_object":
        body["response_format"] = {"type": "json_object"}
    else:
        raise Refused(400, f"text.format of type '{form['type']}' is not supported here.")


def _set_tools(body: dict[str, Any], asked: dict[str, Any]) -> None:
    tools = _list(asked, "tools")
    if not tools:
        body.pop("parallel_tool_calls", None)  # providers refuse it without tools
        return
    functions = [_function(tool, f"tools[{index}]") for index, tool in enumerate(tools)]
    choice = asked.get("tool_choice")
    if isinstance(choice, dict):
        kind = choice.get("type")
        if kind == "function":
            choice = {"type": "function", "function": {"name": choice.get("name")}}
        elif kind == "allowed_tools":
            names = [tool.get("name") for tool in _list(choice, "tools") if isinstance(tool, dict)]
            functions = [tool for tool in functions if tool["function"].get("name") in names]
            choice = choice.get("mode", "auto")
        else:
            raise Refused(400, f"tool_choice of type '{kind}' is not supported here.")
    body["tools"] = functions
    if choice is not None:
        body["tool_choice"] = choice


def _function(tool: Any, where: str) -> dict[str, Any]:
    kind = tool.get("type") if isinstance(tool, dict) else None
    if kind != "function":
        raise Refused(
            400,
            f"{where} is of type '{kind}': tools that the provider runs are not offered here, "
            "only functions of your own.",
            "field_refused",
        )
    known = ("name", "description", "parameters", "strict")
    function = {key: tool[key] for key in known if tool.get(key) is not None}
    return {"type": "function", "function": function}


def _object(holder: dict[str, Any], field: str) -> dict[str, Any]:
    value = holder.get(field)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise Refused(400, f"The field '{field}' must be an object.")
    return value


def _list(holder: dict[str, Any], field: str) -> list[Any]:
    value = holder.get(field)
    if value is None:
        return []
    if not isinstance(value, list):
        raise Refused(400, f"The field '{field}' must be a list.")
    return value
