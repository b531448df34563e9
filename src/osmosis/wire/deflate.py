"""Compression for many small pieces.

zlib clears a quarter of a megabyte for each piece that it compresses, whatever its size: for a
kilobyte that takes longer than the compression itself. A small piece gets a small window;
every reader of the format takes both.
"""

from __future__ import annotations

import zlib

SMALL_BYTES = 8 * 1024
SMALL_WINDOW_BITS, SMALL_MEMORY_LEVEL = 13, 5
WINDOW_BITS, MEMORY_LEVEL = 15, 8
GZIP = 16
"""Added to the window's bits, it asks for gzip's header instead of zlib's."""


def deflate(data: bytes, level: int, *, gzip: bool = False) -> bytes:
    """``data`` as one whole zlib stream, or gzip member."""
    small = len(data) <= SMALL_BYTES
    bits = SMALL_WINDOW_BITS if small else WINDOW_BITS
    memory = SMALL_MEMORY_LEVEL if small else MEMORY_LEVEL
    packer = zlib.compressobj(level, zlib.DEFLATED, bits + (GZIP if gzip else 0), memory)
    return packer.compress(data) + packer.flush()
