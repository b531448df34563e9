"""Every metric of the server stands in docs/operating.md."""

from __future__ import annotations

from pathlib import Path

import pytest

from osmosis.platform.observability.metrics import Metrics

TEXT = (Path(__file__).parents[2] / "docs" / "operating.md").read_text()
SUFFIX = {"counter": "_total", "info": "_info"}
OURS = [
    family.name + SUFFIX.get(family.type, "")
    for family in Metrics().registry.collect()
    if family.name.startswith("osmosis_")
]


@pytest.mark.parametrize("name", OURS)
def test_each_metric_is_documented(name: str) -> None:
    assert f"`{name}`" in TEXT
