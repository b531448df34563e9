from __future__ import annotations

import os
import sqlite3
import threading
import time
from pathlib import Path

import pytest

from osmosis.response_store import ROW_BYTES, LruStore

KIB = 1024


def test_what_is_put_comes_back_also_to_a_later_process(tmp_path: Path) -> None:
    store = LruStore(tmp_path / "deep" / "s.db", 100 * KIB)
    assert store.get("a") is None
    store.put("a", b"one")
    store.put("a", b"two")
    assert store.get("a") == b"two"
    store.close()
    assert LruStore(tmp_path / "deep" / "s.db", 100 * KIB).get("a") == b"two"


def test_the_least_recently_used_leave_first_and_the_bound_holds(tmp_path: Path) -> None:
    store = LruStore(tmp_path / "s.db", 20 * (KIB + ROW_BYTES))
    for number in range(19):
        store.put(f"k{number}", os.urandom(KIB))
    assert store.get("k0") is not None, "used again: k1 is the oldest now"
    for number in range(19, 22):
        store.put(f"k{number}", os.urandom(KIB))
    kept = [number for number in range(22) if store.get(f"k{number}") is not None]
    assert 0 in kept
    assert 1 not in kept
    assert kept[-3:] == [19, 20, 21]
    for number in range(300):
        store.put(f"many{number}", os.urandom(KIB))
    assert (tmp_path / "s.db").stat().st_size < 80 * KIB


def test_what_nobody_asked_for_in_a_long_time_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LruStore(tmp_path / "s.db", 100 * KIB, max_age_s=60)
    store.put("asked for", b"1")
    store.put("left alone", b"2")
    start_ns = time.time_ns()
    for minute, kept in ((0.9, b"1"), (1.5, b"1"), (3, None)):
        monkeypatch.setattr(time, "time_ns", lambda at=minute: start_ns + int(at * 60e9))
        assert store.get("asked for") == kept
    assert store.get("left alone") is None
    store.close()
    with sqlite3.connect(tmp_path / "s.db") as database:
        assert database.execute("SELECT count(*) FROM responses").fetchone() == (2,)
    LruStore(tmp_path / "s.db", 100 * KIB, max_age_s=60).get("any")
    with sqlite3.connect(tmp_path / "s.db") as database:
        assert database.execute("SELECT count(*) FROM responses").fetchone() == (0,)


def test_a_value_beyond_the_bound_and_a_store_of_no_size_keep_nothing(tmp_path: Path) -> None:
    small = LruStore(tmp_path / "s.db", 2 * KIB)
    small.put("old", b"x")
    small.put("big", os.urandom(3 * KIB))
    assert small.get("big") is None
    assert small.get("old") == b"x"
    none = LruStore(tmp_path / "n.db", 0)
    none.put("a", b"")
    assert none.get("a") is None


def test_a_damaged_file_is_forgotten(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    path.write_bytes(b"this is no database" * 500)
    store = LruStore(path, 100 * KIB)
    assert store.get("a") is None
    store.put("a", b"1")
    assert store.get("a") == b"1"


def test_the_file_is_its_owners_alone(tmp_path: Path) -> None:
    store = LruStore(tmp_path / "s.db", KIB)
    store.put("a", b"1")
    assert (tmp_path / "s.db").stat().st_mode & 0o077 == 0


def test_cleared_it_holds_nothing(tmp_path: Path) -> None:
    store = LruStore(tmp_path / "s.db", 100 * KIB)
    store.put("a", b"1")
    store.clear()
    assert store.get("a") is None


@pytest.mark.parametrize("stores", [1, 2])
def test_many_threads_and_a_second_process_share_one_file(tmp_path: Path, stores: int) -> None:
    opened = [LruStore(tmp_path / "s.db", 1000 * KIB) for _ in range(stores)]
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for step in range(20):
                opened[number % stores].put(f"{number}.{step}", b"v")
                assert opened[(number + 1) % stores].get(f"{number}.{step}") == b"v"
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
