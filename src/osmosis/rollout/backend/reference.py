"""Objects given as themselves or as ``"module:attribute"``."""

from __future__ import annotations

import importlib
from typing import Any


def resolve(reference: Any) -> Any:
    """The object that a ``"module:attribute"`` string names; any other value is itself."""
    if not isinstance(reference, str):
        return reference
    module_name, separator, attribute = reference.partition(":")
    if not (separator and module_name and attribute):
        raise ValueError(f"{reference!r} is not of the form 'module:attribute'")
    found: Any = importlib.import_module(module_name)
    for part in attribute.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise ValueError(f"module {module_name!r} has no attribute {attribute!r}") from None
    return found
