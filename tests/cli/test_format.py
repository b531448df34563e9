"""Values as people read them: short, and never taken for another value."""

from __future__ import annotations

import pytest

from osmosis.cli.output.format import number, printable, shortened


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.25, "0.2500"),
        (1, "1.0000"),
        (1 / 3, "0.3333"),
        (0.1 + 0.2, "0.3000"),
        (0.9999999, "0.9999999"),
        (2.00003, "2.00003"),
        (1e-7, "1e-07"),
        (-1e-7, "-1e-07"),
        (1 - 1e-16, "1.0000"),
        (-0.0, "0.0000"),
        (1e308, "1e+308"),
        (-12345678901.5, "-1.235e+10"),
        (None, "-"),
    ],
)
def test_a_number_shows_what_it_is(value: float | None, shown: str):
    assert number(value) == shown


def test_a_number_of_two_digits_stays_one():
    assert number(0.999, 2) == "1.00"


def test_text_cannot_steer_the_terminal_nor_turn_its_lines_around():
    assert printable("a\x1b[31mb\u202ec\u2066d\u200fe") == "a[31mbcde"


def test_a_long_text_says_that_it_goes_on():
    assert shortened("abcdef", 6) == "abcdef"
    assert shortened("abcdefg", 6) == "abcde…"
