"""Templates: found beside this file, everything escaped, the formats as filters."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.responses import HTMLResponse

from osmosis.platform.web import compare_view, formats
from osmosis.platform.web.run_view import is_replay, is_scripted

HERE = Path(__file__).parent
STATIC = HERE / "static"


def render(template: str, **values: Any) -> str:
    """A template, or one block's file, as text."""
    return _environment().get_template(template).render(**values)


def page(template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
    """A page as an answer."""
    return HTMLResponse(render(template, **values), status_code=status)


@cache
def static_url(name: str) -> str:
    """The address of a static file, new whenever its contents are."""
    version = hashlib.sha256((STATIC / name).read_bytes()).hexdigest()[:10]
    return f"/static/{name}?v={version}"


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for name in (
        "count",
        "percent",
        "number",
        "duration",
        "money",
        "moment",
        "clock",
        "shortened",
        "content",
        "pretty",
    ):
        environment.filters[name] = getattr(formats, name)
    for name in ("amount", "signed", "p_value", "setting"):
        environment.filters[name] = getattr(compare_view, name)
    names: dict[str, Any] = environment.globals
    names.update(static_url=static_url, is_replay=is_replay, is_scripted=is_scripted)
    names.update(rows_of=compare_view.rows_of)
    return environment
