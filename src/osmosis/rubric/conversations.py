"""What is to be judged: JSONL conversations, an exported or a downloaded run.

A line that cannot be used becomes a :class:`BadRecord` that names it; the others are judged.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, cast

from osmosis.rubric.prompt import Material
from osmosis.wire.errors import NotFound, ValidationFailed

MAX_LINE_BYTES = 64 * 1024 * 1024
TRAJECTORY = re.compile(r"row_(\d+)_run_(\d+)\.json")
BAD_SHOWN = 5


@dataclass(frozen=True)
class Record:
    """One text to judge. ``index`` counts from 1; ``place`` is ``line 7`` or a file's name."""

    index: int
    label: str
    place: str
    material: Material


@dataclass(frozen=True)
class BadRecord:
    """A line or file that holds nothing to judge, and why."""

    index: int
    label: str
    place: str
    problem: str


class _Unusable(Exception):
    """Why a record cannot be judged."""


def count_records(path: Path) -> int:
    """How many records there are, good and bad; raises when there is nothing to read."""
    if path.is_dir():
        return len(_trajectories(path))
    with _opened(path) as file:
        return sum(1 for _, raw in _lines(file) if raw.strip())


def read_records(path: Path, *, with_conversation: bool = False) -> Iterator[Record | BadRecord]:
    """The records in order, read as they are needed.

    ``with_conversation`` gives the judge the messages before the candidate too.
    """
    if path.is_dir():
        yield from _read_trajectories(path, with_conversation=with_conversation)
        return
    index = 0
    with _opened(path) as file:
        for number, raw in _lines(file):
            if not raw.strip():
                continue
            index += 1
            place, label = f"line {number}", f"record[{index}]"
            try:
                value = _object(raw)
                yield Record(
                    index, _label(value) or label, place, _of_line(value, with_conversation)
                )
            except _Unusable as unusable:
                yield BadRecord(index, label, place, str(unusable))


def require_usable(path: Path) -> None:
    """Raise when not one record can be judged: the file is of another kind."""
    problems: list[str] = []
    for record in read_records(path):
        if isinstance(record, Record):
            return
        if len(problems) < BAD_SHOWN:
            problems.append(f"{record.place}: {record.problem}")
    if not problems:
        raise ValidationFailed(
            f"There is nothing to judge in {path}.",
            hint="Each line is a JSON object with 'messages' or 'solution_str'.",
        )
    raise ValidationFailed(
        f"Not one record of {path} can be judged. " + "; ".join(problems) + ".",
        hint="Each line is a JSON object with 'messages' or 'solution_str'.",
    )


# ---------------------------------------------------------------------- lines


def _of_line(value: Mapping[str, Any], with_conversation: bool) -> Material:
    messages, candidate = value.get("messages"), _text(value.get("solution_str"))
    before: Sequence[Mapping[str, Any]] | None = None
    if isinstance(messages, list) and messages:
        candidate, before = _last_answer(cast("list[Any]", messages))
    elif candidate is None:
        exported = value.get("trajectory")
        if isinstance(exported, dict):
            return _of_trajectory(cast("dict[str, Any]", exported), with_conversation)
        raise _Unusable(
            "it needs 'messages' (a list with an assistant's message) or 'solution_str' (text)"
        )
    metadata = value.get("metadata")
    return Material(
        candidate=candidate,
        ground_truth=_text(value.get("ground_truth")),
        original_input=_text(value.get("original_input")),
        metadata=cast("dict[str, Any]", metadata) if isinstance(metadata, dict) else None,
        conversation=before if with_conversation and before else None,
    )


def _last_answer(messages: list[Any]) -> tuple[str, list[dict[str, Any]]]:
    """The last assistant message with text, and the messages before it."""
    for position in range(len(messages) - 1, -1, -1):
        message = messages[position]
        if isinstance(message, dict) and cast("dict[str, Any]", message).get("role") == "assistant":
            text = _content(cast("dict[str, Any]", message).get("content"))
            if text.strip():
                return text, _objects(messages[:position])
    raise _Unusable("'messages' holds no assistant message with text")


def _content(content: Any) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    texts = [part.get("text") for part in _objects(cast("list[Any]", content))]
    return "\n".join(text for text in texts if isinstance(text, str))


def _objects(values: list[Any]) -> list[dict[str, Any]]:
    return [cast("dict[str, Any]", value) for value in values if isinstance(value, dict)]


def _label(value: Mapping[str, Any]) -> str | None:
    given = _text(value.get("id")) or _text(value.get("conversation_id"))
    if given is None and "trajectory" in value and "row_index" in value:
        return f"row_{value['row_index']}_run_{value.get('run_index', 0)}"
    return given


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value.strip() else None


def _object(raw: bytes) -> dict[str, Any]:
    if len(raw) >= MAX_LINE_BYTES:
        raise _Unusable(f"it is longer than {MAX_LINE_BYTES // 2**20} MiB")
    try:
        value = json.loads(raw.decode("utf-8-sig"), parse_constant=_refuse)
    except UnicodeDecodeError as error:
        raise _Unusable(f"it is not UTF-8 (byte {error.start + 1})") from None
    except json.JSONDecodeError as error:
        hint = "; each line must be one whole object" if raw.strip() in (b"[", b"{") else ""
        raise _Unusable(f"it is not JSON: {error.msg} at column {error.colno}{hint}") from None
    except RecursionError:
        raise _Unusable("its JSON is nested too deeply") from None
    except ValueError as error:
        raise _Unusable(f"it is not JSON: {error}") from None
    if not isinstance(value, dict):
        kind = "a list" if isinstance(value, list) else f"a {type(value).__name__}"
        raise _Unusable(f"it is {kind}, not a JSON object")
    return cast("dict[str, Any]", value)


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON value")


def _lines(file: Any) -> Iterator[tuple[int, bytes]]:
    """(number, line); of a line beyond the limit only its start is kept."""
    number = 0
    while raw := file.readline(MAX_LINE_BYTES):
        number += 1
        rest = raw
        while len(rest) >= MAX_LINE_BYTES and not rest.endswith(b"\n"):
            rest = file.readline(MAX_LINE_BYTES)
        yield number, raw


def _opened(path: Path) -> Any:
    try:
        return path.open("rb")
    except FileNotFoundError:
        raise NotFound(f"There is no file {path}.", hint="Check --data.") from None
    except OSError as error:
        raise ValidationFailed(f"Cannot read {path}: {error.strerror}.") from None


# ---------------------------------------------------------------------- a run's trajectories


def _read_trajectories(directory: Path, *, with_conversation: bool) -> Iterator[Record | BadRecord]:
    for index, path in enumerate(_trajectories(directory), start=1):
        label, place = path.stem, f"trajectories/{path.name}"
        try:
            material = _of_trajectory(_object(path.read_bytes()), with_conversation)
        except _Unusable as unusable:
            yield BadRecord(index, label, place, str(unusable))
        else:
            yield Record(index, label, place, material)


def _of_trajectory(document: Mapping[str, Any], with_conversation: bool) -> Material:
    """The last answer of an ATIF document; what was asked and expected stands in it too."""
    listed = document.get("steps")
    steps = _objects(cast("list[Any]", listed)) if isinstance(listed, list) else []
    answers = [
        (position, text)
        for position, step in enumerate(steps)
        if step.get("source") == "agent" and (text := _content(step.get("message"))).strip()
    ]
    if not answers:
        raise _Unusable("it holds no step of the agent with text")
    position, candidate = answers[-1]
    asked = [_content(step.get("message")) for step in steps if step.get("source") == "user"]
    extra = document.get("extra")
    known = cast("dict[str, Any]", extra).get("osmosis") if isinstance(extra, dict) else None
    label = cast("dict[str, Any]", known).get("label") if isinstance(known, dict) else None
    before = [{"role": s.get("source"), "content": _content(s.get("message"))} for s in steps]
    return Material(
        candidate=candidate,
        ground_truth=_text(label),
        original_input=_text(asked[0]) if asked else None,
        conversation=before[:position] if with_conversation and position else None,
    )


def _trajectories(directory: Path) -> list[Path]:
    """In the order of rows and runs; of the run directory, or of its folder of trajectories."""
    folder = directory / "trajectories" if (directory / "trajectories").is_dir() else directory
    found = [
        (int(match[1]), int(match[2]), path)
        for path in folder.iterdir()
        if (match := TRAJECTORY.fullmatch(path.name)) is not None
    ]
    if not found:
        raise ValidationFailed(
            f"There are no trajectories in {directory}.",
            hint="Name a JSONL file, or the directory that `osmosis eval download` made.",
        )
    return [path for _, _, path in sorted(found)]
