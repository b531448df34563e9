"""The conversation of a Responses request, as the messages of a chat completion."""

from __future__ import annotations

from typing import Any

from osmosis.evaluation.gateway.dialects.pictures import as_parts_of_user
from osmosis.evaluation.gateway.failures import Refused

ROLES = {"user": "user", "assistant": "assistant", "system": "system", "developer": "system"}
TEXT_PARTS = ("input_text", "output_text", "text", "reasoning_text", "summary_text")


def messages_of(instructions: Any, given: Any) -> list[dict[str, Any]]:
    """``instructions`` and ``input`` together, or Refused."""
    conversation = _Conversation()
    if instructions is not None:
        if not isinstance(instructions, str):
            raise Refused(400, "The field 'instructions' must be a string.")
        conversation.add_system(instructions)
    if isinstance(given, str):
        conversation.add({"role": "user", "content": given})
    elif isinstance(given, list) and given:
        for index, item in enumerate(given):
            _add_item(conversation, item, f"input[{index}]")
    else:
        raise Refused(400, "The field 'input' must be a string or a list with at least one item.")
    return conversation.finished()


class _Conversation:
    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self._pictures: list[dict[str, Any]] = []

    def add(self, message: dict[str, Any]) -> None:
        self._show_pictures()
        self.messages.append(message)

    def add_system(self, text: Any) -> None:
        """One system message at the start: chat templates of many models accept no second."""
        last = self.messages[-1] if self.messages else None
        if last and last["role"] == "system" and isinstance(text, str):
            last["content"] += "\n\n" + text
        else:
            self.add({"role": "system", "content": text})

    def add_result(self, call_id: str, text: str, pictures: list[dict[str, Any]]) -> None:
        self.messages.append({"role": "tool", "tool_call_id": call_id, "content": text})
        self._pictures.extend(pictures)

    def turn(self) -> dict[str, Any]:
        """The assistant's turn that is growing, begun where there is none."""
        if not self.messages or self.messages[-1]["role"] != "assistant":
            self.add({"role": "assistant", "content": None})
        return self.messages[-1]

    def finished(self) -> list[dict[str, Any]]:
        self._show_pictures()
        for message in self.messages:
            if message["content"] is None and not message.get("tool_calls"):
                message["content"] = ""
        return self.messages

    def _show_pictures(self) -> None:
        """A tool message holds text alone, so pictures follow as the user's."""
        if self._pictures:
            parts = as_parts_of_user(self._pictures)
            self._pictures = []
            self.messages.append({"role": "user", "content": parts})


def _add_item(conversation: _Conversation, item: Any, where: str) -> None:
    if not isinstance(item, dict):
        raise Refused(400, f"{where} must be an object.")
    kind = item.get("type") or "message"
    if kind == "message":
        _add_message(conversation, item, where)
    elif kind == "function_call":
        call = {
            "id": _text(item, "call_id", where),
            "type": "function",
            "function": {
                "name": _text(item, "name", where),
                "arguments": _text(item, "arguments", where),
            },
        }
        conversation.turn().setdefault("tool_calls", []).append(call)
    elif kind == "function_call_output":
        output = item.get("output")
        parts = _parts(output, f"{where}.output")
        conversation.add_result(
            _text(item, "call_id", where),
            _text_of(parts),
            [part for part in parts if part["type"] != "text"],
        )
    elif kind == "reasoning":
        thought = _text_of(_parts(item.get("content") or item.get("summary") or [], where))
        if thought:
            turn = conversation.turn()
            turn["reasoning_content"] = turn.get("reasoning_content", "") + thought
    elif kind == "item_reference":
        raise Refused(
            400,
            f"{where} is an 'item_reference', but answers are not stored here: "
            "send the item itself.",
            "field_refused",
        )
    else:
        raise Refused(
            400,
            f"{where} is of type '{kind}', which is not supported here. Messages, function calls, "
            "their outputs and reasoning are.",
            "field_refused",
        )


def _add_message(conversation: _Conversation, item: dict[str, Any], where: str) -> None:
    given = item.get("role")
    role = ROLES.get(given) if isinstance(given, str) else None
    if role is None:
        raise Refused(400, f"{where}.role must be one of {', '.join(ROLES)}.")
    parts = _parts(item.get("content"), f"{where}.content")
    if role == "assistant":
        text = _text_of(parts)
        last = conversation.messages[-1] if conversation.messages else None
        if last and last["role"] == "assistant" and last["content"] is None:
            last["content"] = text
        else:
            conversation.add({"role": "assistant", "content": text})
    elif role == "system":
        conversation.add_system(_plain(parts))
    else:
        conversation.add({"role": role, "content": _plain(parts)})


def _parts(content: Any, where: str) -> list[dict[str, Any]]:
    """A content of either shape as parts of a chat message."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if not isinstance(content, list):
        raise Refused(400, f"{where} must be a string or a list of parts.")
    return [_part(part, f"{where}[{index}]") for index, part in enumerate(content)]


def _part(part: Any, where: str) -> dict[str, Any]:
    kind = part.get("type") if isinstance(part, dict) else None
    if kind in TEXT_PARTS:
        return {"type": "text", "text": _text(part, "text", where)}
    if kind == "refusal":
        return {"type": "text", "text": _text(part, "refusal", where)}
    if kind == "input_image" and isinstance(part.get("image_url"), str):
        image = {"url": part["image_url"]}
        if isinstance(part.get("detail"), str):
            image["detail"] = part["detail"]
        return {"type": "image_url", "image_url": image}
    if kind == "input_file" and isinstance(part.get("file_data"), str):
        file = {name: part[name] for name in ("filename", "file_data") if part.get(name)}
        return {"type": "file", "file": file}
    if kind == "input_audio":
        return part
    if kind in ("input_image", "input_file"):
        text = "must hold its data: files are not stored here, so an id or address names nothing."
        raise Refused(400, f"{where} {text}", "field_refused")
    raise Refused(400, f"{where} is a part of type '{kind}', which is not supported here.")


def _plain(parts: list[dict[str, Any]]) -> Any:
    """A string where one suffices: not every server takes a list."""
    if len(parts) == 1 and parts[0]["type"] == "text":
        return parts[0]["text"]
    return parts if parts else ""


def _text_of(parts: list[dict[str, Any]]) -> str:
    return "".join(part["text"] for part in parts if part["type"] == "text")


def _text(holder: dict[str, Any], field: str, where: str) -> str:
    value = holder.get(field)
    if not isinstance(value, str):
        raise Refused(400, f"{where}.{field} must be a string.")
    return value
