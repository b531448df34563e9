"""``python -m osmosis.dataset.groups_process``: which rows of a dataset share a column's value.

Reads ``{"path", "format", "name", "column"}`` as JSON from stdin and writes ``{"groups": [0, 0, 1,
…]}``, a number for each row, to stdout; or ``{"columns": […]}``, when there is no such column. A
row without a value is a group of its own.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from osmosis.dataset.errors import DatasetError
from osmosis.dataset.formats import open_reader
from osmosis.dataset.rows import text_of


def main() -> None:
    json.dump(groups_of(json.load(sys.stdin)), sys.stdout, separators=(",", ":"))


def groups_of(request: dict[str, Any]) -> dict[str, Any]:
    """The answer to a request."""
    column = request["column"]
    path, format, name = request["path"], request["format"], request.get("name")
    columns = list(open_reader(path, format, name=name).columns)
    if column not in columns:
        return {"columns": columns}
    numbers: dict[str, int] = {}
    groups: list[int] = []
    empty = 0
    for _, _, values in open_reader(path, format, columns=[column], name=name).rows():
        if isinstance(values, DatasetError):
            raise values
        value = text_of(values.get(column))
        if value is None:
            empty += 1
            groups.append(-empty)
        else:
            groups.append(numbers.setdefault(value, len(numbers)))
    return {"groups": groups}


if __name__ == "__main__":
    main()
