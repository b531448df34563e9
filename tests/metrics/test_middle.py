"""A place in the order of values says how far away a rank is."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from osmosis.metrics.middle import Middle

few = st.integers(0, 6).map(float)


@given(few, st.lists(few, min_size=1), st.data())
def test_a_rank_is_so_many_values_away(start: float, values: list[float], data: st.DataObject):
    middle = Middle(start, 0, 0)
    for value in values:
        middle.add(value)
    ascending = sorted(values)
    rank = data.draw(st.integers(0, len(values) - 1))
    steps = middle.steps_to(rank)
    if steps == 0:
        found = start
    elif steps > 0:
        found = [value for value in ascending if value > start][steps - 1]
    else:
        found = [value for value in reversed(ascending) if value < start][-steps - 1]
    assert found == ascending[rank]
