"""What is dealt out to the slices of a run adds up to the whole."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from osmosis.evaluation.effective import effective_values, samples_in_flight
from osmosis.evaluation.plan import calls_at_once
from osmosis.evaluation.slice import Slice
from tests.evaluation.engine_fakes import FakeEnvironment, plan


@given(total=st.integers(0, 5000), count=st.integers(1, 64))
def test_shares_add_up_and_differ_by_one_at_most(total, count):
    shares = [Slice(index, count).share(total) for index in range(count)]
    assert sum(shares) == total
    assert max(shares) - min(shares) <= 1


@given(rows=st.integers(0, 300), count=st.integers(1, 64))
def test_each_row_is_in_one_slice_and_a_share_is_the_number_of_its_rows(rows, count):
    for index in range(count):
        part = Slice(index, count)
        held = [row for row in range(rows) if part.holds(row)]
        assert held == list(range(rows))[index::count]
        assert len(held) == part.share(rows)


def test_the_ceilings_are_shared_and_the_effective_values_are_the_runs(tmp_path):
    slices = [
        plan(tmp_path, batch_size=1000, selected_rows=5000, n=2, slice=Slice(index, 3))
        for index in range(3)
    ]
    assert sum(samples_in_flight(each, None) for each in slices) == 1000
    assert sum(samples_in_flight(each, 100) for each in slices) == 100
    assert sum(calls_at_once(each) for each in slices) == 1000
    assert sum(each.planned_samples for each in slices) == 10_000

    class Process:
        max_concurrent = 100

    told = [effective_values(each, Process(), FakeEnvironment(), {}) for each in slices]
    assert told[0] == told[1] == told[2]
    assert (told[0]["batch_size"], told[0]["in_flight"], told[0]["shards"]) == (1000, 100, 3)
