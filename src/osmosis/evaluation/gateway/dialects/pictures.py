"""Pictures that a tool returned, for models whose tool messages hold text alone."""

from __future__ import annotations

from typing import Any

HEADING = "Images from the tool results above:"


def as_parts_of_user(pictures: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Parts for a user message that follows the results."""
    return [{"type": "text", "text": HEADING}, *pictures]
