from __future__ import annotations

import gzip
import zlib

from hypothesis import given
from hypothesis import strategies as st

from osmosis.wire.deflate import SMALL_BYTES, deflate


@given(st.binary(max_size=4000), st.sampled_from([1, 200]), st.sampled_from([1, 6]))
def test_every_reader_of_the_format_reads_it(piece: bytes, times: int, level: int) -> None:
    data = piece * times
    assert zlib.decompress(deflate(data, level)) == data
    assert gzip.decompress(deflate(data, level, gzip=True)) == data


def test_the_same_bytes_always_become_the_same_bytes() -> None:
    data = b'{"role": "user"}' * SMALL_BYTES
    assert deflate(data, 1, gzip=True) == deflate(data, 1, gzip=True)


def test_a_small_window_costs_hardly_any_room() -> None:
    data = b"".join(b'{"row": %d, "text": "%d"}' % (i, i * 7919) for i in range(200))
    assert len(data) < SMALL_BYTES
    assert len(deflate(data, 1)) <= len(zlib.compress(data, 1)) * 1.1
