"""How many shards a run gets, and how many processors there are for them."""

from __future__ import annotations

import os

import pytest

from osmosis.worker.shard_count import shard_count
from osmosis.worker.usable_cores import usable_cores
from tests.worker.runner_api import FakePlatform


@pytest.mark.parametrize(
    ("batch_size", "rows", "n", "expected"),
    [
        (1, 10_000, 1, 1),
        (64, 10_000, 1, 1),
        (511, 10_000, 1, 1),
        (512, 10_000, 1, 2),
        (1024, 10_000, 1, 4),
        (4096, 100_000, 1, 8),
        (1024, 600, 1, 2),
        (1024, 100, 1, 1),
        (1024, 2, 1000, 2),
        (1024, 0, 1, 1),
    ],
)
def test_a_shard_for_each_256_samples_that_can_be_in_flight(batch_size, rows, n, expected):
    spec = spec_of(batch_size=batch_size, selected_rows=rows, n=n)
    assert shard_count(spec, cores=8) == expected


@pytest.mark.parametrize(("batch_size", "expected"), [(127, 1), (128, 2), (4096, 8)])
def test_a_shard_for_each_64_samples_whose_calls_go_through_litellm(batch_size, expected):
    more = {"batch_size": batch_size, "selected_rows": 10_000}
    assert shard_count(spec_of(model_path="anthropic/claude", **more), cores=8) == expected
    judged = spec_of(advanced={"judge_model": "gemini/gemini-2.5-pro"}, **more)
    assert shard_count(judged, cores=8) == expected


@pytest.mark.parametrize(
    ("cores", "most", "calls", "expected"),
    [(2, None, None, 2), (1, None, None, 1), (8, 3, None, 3), (8, None, 5, 5), (8, None, 1, 1)],
)
def test_no_more_than_processors_setting_and_calls_allow(cores, most, calls, expected):
    advanced = {} if calls is None else {"max_concurrent_calls": calls}
    spec = spec_of(batch_size=4096, selected_rows=100_000, advanced=advanced)
    assert shard_count(spec, cores=cores, most=most) == expected


def test_a_quota_of_any_group_above_bounds_the_processors(tmp_path):
    group = tmp_path / "cgroup" / "machine" / "job"
    group.mkdir(parents=True)
    membership = tmp_path / "membership"
    membership.write_text("0::/machine/job\n")
    allowed = len(os.sched_getaffinity(0))

    def cores() -> int:
        return usable_cores(tmp_path / "cgroup", membership)

    assert cores() == allowed, "no quota anywhere"
    (group / "cpu.max").write_text("max 100000\n")
    assert cores() == allowed
    (group.parent / "cpu.max").write_text("50000 100000\n")
    assert cores() == 1, "half a processor is one"
    (group.parent / "cpu.max").write_text(f"{(allowed + 4) * 100000} 100000\n")
    assert cores() == allowed


def test_the_older_kind_of_control_group_is_read_too(tmp_path):
    group = tmp_path / "cgroup" / "cpu" / "job"
    group.mkdir(parents=True)
    membership = tmp_path / "membership"
    membership.write_text("5:memory:/other\n4:cpu,cpuacct:/job\n")
    (group / "cpu.cfs_quota_us").write_text("100000\n")
    (group / "cpu.cfs_period_us").write_text("100000\n")
    assert usable_cores(tmp_path / "cgroup", membership) == 1
    assert usable_cores(tmp_path / "nowhere", tmp_path / "nothing") >= 1


def spec_of(**values):
    return FakePlatform().submit(**values).spec
