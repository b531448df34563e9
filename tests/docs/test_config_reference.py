"""Every key of a config stands in docs/config.md with the default that the code has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from osmosis.workspace.config import SECTIONS

TEXT = (Path(__file__).parents[2] / "docs" / "config.md").read_text()

KEYS = [
    (section, name)
    for section, model in SECTIONS.items()
    if model is not None and section != "secrets"
    for name in model.model_fields
]


@pytest.mark.parametrize(("section", "name"), KEYS)
def test_each_key_is_documented_with_its_default(section: str, name: str) -> None:
    model = SECTIONS[section]
    assert model is not None
    row = re.search(rf"^\| `{name}` \|(.*)$", TEXT, re.M)
    assert row, f"{section}.{name} is missing from docs/config.md"
    default = model.model_fields[name].default
    if isinstance(default, int | float) and not isinstance(default, bool):
        assert f"| {default:g} |" in row[0] or f"| {default} |" in row[0]
