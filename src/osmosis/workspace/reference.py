"""The config reference, written from the models, so that it cannot disagree with them."""

from __future__ import annotations

import types
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from osmosis.workspace.config import SECTIONS

_NAMES = {int: "integer", float: "number", str: "text", bool: "true or false"}


def config_reference() -> str:
    """A Markdown section for each typed section of an evaluation config."""
    parts: list[str] = []
    for name, model in SECTIONS.items():
        if model is not None:
            parts.append(f"### `[{name}]`\n\n{_table(model)}")
    return "\n\n".join(parts)


def _table(model: type[BaseModel]) -> str:
    rows = ["| key | type | default | meaning |", "|---|---|---|---|"]
    for name, field in model.model_fields.items():
        meaning = (field.description or "").replace("|", "\\|")
        rows.append(f"| `{name}` | {_type(field)} | {_default(field)} | {meaning} |")
    return "\n".join(rows)


def _type(field: FieldInfo) -> str:
    text = _type_name(field.annotation)
    low = high = ""
    for rule in field.metadata:
        if (bound := getattr(rule, "ge", None)) is not None:
            low = f"≥ {bound:.15g}"
        if (bound := getattr(rule, "gt", None)) is not None:
            low = f"> {bound:.15g}"
        if (bound := getattr(rule, "le", None)) is not None:
            high = f"≤ {bound:.15g}"
    bounds = ", ".join(part for part in (low, high) if part)
    return f"{text} {bounds}".strip()


def _type_name(annotation: Any) -> str:
    origin = get_origin(annotation)
    if origin is Literal:
        return " or ".join(f'`"{choice}"`' for choice in get_args(annotation))
    if origin in (Union, types.UnionType):
        chosen = [part for part in get_args(annotation) if part is not type(None)]
        return _type_name(chosen[0])
    if origin is list:
        return "list of text"
    if origin is not None and hasattr(annotation, "__metadata__"):
        return _type_name(get_args(annotation)[0])
    return _NAMES.get(annotation, "text")


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    if field.default is None:
        return "none"
    value = field.default
    if isinstance(value, str):
        return f'`"{value}"`'
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"
