"""Which samples are recorded: one bit each, so that a million of them take 125 KB."""

from __future__ import annotations

from collections.abc import Iterator, Set


class DoneSet(Set[tuple[int, int]]):
    """A set of (row_index, run_index) with ``run_index < n``."""

    def __init__(self, n: int) -> None:
        self._n = n
        self._bits = bytearray()
        self._count = 0

    def add(self, row_index: int, run_index: int) -> None:
        byte, bit = divmod(row_index * self._n + run_index, 8)
        if byte >= len(self._bits):
            self._bits.extend(bytes(byte + 1 - len(self._bits)))
        if not self._bits[byte] >> bit & 1:
            self._bits[byte] |= 1 << bit
            self._count += 1

    def __contains__(self, key: object) -> bool:
        row_index, run_index = key  # type: ignore[misc]
        byte, bit = divmod(row_index * self._n + run_index, 8)
        return byte < len(self._bits) and bool(self._bits[byte] >> bit & 1)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        for number in range(len(self._bits) * 8):
            if self._bits[number >> 3] >> (number & 7) & 1:
                yield divmod(number, self._n)

    def __len__(self) -> int:
        return self._count
