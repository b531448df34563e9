"""Awaited calls to the run's own model and judge, so that a rollout needs no HTTP code."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import orjson

from osmosis.rollout.context import ModelLink
from osmosis.rollout.errors import MESSAGE_MAX_CHARS, ModelCallError
from osmosis.rollout.links import PLACEHOLDER_MODEL, active_judge_link, active_link
from osmosis.rollout.model_transport import ModelTransport, close_transport


async def call_model(
    messages: list[dict[str, Any]], *, tools: list[dict[str, Any]] | None = None, **params: Any
) -> dict[str, Any]:
    """Send ``messages`` to the run's own model and return the assistant's message.

    The message's ``content`` is always a string; ``tool_calls`` are there when the model made
    some. Further parameters (``temperature``, ``max_tokens``, ``response_format``, …) go along
    unchanged. There is no time limit but the rollout's own. Raises :class:`ModelCallError`.
    """
    link = active_link("call_model")
    if tools is not None:
        params["tools"] = tools
    return (await _call(link, "call_model", messages, params))["message"]


async def call_judge(messages: list[dict[str, Any]], **params: Any) -> dict[str, Any]:
    """As :func:`call_model`, inside ``Grader.grade``, to the run's judge model."""
    return (await judge_choice(messages, caller="call_judge", **params))["message"]


async def judge_choice(
    messages: list[dict[str, Any]], *, caller: str = "judge_choice", **params: Any
) -> dict[str, Any]:
    """The judge's ``message`` with its ``finish_reason``: whether the answer was cut off."""
    return await _call(active_judge_link(caller), caller, messages, params)


async def _call(
    link: ModelLink, caller: str, messages: list[dict[str, Any]], params: dict[str, Any]
) -> dict[str, Any]:
    if params.get("stream"):
        raise ValueError(f"{caller}() returns whole messages; leave out stream")
    body = {"model": PLACEHOLDER_MODEL, "messages": messages, **params}
    headers = {"Content-Type": "application/json"}
    if link.api_key:
        headers["Authorization"] = f"Bearer {link.api_key}"
    url = f"{link.completions_url.rstrip('/')}/chat/completions"
    try:
        status, content = await ModelTransport.current().post(url, _encode(body), headers)
    except OSError as error:
        reason = str(error) or type(error).__name__
        raise ModelCallError(0, f"the model did not answer: {reason}") from error
    if status != 200:
        raise ModelCallError(status, _error_text(content))
    return _choice(content)


_closers: list[Callable[[], Awaitable[None]]] = []


def also_close(closer: Callable[[], Awaitable[None]]) -> None:
    """Let :func:`close_sessions` close the connections of another client library too."""
    _closers.append(closer)


async def close_sessions() -> None:
    """Close the running loop's connections; the server calls this when it ends."""
    for close in _closers:
        await close()
    await close_transport()


def _encode(body: dict[str, Any]) -> bytes:
    try:
        return orjson.dumps(body, option=orjson.OPT_NON_STR_KEYS)
    except TypeError:
        # Lone surrogates and integers beyond 64 bits are legal JSON, but not to orjson.
        return json.dumps(body, allow_nan=False).encode()


def _choice(content: bytes) -> dict[str, Any]:
    try:
        choice = orjson.loads(content)["choices"][0]
        message = choice["message"]
        message["content"] = _text(message.get("content"))
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        shown = content[:200].decode("utf-8", "replace")
        raise ModelCallError(200, f"the answer is no chat completion: {shown!r}") from error
    message.setdefault("role", "assistant")
    return choice


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = (part.get("text") for part in content if isinstance(part, dict))
        return "\n".join(part for part in parts if isinstance(part, str))
    return ""


def _error_text(content: bytes) -> str:
    text = content.decode("utf-8", "replace").strip()
    try:
        body = orjson.loads(content)
    except ValueError:
        body = None
    if isinstance(body, dict):
        error = body.get("error")
        nested = error.get("message") if isinstance(error, dict) else error
        candidates = (nested, body.get("detail"), body.get("message"), text)
        text = next(found for found in candidates if isinstance(found, str))
    return text[:MESSAGE_MAX_CHARS] or "the model refused the call without a word"
