"""Lines of a UTF-8 file, numbered, bounded, and honest about bytes that are not UTF-8."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from osmosis.dataset.errors import CellProblem, DatasetError

MAX_LINE_BYTES = 64 * 1024 * 1024
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class TextLines:
    """Iterates decoded lines, line ends kept. ``number`` is the line given last, from 1.

    A line that is not UTF-8 is given with replacement characters, and ``problem`` says so until
    somebody clears it: the reader above knows which row the line belongs to.
    """

    def __init__(self, path: Path, name: str) -> None:
        self.path = path
        self.name = name
        self.number = 0
        self.problem: CellProblem | None = None

    def __iter__(self) -> Iterator[str]:
        with self.path.open("rb") as file:
            while raw := file.readline(MAX_LINE_BYTES + 1):
                self.number += 1
                if len(raw) > MAX_LINE_BYTES:
                    raise DatasetError(
                        f"is longer than {MAX_LINE_BYTES // 1024 // 1024} MiB.",
                        file=self.name,
                        line=self.number,
                        hint="Is this really one row per line?",
                    )
                if self.number == 1:
                    raw = raw.removeprefix(BYTE_ORDER_MARK)
                try:
                    yield raw.decode()
                except UnicodeDecodeError as error:
                    self.problem = CellProblem(
                        f"is not UTF-8 (byte 0x{raw[error.start]:02x} at position "
                        f"{error.start + 1} of line {self.number}).",
                        hint="Save the file in UTF-8.",
                    )
                    yield raw.decode(errors="replace")
