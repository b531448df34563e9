from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from osmosis.worker.done_set import DoneSet


@given(st.sets(st.tuples(st.integers(0, 5000), st.integers(0, 6))))
def test_it_behaves_as_a_set_of_pairs(pairs):
    done = DoneSet(7)
    for row, run in [*pairs, *pairs]:
        done.add(row, run)
    assert set(done) == pairs
    assert len(done) == len(pairs)
    assert all(pair in done for pair in pairs)
    assert (6000, 0) not in done


def test_a_million_samples_take_little_memory():
    done = DoneSet(1)
    for row in range(0, 1_000_000, 1000):
        done.add(row, 0)
    assert len(done._bits) <= 125_000
