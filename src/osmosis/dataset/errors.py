"""What is wrong with a dataset, and where: file, row, line and column."""

from __future__ import annotations

from osmosis.wire.errors import ValidationFailed


class CellProblem(Exception):
    """A mistake in one row, raised where the file and the line are not known."""

    def __init__(self, message: str, *, column: str | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.column = column
        self.hint = hint


class DatasetError(ValidationFailed):
    """A dataset that cannot be used. ``row`` counts data rows from 0, ``line`` lines from 1."""

    def __init__(
        self,
        problem: str,
        *,
        file: str | None = None,
        row: int | None = None,
        line: int | None = None,
        column: str | None = None,
        hint: str | None = None,
    ) -> None:
        place = _place(file, row, line, column)
        super().__init__(
            f"{place}: {problem}" if place else problem,
            hint=hint,
            field=column,
            details={
                key: value
                for key, value in (("file", file), ("row", row), ("line", line))
                if value is not None
            },
        )
        self.problem = problem
        self.file = file
        self.row = row
        self.line = line
        self.column = column

    @classmethod
    def of(
        cls, problem: CellProblem, *, file: str | None, row: int, line: int | None = None
    ) -> DatasetError:
        """The same mistake, with its place."""
        return cls(
            problem.message,
            file=file,
            row=row,
            line=line,
            column=problem.column,
            hint=problem.hint,
        )


def _place(file: str | None, row: int | None, line: int | None, column: str | None) -> str:
    parts = [file] if file else []
    if row is not None:
        parts.append(f"row {row} (line {line})" if line is not None else f"row {row}")
    elif line is not None:
        parts.append(f"line {line}")
    if column is not None:
        parts.append(f"column '{column}'")
    return ", ".join(parts)
