from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from osmosis.evaluation import sample_output
from osmosis.evaluation.sample_output import OutputBook, SampleOutput


@given(st.lists(st.text(alphabet="abc\n", max_size=30), max_size=60))
def test_head_and_tail_are_kept_and_the_rest_is_counted(pieces):
    whole = "".join(pieces)
    before = sample_output.HEAD_CHARS, sample_output.TAIL_CHARS
    sample_output.HEAD_CHARS = sample_output.TAIL_CHARS = 40
    try:
        output = SampleOutput()
        for piece in pieces:
            output.add(piece)
        text = output.text() or ""
    finally:
        sample_output.HEAD_CHARS, sample_output.TAIL_CHARS = before
    if len(whole) <= 80:
        assert text == whole
    else:
        assert text.startswith(whole[:40]) and text.endswith(whole[-40:])
        assert f"{len(whole) - 80} characters left out" in text


def test_text_of_a_rollout_that_is_not_in_flight_is_dropped():
    book = OutputBook()
    book.add("x", "lost")
    book.open("x")
    book.add("x", "kept")
    assert book.close("x") == "kept\n"
    assert book.close("x") is None
