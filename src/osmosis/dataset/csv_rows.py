"""CSV: a header, then rows of exactly as many fields, comma-separated, RFC 4180 quoting."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from osmosis.dataset.errors import CellProblem, DatasetError
from osmosis.dataset.text_lines import TextLines

MAX_FIELD_CHARACTERS = 16 * 1024 * 1024
QUOTING_HINT = (
    "A field that holds a comma, a quote or a line break must stand in double quotes, with inner "
    'quotes doubled: "{""level"": 1, ""topic"": ""algebra""}".'
)


class CsvReader:
    """Reads the header at once and the rows when asked. Blank lines are skipped."""

    def __init__(self, path: Path, name: str) -> None:
        self._path = path
        self._name = name
        header = next(self._records(), None)
        if header is None:
            raise DatasetError("is empty; the first line must name the columns.", file=name)
        line, fields, problem = header
        if problem is not None:
            raise DatasetError(problem.message, file=name, line=line, hint=problem.hint)
        self._header = fields
        self.columns = [field for field in fields if field]
        self._check_header(line)

    def rows(self) -> Iterator[tuple[int, int | None, dict[str, Any] | DatasetError]]:
        header, width = self._header, len(self._header)
        unnamed = len(self.columns) != width
        records = self._records()
        next(records)
        for index, (line, fields, misread) in enumerate(records):
            problem = misread if misread or len(fields) == width else _ragged(len(fields), width)
            if problem is not None:
                error = DatasetError.of(problem, file=self._name, row=index, line=line)
                yield index, line, error
                continue
            values: dict[str, Any] = dict(zip(header, fields, strict=True))
            if unnamed:
                values.pop("", None)
            yield index, line, values

    def selected(self, source_rows: Sequence[int]) -> Iterator[tuple[int, dict[str, Any]]]:
        wanted = iter(source_rows)
        target = next(wanted, None)
        if target is None:
            return
        for index, _, values in self.rows():
            if index != target:
                continue
            if isinstance(values, DatasetError):
                raise values
            yield index, values
            target = next(wanted, None)
            if target is None:
                return

    def _records(self) -> Iterator[tuple[int, list[str], CellProblem | None]]:
        """(first line, fields, problem) of each record; after broken quoting nothing follows."""
        csv.field_size_limit(MAX_FIELD_CHARACTERS)
        lines = TextLines(self._path, self._name)
        records = csv.reader(iter(lines), strict=True)
        while True:
            start = lines.number + 1
            try:
                fields = next(records)
            except StopIteration:
                return
            except csv.Error as error:
                yield start, [], _quoting_problem(str(error))
                return
            problem, lines.problem = lines.problem, None
            if fields or problem is not None:
                yield start, fields, problem

    def _check_header(self, line: int) -> None:
        if len(self._header) == 1:
            for separator, label in ((";", "semicolons"), ("\t", "tabs"), ("|", "bars")):
                if separator in self._header[0]:
                    raise DatasetError(
                        f"the header seems to be separated by {label}.",
                        file=self._name,
                        line=line,
                        hint="Save the file with commas between the fields.",
                    )
        if not self.columns:
            raise DatasetError("the header names no column.", file=self._name, line=line)
        twice = sorted({name for name in self.columns if self.columns.count(name) > 1})
        if twice:
            raise DatasetError(
                f"the header names {', '.join(map(repr, twice))} more than once.",
                file=self._name,
                line=line,
                hint="Give each column its own name.",
            )


def _ragged(found: int, expected: int) -> CellProblem:
    fields = "1 field" if found == 1 else f"{found} fields"
    return CellProblem(f"has {fields}, but the header names {expected} columns.", hint=QUOTING_HINT)


def _quoting_problem(said: str) -> CellProblem:
    if "field limit" in said:
        return CellProblem(
            f"has a field of more than {MAX_FIELD_CHARACTERS // 1024 // 1024} Mi characters.",
            hint=f"Perhaps a quote is opened and never closed. {QUOTING_HINT}",
        )
    if "unexpected end of data" in said:
        return CellProblem("opens a quote that is never closed.", hint=QUOTING_HINT)
    if "new-line character" in said:
        return CellProblem(
            "has a lone carriage return as line end.", hint="Save the file with LF or CRLF lines."
        )
    return CellProblem(f"has broken quoting ({said}).", hint=QUOTING_HINT)
