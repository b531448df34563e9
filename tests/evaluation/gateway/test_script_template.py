from __future__ import annotations

from decimal import Decimal

import pytest

from osmosis.evaluation.gateway.script_template import Template, TemplateError, number_or_text


def render(source, **names):
    return Template.parse(source).render(names, lambda low, high: low)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("{{ 2 + 3 * 4 }}", "14"),
        ("{{ 7 / 2 }}", "3.5"),
        ("{{ 6 / 2 }}", "3"),
        ("{{ 0.1 + 0.2 }}", "0.3"),
        ("{{ 1 / 3 }}", "0.3333333333333333333333333333"),
        ("{{ -7 // 2 }} {{ 7 % 3 }}", "-4 1"),
        ("{{ 2 ** 10 }} {{ 2 ** -1 }}", "1024 0.5"),
        ("{{ 10 ** 20 }}", "100000000000000000000"),
        ("{{ round(2.345, 2) }} {{ abs(-3) }} {{ min(2, 1) }} {{ max(1, 2.5) }}", "2.34 3 1 2.5"),
        ("{{ 'big' if a > 5 else 'small' }}", "big"),
        ("{{ upper(word) + '!' }} {{ len(word) }}", "OX! 2"),
        ("{{ 'x' in word and a == 6 }}", "true"),
        ("{{ random(4, 9) }}", "4"),
        ("{{ 'n' + 1 }}", "n1"),
        ("{{ int('12') + int(2.9) }}", "14"),
        ("no marks { here }", "no marks { here }"),
        ("a{{a}}b", "a6b"),
    ],
)
def test_expressions_compute(source, text):
    assert render(source, a=6, word="ox") == text


@pytest.mark.parametrize(
    "source",
    [
        "{{ __import__('os') }}",
        "{{ a.__class__ }}",
        "{{ (lambda: 1)() }}",
        "{{ [x for x in a] }}",
        "{{ open('x') }}",
        "{{ a() }}",
        "{{ f'{a}' }}",
        "{{ 1; 2 }}",
        "{{ a := 1 }}",
        "{{ b'x' }}",
        "{{ ... }}",
        "{{ round(1, ndigits=2) }}",
        "{{ a[1:2] }}",
        "{{ *a }}",
        "{{ a is b }}",
        "{{ ~a }}",
        "{{ }}",
    ],
)
def test_what_is_not_an_expression_of_ours_is_refused_when_read(source):
    with pytest.raises(TemplateError):
        Template.parse(source)


@pytest.mark.parametrize(
    "source",
    [
        "{{ 1 / 0 }}",
        "{{ 1 // 0 }}",
        "{{ 9 ** 9 ** 9 }}",
        "{{ 'a' * 1000000000 }}",
        "{{ word[9] }}",
        "{{ word - 1 }}",
        "{{ '%s' % 1 }}",
        "{{ random(9, 1) }}",
        "{{ max(1) }}",
        "{{ nothing }}",
        "{{ int('x') }}",
        "{{ len(1) }}",
    ],
)
def test_what_cannot_be_computed_is_an_error_with_the_expression(source):
    with pytest.raises(TemplateError):
        render(source, word="ox")


def test_growing_numbers_are_bounded():
    with pytest.raises(TemplateError, match="too large"):
        render("{{ a ** 64 * a ** 64 * a ** 64 * a ** 64 * a ** 64 }}", a=10**40)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12", 12),
        ("-3.50", Decimal("-3.50")),
        ("1,234", 1234),
        (" 7 ", 7),
        ("1e5", "1e5"),
        ("abc", "abc"),
        ("", ""),
        ("9" * 80, "9" * 80),
    ],
)
def test_text_that_reads_as_a_number_is_one(text, value):
    assert number_or_text(text) == value


def test_a_lone_expression_keeps_its_type():
    def value(source):
        return Template.parse(source).value({"a": 6}, lambda low, high: low)

    assert value("{{ a }}") == 6
    assert value("{{ a / 4 }}") == 1.5
    assert isinstance(value("{{ a / 4 }}"), float)
    assert value("{{ a }} ") == "6 "
