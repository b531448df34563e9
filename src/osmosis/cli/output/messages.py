"""All that is not a result: notes, warnings and errors, on stderr."""

from __future__ import annotations

import os
import sys
import traceback

from osmosis import __version__
from osmosis.cli.output.format import printable
from osmosis.cli.output.mode import output
from osmosis.cli.output.render import to_json
from osmosis.cli.output.results import SCHEMA_VERSION, Detail
from osmosis.wire.errors import OsmosisError

DEBUG_ENV = "OSMOSIS_DEBUG"


def note(message: str) -> None:
    """Progress for people; programs are spared it."""
    if output.mode != "json":
        print(printable(message), file=sys.stderr, flush=True)


def warn(code: str, message: str) -> None:
    if output.mode == "json":
        warning = {"code": code, "message": message}
        body = {"schema_version": SCHEMA_VERSION, "cli_version": __version__, "warning": warning}
        print(to_json(body), file=sys.stderr, flush=True)
    else:
        print(f"{_painted('Warning:', '33')} {printable(message)}", file=sys.stderr, flush=True)


def show_error(error: OsmosisError) -> None:
    """The designed error: what was wrong, where, what to do."""
    if output.mode == "json":
        print(to_json(error_body(error)), file=sys.stderr, flush=True)
        return
    print(f"{_painted('Error:', '31;1')} {printable(error.message)}", file=sys.stderr)
    for issue in error.issues:
        print(f"  {printable(str(issue))}", file=sys.stderr)
    if error.hint:
        print(printable(error.hint), file=sys.stderr)
    sys.stderr.flush()


def show_traceback(error: BaseException) -> None:
    """Only for those who develop Osmosis: OSMOSIS_DEBUG=1."""
    if os.environ.get(DEBUG_ENV) == "1":
        traceback.print_exception(error, file=sys.stderr)


def error_body(error: OsmosisError) -> dict[str, object]:
    details: dict[str, object] = dict(error.details)
    if error.platform_code:
        details["platform_code"] = error.platform_code
    if error.field:
        details["field"] = error.field
    if error.issues:
        details["issues"] = [issue.body() for issue in error.issues]
    if error.hint:
        details["hint"] = error.hint
    return {
        "schema_version": SCHEMA_VERSION,
        "command": output.command,
        "cli_version": __version__,
        "error": {"code": error.code, "message": str(error), "details": details},
    }


def _painted(word: str, code: str) -> str:
    if output.mode == "rich" and sys.stderr.isatty() and "NO_COLOR" not in os.environ:
        return f"\x1b[{code}m{word}\x1b[0m"
    return word


def show_note(detail: Detail) -> None:
    """Tables that are not the result, such as a plan before a question; programs are spared."""
    if output.mode == "json":
        return
    if output.mode == "plain":
        for label, value in [*detail.rows, *(row for s in detail.sections for row in s.rows)]:
            print(f"{label}: {value}", file=sys.stderr)
        return
    # Rich is loaded when something is drawn with it.
    from osmosis.cli.output.rich_view import draw_detail

    draw_detail(detail)
