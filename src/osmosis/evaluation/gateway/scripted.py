"""Adapter 3: ``scripted/FILE``, a model that answers from rules in a workspace file.

For tests and dry runs: seeded mistakes, tool calls, latency and errors through the very path that
real models take. Each random choice comes from a hash of (seed, conversation, how many times this
conversation was asked before), so it does not depend on the order in which calls arrive.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import re
import time
from collections import OrderedDict
from pathlib import Path
from typing import Any

from osmosis.evaluation.gateway.chat import ChatRequest, Reply, text_of
from osmosis.evaluation.gateway.event_stream import EventStream
from osmosis.evaluation.gateway.failures import UpstreamFailure, may_repeat
from osmosis.evaluation.gateway.json_codec import dumps, loads
from osmosis.evaluation.gateway.provider_errors import kind_of_error
from osmosis.evaluation.gateway.script_format import Rule, Script, read_script
from osmosis.evaluation.gateway.script_template import Template, TemplateError, number_or_text
from osmosis.evaluation.gateway.synthetic_stream import tell
from osmosis.wire.errors import RunFailed

CONVERSATIONS_REMEMBERED = 100_000


class ScriptedModel:
    """One file of rules, read when the model is prepared."""

    provider = "scripted"
    scripted = True
    base_url = None
    identity = None
    price_name = None

    def __init__(self, path: str, root: Path, file: str) -> None:
        self.path = path
        self.limiter_key = ("scripted", path)
        self._root = root
        self._file = file
        self._script: Script | None = None
        self._asked: OrderedDict[bytes, int] = OrderedDict()

    async def prepare(self) -> Script:
        root = self._root.resolve()
        place = (root / self._file).resolve()
        if not self._file or not place.is_relative_to(root):
            raise RunFailed(
                "model_name_invalid",
                f"model_path '{self.path}' must name a file inside the workspace.",
                hint="Write scripted/PATH with PATH relative to the workspace root, for example "
                "scripted/models/multiply.toml.",
            )
        self._script = await asyncio.to_thread(read_script, place, self._file)
        return self._script

    async def complete(self, chat: ChatRequest) -> Reply:
        script = self._script or await self.prepare()
        body = chat.body
        messages: list[dict[str, Any]] = body["messages"]
        self._check_conversation(messages)
        digest = hashlib.blake2b(dumps([chat.route, messages]), digest_size=16).digest()
        nth = self._asked.get(digest, 0)
        self._asked[digest] = nth + 1
        if len(self._asked) > CONVERSATIONS_REMEMBERED:
            self._asked.popitem(last=False)
        # The digest already holds the conversation; the seed makes it this file's own.
        chance = random.Random(digest + f"{script.seed},{nth}".encode())  # noqa: S311
        fails, errs, jitter = chance.random(), chance.random(), chance.random()

        where, rule, names = self._find_rule(script, chat, messages)
        latency_ms = script.latency_ms if rule.latency_ms is None else rule.latency_ms
        delay_s = (latency_ms + jitter * script.jitter_ms) / 1000
        if delay_s > 0:
            await asyncio.sleep(delay_s)
        if fails < script.error_rate:
            raise _failure(script.error_status, "scripted failure at random")
        if rule.error is not None and (rule.error.times is None or nth < rule.error.times):
            raise _failure(rule.error.status, rule.error.message, rule.error.retry_after_s)
        mistake_rate = script.mistake_rate if rule.mistake_rate is None else rule.mistake_rate
        mistaken = rule.mistake is not None and errs < mistake_rate
        try:
            template = rule.mistake if mistaken else rule.reply
            text = template.render(names, chance.randint) if template else ""
            calls = self._tool_calls(
                rule, where, body, names=names, chance=chance, unique=digest.hex()[:12]
            )
        except TemplateError as error:
            raise self._problem(f"{where}: {error}") from None
        return Reply.of_completion(
            _completion(chat, text, calls, f"{digest.hex()[:16]}{nth:x}"), chat.requested_model
        )

    async def stream(self, chat: ChatRequest, out: EventStream) -> Reply:
        reply = await self.complete(chat)
        await tell(reply, out, by_word=True)
        return reply

    async def close(self) -> None:
        return None

    def _find_rule(
        self, script: Script, chat: ChatRequest, messages: list[dict[str, Any]]
    ) -> tuple[str, Rule, dict[str, Any]]:
        asked = next((m for m in reversed(messages) if m["role"] == "user"), {})
        text = text_of(asked.get("content"))
        turn = sum(message["role"] == "assistant" for message in messages)
        tool_name, tool_result = _last_tool(messages)
        for index, rule in enumerate(script.rules):
            if rule.route is not None and rule.route != chat.route:
                continue
            if rule.turn is not None and rule.turn != turn:
                continue
            if rule.after_tool is not None and rule.after_tool != tool_name:
                continue
            found = rule.match.search(text) if rule.match else None
            if rule.match is not None and found is None:
                continue
            names: dict[str, Any] = {"text": text, "turn": turn}
            names["tool_name"], names["tool_result"] = tool_name or "", tool_result
            if found is not None:
                names.update((k, number_or_text(v or "")) for k, v in found.groupdict().items())
            return f"rules[{index}]", rule, names
        raise self._problem(f"no rule answers {text[:200]!r}; end with a rule without conditions")

    def _check_conversation(self, messages: list[dict[str, Any]]) -> None:
        """As providers do: a tool's result must belong to a call that was made."""
        known: set[str] = set()
        for index, message in enumerate(messages):
            for call in message.get("tool_calls") or ():
                if isinstance(call, dict) and isinstance(call.get("id"), str):
                    known.add(call["id"])
            if message["role"] == "tool" and message.get("tool_call_id") not in known:
                text = f"messages[{index}]: 'tool_call_id' answers no tool call made before"
                raise _failure(400, text)

    def _tool_calls(
        self,
        rule: Rule,
        where: str,
        body: dict[str, Any],
        *,
        names: dict[str, Any],
        chance: random.Random,
        unique: str,
    ) -> list[dict[str, Any]]:
        if not rule.tool_calls:
            return []
        offered = [
            tool["function"].get("name")
            for tool in body.get("tools") or ()
            if isinstance(tool, dict) and isinstance(tool.get("function"), dict)
        ]
        calls: list[dict[str, Any]] = []
        for number, call in enumerate(rule.tool_calls):
            if call.name not in offered:
                shown = ", ".join(map(str, offered)) or "none"
                raise self._problem(
                    f"{where} calls the tool '{call.name}', but the request offers: {shown}"
                )
            arguments = _filled(call.arguments, names, chance)
            calls.append(
                {
                    "id": f"call_{unique}_{number}",
                    "type": "function",
                    "function": {"name": call.name, "arguments": dumps(arguments).decode()},
                }
            )
        return calls

    def _problem(self, text: str) -> UpstreamFailure:
        return _failure(400, f"The scripted model {self._file}: {text}.")


def _completion(
    chat: ChatRequest, text: str, calls: list[dict[str, Any]], unique: str
) -> dict[str, Any]:
    finish = "tool_calls" if calls else "stop"
    limit = chat.body.get("max_completion_tokens") or chat.body.get("max_tokens")
    words = re.findall(r"\s*\S+", text)
    if isinstance(limit, int) and len(words) > limit:
        text, finish = "".join(words[:limit]), "length"
        words = words[:limit]
    prompt = sum(len(text_of(m.get("content")).split()) for m in chat.body["messages"])
    spoken = len(words) + sum(len(call["function"]["arguments"].split()) for call in calls)
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if calls:
        message["tool_calls"] = calls
    usage = {"prompt_tokens": max(1, prompt), "completion_tokens": max(1, spoken)}
    usage["total_tokens"] = sum(usage.values())
    return {
        "id": f"chatcmpl-scripted-{unique}",
        "created": int(time.time()),
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": usage,
    }


def _last_tool(messages: list[dict[str, Any]]) -> tuple[str | None, Any]:
    """Name and result of the tool whose answer is the last message."""
    last = messages[-1]
    if last["role"] != "tool":
        return None, ""
    name = last.get("name")
    for message in reversed(messages):
        for call in message.get("tool_calls") or ():
            if isinstance(call, dict) and call.get("id") == last.get("tool_call_id"):
                name = (call.get("function") or {}).get("name", name)
    text = text_of(last.get("content"))
    if text.lstrip()[:1] in ("{", "["):
        try:
            return name, loads(text)
        except ValueError:
            return name, text
    return name, number_or_text(text)


def _filled(value: Any, names: dict[str, Any], chance: random.Random) -> Any:
    if isinstance(value, Template):
        return value.value(names, chance.randint)
    if isinstance(value, dict):
        return {key: _filled(item, names, chance) for key, item in value.items()}
    if isinstance(value, list):
        return [_filled(item, names, chance) for item in value]
    return value


def _failure(status: int, message: str, retry_after_s: float | None = None) -> UpstreamFailure:
    kind = kind_of_error(status, message)
    return UpstreamFailure(
        kind,
        message,
        status=status,
        type="scripted",
        retryable=may_repeat(status, kind),
        retry_after_s=retry_after_s,
    )
