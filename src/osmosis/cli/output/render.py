"""Printing a result: on stdout, and nothing else ever goes there."""

from __future__ import annotations

import json
import sys
from typing import Any

from osmosis.cli.output.format import one_line, printable
from osmosis.cli.output.mode import output
from osmosis.cli.output.results import Detail, Listing, Listings, Operation, Result
from osmosis.wire.errors import OsmosisError


def show(result: Result) -> None:
    if output.mode == "json":
        print(to_json(result.payload()))
    elif output.mode == "plain":
        _plain(result)
    else:
        # Rich costs a third of a short command's time, so it is loaded when something is drawn.
        from osmosis.cli.output import rich_view

        rich_view.show(result)
    sys.stdout.flush()


def to_json(payload: Any) -> str:
    try:
        return json.dumps(payload, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    except ValueError:
        raise OsmosisError("The platform sent a number that JSON cannot hold.") from None


def _plain(result: Result) -> None:
    if isinstance(result, Listing):
        for item in result.shown:
            print("\t".join(one_line(column.cell(item)) for column in result.columns))
    elif isinstance(result, Listings):
        for listing in result.lists.values():
            _plain(listing)
    elif isinstance(result, Detail):
        _plain_detail(result)
    else:
        _plain_operation(result)


def _plain_detail(result: Detail) -> None:
    for label, value in result.rows:
        print(f"{one_line(label)}: {one_line(value)}")
    for section in result.sections:
        print(section.title)
        for label, value in section.rows:
            print(f"{one_line(label)}: {one_line(value)}")
        for line in section.lines:
            print(printable(line))
    for step in result.hints:
        print(f"{step.text} {step.command}" if step.command else step.text)


def _plain_operation(result: Operation) -> None:
    if result.message:
        print(result.message)
    if result.detail:
        _plain_detail(result.detail)
    for step in result.next_steps:
        print(f"{step.text} {step.command}" if step.command else step.text)
