"""The conversation of an Anthropic Messages request, as the messages of a chat completion."""

from __future__ import annotations

from typing import Any

from osmosis.evaluation.gateway.dialects.pictures import as_parts_of_user
from osmosis.evaluation.gateway.failures import Refused
from osmosis.evaluation.gateway.json_codec import dumps


def messages_of(system: Any, given: Any) -> list[dict[str, Any]]:
    """``system`` and ``messages`` together, or Refused."""
    messages: list[dict[str, Any]] = []
    if system is not None:
        text = _text_alone(_blocks(system, "system"), "system")
        if text:
            messages.append({"role": "system", "content": text})
    if not isinstance(given, list) or not given:
        raise Refused(400, "The field 'messages' must be a list with at least one message.")
    for index, message in enumerate(given):
        where = f"messages[{index}]"
        if not isinstance(message, dict):
            raise Refused(400, f"{where} must be an object.")
        role, blocks = message.get("role"), _blocks(message.get("content"), f"{where}.content")
        if role == "user":
            messages.extend(_of_user(blocks, where))
        elif role == "assistant":
            messages.append(_of_assistant(blocks, where))
        elif role == "system":
            messages.append({"role": "system", "content": _text_alone(blocks, where)})
        else:
            raise Refused(400, f"{where}.role must be user, assistant or system.")
    return messages


def _of_user(blocks: list[dict[str, Any]], where: str) -> list[dict[str, Any]]:
    """Results of tools are messages of their own, before what the user says."""
    results: list[dict[str, Any]] = []
    pictures: list[dict[str, Any]] = []
    parts: list[dict[str, Any]] = []
    for block in blocks:
        if block["type"] != "tool_result":
            parts.append(_part(block, where))
            continue
        content = block.get("content")
        inner = [] if content is None else _blocks(content, f"{where}.content")
        made = [_part(piece, where) for piece in inner]
        text = "".join(part["text"] for part in made if part["type"] == "text")
        results.append(
            {"role": "tool", "tool_call_id": _text(block, "tool_use_id", where), "content": text}
        )
        pictures.extend(part for part in made if part["type"] != "text")
    if pictures:
        parts = [*as_parts_of_user(pictures), *parts]
    if len(parts) == 1 and parts[0]["type"] == "text":
        results.append({"role": "user", "content": parts[0]["text"]})
    elif parts or not results:
        results.append({"role": "user", "content": parts or ""})
    return results


def _of_assistant(blocks: list[dict[str, Any]], where: str) -> dict[str, Any]:
    texts: list[str] = []
    thoughts: list[str] = []
    signed: list[dict[str, Any]] = []
    calls: list[dict[str, Any]] = []
    for block in blocks:
        match block["type"]:
            case "text":
                texts.append(_text(block, "text", where))
            case "tool_use":
                function = {
                    "name": _text(block, "name", where),
                    "arguments": dumps(block.get("input") or {}).decode(),
                }
                call = {"id": _text(block, "id", where), "type": "function", "function": function}
                calls.append(call)
            case "thinking":
                thoughts.append(_text(block, "thinking", where))
                if block.get("signature"):
                    signed.append(block)
            case "redacted_thinking":
                signed.append(block)
            case kind:
                raise _unsupported(kind, where)
    text = "".join(texts)
    message: dict[str, Any] = {"role": "assistant", "content": text or (None if calls else "")}
    if calls:
        message["tool_calls"] = calls
    if any(thoughts):
        message["reasoning_content"] = "".join(thoughts)
    if signed:
        message["thinking_blocks"] = signed
    return message


def _part(block: dict[str, Any], where: str) -> dict[str, Any]:
    """A block of the user's as a part of a chat message."""
    kind, source = block["type"], block.get("source")
    if kind == "text":
        return {"type": "text", "text": _text(block, "text", where)}
    if kind == "image" and isinstance(source, dict):
        if source.get("type") == "base64":
            return {"type": "image_url", "image_url": {"url": _data_url(source, where)}}
        if source.get("type") == "url":
            return {"type": "image_url", "image_url": {"url": _text(source, "url", where)}}
    if kind == "document" and isinstance(source, dict):
        if source.get("type") == "text":
            return {"type": "text", "text": _text(source, "data", where)}
        if source.get("type") == "base64":
            name = block.get("title") or "document.pdf"
            return {
                "type": "file",
                "file": {"filename": name, "file_data": _data_url(source, where)},
            }
    if kind in ("image", "document"):
        raise Refused(
            400,
            f"{where}: the source of a block of type '{kind}' must hold its data; files are not "
            "stored here.",
            "field_refused",
        )
    raise _unsupported(kind, where)


def _data_url(source: dict[str, Any], where: str) -> str:
    return f"data:{_text(source, 'media_type', where)};base64,{_text(source, 'data', where)}"


def _blocks(content: Any, where: str) -> list[dict[str, Any]]:
    """A content of either shape as a list of blocks that have a type."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if not isinstance(content, list):
        raise Refused(400, f"{where} must be a string or a list of blocks.")
    for index, block in enumerate(content):
        if not isinstance(block, dict) or not isinstance(block.get("type"), str):
            raise Refused(400, f"{where}[{index}] must be an object with a 'type'.")
    return content


def _text_alone(blocks: list[dict[str, Any]], where: str) -> str:
    for block in blocks:
        if block["type"] != "text":
            raise _unsupported(block["type"], where)
    return "\n\n".join(_text(block, "text", where) for block in blocks)


def _text(holder: dict[str, Any], field: str, where: str) -> str:
    value = holder.get(field)
    if not isinstance(value, str):
        raise Refused(400, f"{where}: '{field}' of a block must be a string.")
    return value


def _unsupported(kind: str, where: str) -> Refused:
    return Refused(
        400, f"{where}: a block of type '{kind}' is not supported here.", "field_refused"
    )
