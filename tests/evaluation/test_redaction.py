import base64
from urllib.parse import quote

import pytest

from osmosis.evaluation.redaction import REDACTED, Redactor

SECRET = "s3cr3t/+value="


@pytest.mark.parametrize(
    "form",
    [
        SECRET,
        quote(SECRET, safe=""),
        base64.b64encode(SECRET.encode()).decode(),
        base64.urlsafe_b64encode(SECRET.encode()).decode(),
        "s3cr3t%2f%2bvalue%3d",
    ],
)
def test_a_secret_is_taken_out_in_every_form_it_travels_in(form):
    text = Redactor([SECRET]).text(f"before {form} after")
    assert text == f"before {REDACTED} after"


@pytest.mark.parametrize("user", ["u:", "ab:", "abc:", "abcd:"])
def test_a_secret_inside_longer_base64_is_taken_out(user):
    header = base64.b64encode(f"{user}{SECRET}".encode()).decode()
    text = Redactor([SECRET]).text(f"Authorization: Basic {header}")
    assert REDACTED in text
    left = text.replace(REDACTED, "").rpartition(" ")[2]
    assert len(left) <= len(base64.b64encode(user.encode())) + 4


def test_each_line_of_a_key_file_is_taken_out():
    key = "-----BEGIN KEY-----\nMIIBIjANBg\nAQEFAAOCAQ8A\n-----END KEY-----\n"
    text = Redactor([key]).text("line: AQEFAAOCAQ8A\n")
    assert "AQEFAAOCAQ8A" not in text


def test_json_is_redacted_in_keys_and_values_and_keeps_its_shape():
    value = {"a": [SECRET, 1, None, True], f"k{SECRET}": {"b": f"x{SECRET}"}}
    assert Redactor([SECRET]).json(value) == {
        "a": [REDACTED, 1, None, True],
        f"k{REDACTED}": {"b": f"x{REDACTED}"},
    }


def test_a_secret_that_contains_another_leaves_nothing_behind():
    assert Redactor(["abcd", "abcdef"]).text("abcdef abcd") == f"{REDACTED} {REDACTED}"


@pytest.mark.parametrize("values", [[], [""], ["  \n"]])
def test_empty_values_change_nothing(values):
    assert Redactor(values).text("a text  \n") == "a text  \n"


def test_a_secret_on_an_html_page_is_taken_out():
    assert "pass" not in Redactor(["<pass&word>"]).text("<b>&lt;pass&amp;word&gt;</b>")


@pytest.mark.parametrize("value", ["a", "12", "abc", " abc\n"])
def test_a_value_too_short_to_be_told_from_text_leaves_the_text_readable(value):
    text = "12 of 12 rows: a grabbed abc, YWJj"
    assert Redactor([value]).text(text) == text


def test_the_lines_of_a_value_are_held_to_the_same_rule():
    assert Redactor(["x\ny\nlong-enough-line"]).text("x, y, long-enough-line") == (
        f"x, y, {REDACTED}"
    )
