"""The templates: package data with ``{{placeholders}}``."""

from __future__ import annotations

import re
from importlib import metadata, resources

_PLACEHOLDER = re.compile(r"\{\{(\w+)\}\}")
_SUFFIX = ".template"


def render(path: str, **values: str) -> str:
    """The text of template ``path`` (such as ``rollout/main.py``) with its placeholders filled."""
    source = resources.files("osmosis.workspace.scaffold") / "templates" / f"{path}{_SUFFIX}"
    text = source.read_text(encoding="utf-8")
    return _PLACEHOLDER.sub(lambda found: values[found.group(1)], text)


def sdk_version() -> str:
    """Our own version, for the lower bound of a dependency."""
    try:
        return metadata.version("osmosis-platform")
    except metadata.PackageNotFoundError:
        return "0.1.0"
