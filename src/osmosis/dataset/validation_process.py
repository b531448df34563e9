"""``python -m osmosis.dataset.validation_process``: validates one file in a process of its own.

Reads ``{"path", "format", "name"}`` as JSON from stdin and writes the report as JSON to stdout.
A file of a stranger may be built to exhaust memory, so this process limits its own.
"""

from __future__ import annotations

import contextlib
import json
import math
import resource
import sys
from typing import Any

from osmosis.dataset.validation import Report, validate

MEMORY_LIMIT_BYTES = 8 * 1024**3


def main() -> None:
    json.dump(validated(json.load(sys.stdin)), sys.stdout)


def validated(request: dict[str, Any]) -> dict[str, Any]:
    """Validate as the request says, with the memory of this process limited from now on."""
    # A lower limit may be set already, and not every system can limit this.
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT_BYTES, MEMORY_LIMIT_BYTES))
    name = request.get("name")
    try:
        return report_body(validate(request["path"], request["format"], name=name))
    except MemoryError:
        message = (
            f"{name or request['path']}: needs more than {MEMORY_LIMIT_BYTES // 1024**3} GiB of "
            "memory to read. Write smaller cells or smaller Parquet row groups."
        )
        return report_body(Report()) | {"valid": False, "error_lines": [message]}


def report_body(report: Report) -> dict[str, Any]:
    """The report as strict JSON values."""
    return {
        "valid": report.valid,
        "row_count": report.row_count,
        "columns": report.columns,
        "mode": report.mode,
        "errors": [
            {
                "message": error.message,
                "hint": error.hint,
                "row": error.row,
                "line": error.line,
                "column": error.column,
            }
            for error in report.errors
        ],
        "error_lines": report.error_lines(),
        "warnings": report.warnings,
        "preview": _finite(report.preview),
    }


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return value


if __name__ == "__main__":
    main()
