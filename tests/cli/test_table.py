from __future__ import annotations

import pytest
from rich.console import Console

from osmosis.cli.output import Column, Listing
from osmosis.cli.output.table import fitted_table

NAME = "still-penguin-24"
RUN = {
    "Name": NAME,
    "Status": "finished",
    "Rollout": "calculator",
    "Model": "scripted/models/multiply.toml",
    "Reward": "0.93",
    "Submitted": "2026-11-29 18:30",
    "Submitted by": "somebody",
}


def runs() -> Listing:
    columns = [
        Column("Name", lambda r: r["Name"], kind="name"),
        Column("Status", lambda r: r["Status"], kind="status"),
        Column("Rollout", lambda r: r["Rollout"]),
        Column("Model", lambda r: r["Model"]),
        Column("Reward", lambda r: r["Reward"], "right"),
        Column("Submitted", lambda r: r["Submitted"], kind="time"),
        Column("Submitted by", lambda r: r["Submitted by"]),
    ]
    return Listing(items=[RUN], columns=columns, total_count=1)


def drawn(listing: Listing, width: int, *, shorten: bool = True) -> tuple[list[str], list[str]]:
    table, left_out = fitted_table(listing, width, shorten=shorten)
    screen = Console(width=width, color_system=None)
    with screen.capture() as captured:
        screen.print(table)
    return captured.get().splitlines(), left_out


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120])
def test_a_run_stays_one_line_with_its_whole_name_at_any_width(width: int) -> None:
    lines, _ = drawn(runs(), width)
    assert len(lines) == 2
    assert NAME in lines[1] and "finished" in lines[1]
    assert max(map(len, lines)) <= width
    whole = ("Reward", "Submitted")
    assert all(RUN[header] in lines[1] for header in whole if header in lines[0])


def test_an_ordinary_terminal_shows_whose_model_it_is_and_names_what_it_leaves_out() -> None:
    lines, left_out = drawn(runs(), 80)
    assert "scripted/" in lines[1] and "…" in lines[1] and lines[1].endswith("2026-11-29 18:30")
    assert left_out == ["Submitted by"]


def test_a_wide_terminal_and_a_pipe_leave_nothing_out() -> None:
    for lines, left_out in (drawn(runs(), 140), drawn(runs(), 140, shorten=False)):
        assert left_out == []
        assert all(value in lines[1] for value in RUN.values())


def test_long_text_goes_over_several_lines_and_is_never_cut() -> None:
    text = "word " * 40 + "end"
    column = Column("Message", lambda r: r["message"], kind="long")
    lines, left_out = drawn(Listing([{"message": text}], [column], 1), 30)
    assert left_out == [] and "end" in lines[-1]


def test_a_long_text_wraps_before_a_short_one_is_cut() -> None:
    entry = {"Step": "starting rollout", "Message": "Rollout healthy after 1.01 s. " * 4}
    columns = [
        Column("Step", lambda e: e["Step"]),
        Column("Message", lambda e: e["Message"], kind="long"),
    ]
    lines, _ = drawn(Listing(items=[entry], columns=columns, total_count=1), 60)
    assert "starting rollout" in lines[1] and "…" not in "".join(lines)
    assert len(lines) > 2
