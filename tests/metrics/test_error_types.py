"""Which failures are infrastructure."""

from __future__ import annotations

import pytest

from osmosis.metrics import category_of, is_infrastructure


@pytest.mark.parametrize(
    ("error_type", "category"),
    [
        ("agent_error", "agent"),
        ("timeout", "timeout"),
        ("http_error", "provider"),
        ("model_rate_limited", "provider"),
        ("supervisor_error", "platform"),
        ("never heard of it", "agent"),
        (None, None),
    ],
)
def test_every_error_type_has_a_party_behind_it(error_type: str | None, category: str) -> None:
    assert category_of(error_type) == category


def test_no_error_and_the_agents_own_are_not_infrastructure() -> None:
    assert not is_infrastructure(None)
    assert not is_infrastructure("grader_failed")
    assert is_infrastructure("callback_timeout")
