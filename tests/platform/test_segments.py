"""Segment files: what goes in comes out, by page, whatever a kill left at the end."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from osmosis.platform.segments import (
    FRAME_BYTES,
    Entry,
    Place,
    SegmentCorrupt,
    SegmentWriter,
    encode_entry,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


def document(steps: int, text: str = "hello") -> dict[str, Any]:
    return {
        "schema_version": "ATIF-v1.7",
        "steps": [{"step_id": i + 1, "source": "agent", "message": text} for i in range(steps)],
        "extra": {"osmosis": {"reward": 1.0}},
    }


@pytest.mark.parametrize("steps", [0, 1, 64, 65, 1000])
def test_a_document_comes_back_whole_with_its_size_known_beforehand(
    tmp_path: Path, steps: int
) -> None:
    given_document = document(steps)
    [place] = SegmentWriter(tmp_path).append([encode_entry(given_document).data])
    entry = Entry(tmp_path, place)
    text = b"".join(entry.read_document())
    assert orjson.loads(text) == given_document
    assert len(text) == entry.document_bytes
    assert entry.count("steps") == steps


@settings(max_examples=60, deadline=None)
@given(
    rest=st.dictionaries(st.text(max_size=8).filter(lambda key: key != "steps"), JSON, max_size=4),
    steps=st.lists(JSON, max_size=150),
    start=st.integers(0, 160),
    count=st.integers(0, 100),
)
def test_any_page_equals_the_slice(
    tmp_path_factory: pytest.TempPathFactory,
    rest: dict[str, Any],
    steps: list[Any],
    start: int,
    count: int,
) -> None:
    directory = tmp_path_factory.mktemp("segments")
    [place] = SegmentWriter(directory).append([encode_entry({**rest, "steps": steps}).data])
    entry = Entry(directory, place)
    assert entry.read_items("steps", start, count) == steps[start : start + count]
    text = b"".join(entry.read_document())
    assert orjson.loads(text) == {**rest, "steps": steps}
    assert len(text) == entry.document_bytes


def test_calls_and_output_live_beside_the_document(tmp_path: Path) -> None:
    calls = [{"model": "m", "latency_s": i} for i in range(100)]
    entry_bytes = encode_entry(None, calls=calls, output="printed\n" * 9000).data
    [place] = SegmentWriter(tmp_path).append([entry_bytes])
    entry = Entry(tmp_path, place)
    assert entry.document is None
    assert entry.count("calls") == 100
    assert entry.read_items("calls", 70, 2) == calls[70:72]
    assert entry.read_output() == "printed\n" * 9000
    assert list(entry.read_document()) == []


def test_a_torn_tail_disturbs_neither_old_nor_new_entries(tmp_path: Path) -> None:
    first = SegmentWriter(tmp_path).append([encode_entry(document(3, "one")).data])[0]
    with (tmp_path / "0000.seg").open("ab") as file:
        file.write(encode_entry(document(3, "torn")).data[:-7])
    second = SegmentWriter(tmp_path).append([encode_entry(document(3, "two")).data])[0]
    assert Entry(tmp_path, first).read_steps(0, 1)[0]["message"] == "one"
    assert Entry(tmp_path, second).read_steps(0, 1)[0]["message"] == "two"


def test_a_full_segment_is_followed_by_the_next(tmp_path: Path) -> None:
    writer = SegmentWriter(tmp_path, segment_bytes=4096)
    texts = [os.urandom(700).hex() for _ in range(12)]
    places = [writer.append([encode_entry(document(1, text)).data])[0] for text in texts]
    assert len({place.segment for place in places}) > 2
    for place, text in zip(places, texts, strict=True):
        assert Entry(tmp_path, place).read_steps(0, 1)[0]["message"] == text


def test_writers_in_several_threads_do_not_overlap(tmp_path: Path) -> None:
    writer = SegmentWriter(tmp_path)
    found: list[tuple[str, Place]] = []

    def write(name: str) -> None:
        for number in range(20):
            text = f"{name}-{number}"
            found.append((text, writer.append([encode_entry(document(1, text)).data])[0]))

    threads = [threading.Thread(target=write, args=(str(index),)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 80
    for text, place in found:
        assert Entry(tmp_path, place).read_steps(0, 1)[0]["message"] == text


def test_a_hundred_thousand_steps_open_by_page_in_a_moment(tmp_path: Path) -> None:
    [place] = SegmentWriter(tmp_path).append([encode_entry(document(100_000, "x" * 200)).data])
    started = time.perf_counter()
    page = Entry(tmp_path, place).read_steps(70_000, 50)
    assert time.perf_counter() - started < 0.5
    assert [step["step_id"] for step in page] == list(range(70_001, 70_051))


def test_a_step_larger_than_a_frame_has_its_own(tmp_path: Path) -> None:
    given_document = document(3, "y" * (FRAME_BYTES + 1))
    [place] = SegmentWriter(tmp_path).append([encode_entry(given_document).data])
    entry = Entry(tmp_path, place)
    assert len(entry.head["steps"]) == 3
    assert orjson.loads(b"".join(entry.read_document())) == given_document


def test_a_damaged_file_is_reported_as_such(tmp_path: Path) -> None:
    [place] = SegmentWriter(tmp_path).append([encode_entry(document(50)).data])
    path = tmp_path / "0000.seg"
    data = bytearray(path.read_bytes())
    data[20:60] = bytes(40)
    path.write_bytes(data)
    with pytest.raises(SegmentCorrupt, match=r"0000\.seg"):
        Entry(tmp_path, place).read_steps(0, 1)
    with pytest.raises(SegmentCorrupt):
        _ = Entry(tmp_path, Place(0, 3, place.length)).head


def test_kept_calls_come_back_byte_for_byte_and_disturb_nothing_else(tmp_path: Path) -> None:
    packed = os.urandom(5000)
    first = encode_entry(document(200), calls=[{"a": 1}], output="hi", kept_calls=packed)
    places = SegmentWriter(tmp_path).append([first.data, encode_entry(document(3)).data])
    one, other = (Entry(tmp_path, place) for place in places)
    assert one.read_kept_calls() == packed
    assert one.read_output() == "hi"
    assert orjson.loads(b"".join(one.read_document())) == document(200)
    assert other.read_kept_calls() is None
