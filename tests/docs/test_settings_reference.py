"""Every setting of the server stands in docs/operating.md with its default."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from osmosis.platform.settings import Settings, env_name

TEXT = (Path(__file__).parents[2] / "docs" / "operating.md").read_text()


@pytest.mark.parametrize("name", list(Settings.model_fields))
def test_each_setting_is_documented_with_its_default(name: str) -> None:
    row = re.search(rf"^\| `{env_name(name)}` \| ([^|]*) \|", TEXT, re.M)
    assert row, f"{env_name(name)} is missing from docs/operating.md"
    default = Settings.model_fields[name].default
    if isinstance(default, bool):
        assert row[1] == f"`{default}`"
    elif isinstance(default, int | float):
        assert float(row[1].strip("`")) == default
