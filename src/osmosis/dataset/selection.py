"""Which rows a run scores: the first N, or a random tenth whose seed is always known."""

from __future__ import annotations

import random
import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from osmosis.wire.errors import ValidationFailed

DRAWN_SEED_BITS = 53
"""A drawn seed fits the integers that every JSON reader keeps exact."""

MAX_PARSED_ROWS = 50_000_000


@dataclass(frozen=True)
class Selection:
    """``source_rows`` are offsets in the dataset, ascending; ``seed`` is None for ``first``."""

    kind: Literal["first", "sample"]
    seed: int | None
    source_rows: Sequence[int]


def select(total_rows: int, limit: int | None = None, seed: int | None = None) -> Selection:
    """The first ``limit`` rows (all when there are fewer), else a tenth, uniform, at random.

    The tenth is rounded half up and is at least one row; it is drawn without replacement and
    keeps dataset order. The same seed and row count give the same rows.
    """
    if total_rows < 1:
        raise ValidationFailed("The dataset has no rows to evaluate.")
    if limit is not None:
        if type(limit) is not int or limit < 1:
            raise ValidationFailed(
                f"limit must be a whole number of at least 1, not {limit!r}.",
                hint="Leave it out to score a random tenth of the dataset.",
                field="evaluation.limit",
            )
        return Selection("first", None, range(min(limit, total_rows)))
    if seed is None:
        seed = secrets.randbits(DRAWN_SEED_BITS)
    wanted = sample_size(total_rows)
    # Reproducible, not secret: the seed is shown to everybody.
    rows = random.Random(seed).sample(range(total_rows), wanted)  # noqa: S311
    return Selection("sample", seed, sorted(rows))


def sample_size(total_rows: int) -> int:
    """A tenth of the rows, rounded half up, at least one."""
    return max(1, (total_rows + 5) // 10)


def format_ranges(rows: Iterable[int]) -> str:
    """Ascending row numbers as text: ``0-9,12``."""
    if isinstance(rows, range) and rows and rows.step == 1:
        return _range(rows[0], rows[-1])
    parts: list[str] = []
    first = last = None
    for row in rows:
        if last is not None and row == last + 1:
            last = row
            continue
        if first is not None:
            parts.append(_range(first, last))
        first = last = row
    if first is not None:
        parts.append(_range(first, last))
    return ",".join(parts)


def parse_ranges(text: str, total_rows: int | None = None) -> Sequence[int]:
    """Row numbers of ``3,7,10-20``: ascending, each once, inside the dataset when it is known."""
    ranges = list(_ranges(text, total_rows))
    if len(ranges) == 1:
        return ranges[0]
    if sum(map(len, ranges)) > MAX_PARSED_ROWS:
        raise _too_many(text)
    if all(one[-1] < other[0] for one, other in pairwise(ranges)):
        return [row for rows in ranges for row in rows]
    return sorted({row for rows in ranges for row in rows})


def merged_ranges(text: str) -> list[range]:
    """The rows of ``3,7,10-20`` as ranges: ascending, none next to another."""
    merged: list[range] = []
    for rows in sorted(_ranges(text, None), key=lambda rows: rows.start):
        if merged and rows.start <= merged[-1].stop:
            merged[-1] = range(merged[-1].start, max(merged[-1].stop, rows.stop))
        else:
            merged.append(rows)
    return merged


def _ranges(text: str, total_rows: int | None) -> Iterator[range]:
    for part in map(str.strip, text.split(",")):
        first, dash, last = part.partition("-")
        if not _is_number(first) or (dash and not _is_number(last)):
            raise ValidationFailed(
                f"'{part}' is no row number or range in '{text[:80]}'.",
                hint="Write rows from 0 like 3,7,10-20.",
                field="rows",
            )
        low, high = int(first), int(last) if dash else int(first)
        if high < low:
            raise ValidationFailed(
                f"The range {part} runs backwards.", hint=f"Write {high}-{low}.", field="rows"
            )
        if total_rows is not None and high >= total_rows:
            raise ValidationFailed(
                f"Row {high} does not exist: the dataset has {total_rows} rows, "
                f"0 to {total_rows - 1}.",
                field="rows",
            )
        if high - low >= MAX_PARSED_ROWS:
            raise _too_many(text)
        yield range(low, high + 1)


def _too_many(text: str) -> ValidationFailed:
    return ValidationFailed(
        f"'{text[:80]}' names more than {MAX_PARSED_ROWS:,} rows.", field="rows"
    )


def _range(first: int, last: int | None) -> str:
    return str(first) if first == last else f"{first}-{last}"


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 18
