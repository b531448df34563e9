"""A TOML file as people see it: its syntax errors and its keys have lines and columns."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from osmosis.wire.errors import NotFound, ValidationFailed

MAX_CONFIG_BYTES = 1_000_000

_POSITION = re.compile(r"\s*\(at (?:line (\d+), column (\d+)|end of document)\)$")
_TABLE = re.compile(r"^\s*\[\[?\s*([^\]]+?)\s*\]\]?\s*(?:#.*)?$")
_KEY = re.compile(r"""^\s*("[^"]*"|'[^']*'|[A-Za-z0-9_.-]+)\s*=""")


def read_toml(path: Path, *, shown: str | None = None) -> tuple[dict[str, Any], str]:
    """The parsed document and its text. ``shown`` is the path that messages name."""
    name = shown or str(path)
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        raise NotFound(f"There is no file {name}.") from None
    except OSError as error:
        raise ValidationFailed(f"Cannot read {name}: {error.strerror}.") from None
    if len(raw) > MAX_CONFIG_BYTES:
        raise ValidationFailed(f"{name} is larger than {MAX_CONFIG_BYTES} bytes; not a config.")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise ValidationFailed(
            f"{name}, line {line}: not UTF-8 text.", hint="Save the file as UTF-8."
        ) from None
    try:
        return tomllib.loads(text), text
    except tomllib.TOMLDecodeError as error:
        raise _syntax_error(name, text, str(error)) from None


def line_of(text: str, dotted_key: str) -> int | None:
    """The 1-based line where ``section.key`` (or the table ``section``) is written, if found."""
    table = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _TABLE.match(line):
            table = _bare(header.group(1))
            if table == dotted_key:
                return number
        elif key := _KEY.match(line):
            full = f"{table}.{_bare(key.group(1))}" if table else _bare(key.group(1))
            if full == dotted_key:
                return number
    return None


def _syntax_error(name: str, text: str, message: str) -> ValidationFailed:
    lines = text.splitlines() or [""]
    found = _POSITION.search(message)
    if found and found.group(1):
        line, column = int(found.group(1)), int(found.group(2))
    else:
        line, column = len(lines), len(lines[-1]) + 1
    reason = _POSITION.sub("", message)
    source = lines[line - 1] if line <= len(lines) else ""
    return ValidationFailed(
        f"{name}, line {line}, column {column}: {reason}.",
        hint=f"The line reads: {source.strip()}" if source.strip() else None,
        details={"file": name, "line": line, "column": column},
    )


def _bare(key: str) -> str:
    return key.strip().strip("\"'")
