from __future__ import annotations

import resource
from pathlib import Path

from osmosis.rollout.descriptor_table import grow_descriptor_table


def table_size() -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.partition("FDSize:")[2].split()[0])


def open_files() -> list[Path]:
    return sorted(Path("/proc/self/fd").iterdir())


def test_the_table_is_large_and_nothing_stays_open():
    before = open_files()
    wanted = min(table_size() * 2, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    grow_descriptor_table(wanted)
    assert table_size() >= wanted
    assert open_files() == before


def test_a_process_that_may_have_fewer_gets_what_it_may_have():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    fewer = 256
    resource.setrlimit(resource.RLIMIT_NOFILE, (fewer, hard))
    try:
        grow_descriptor_table()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert table_size() >= fewer
