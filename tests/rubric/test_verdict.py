from __future__ import annotations

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from osmosis.rubric.verdict import Unreadable, Verdict, read_verdict
from tests.rubric.corpora import Case, answers

ANSWERS = answers()
PLAIN = re.compile(r"-?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


def read(case: Case) -> Verdict:
    low, high = case.range
    return read_verdict(
        case.answer,
        score_min=low,
        score_max=high,
        finish_reason=case.finish,
        judged=case.judged,
    )


def test_the_corpus_is_large_and_mostly_hostile():
    assert sum(case.score is None for case in ANSWERS) >= 60
    assert sum(case.score is not None for case in ANSWERS) >= 40


@pytest.mark.parametrize("case", ANSWERS, ids=lambda case: case.name)
def test_a_judge_gets_the_score_that_it_states_and_no_other(case: Case):
    if case.score is None:
        with pytest.raises(Unreadable) as unreadable:
            read(case)
        assert str(unreadable.value)
        assert len(str(unreadable.value)) < 200
    else:
        verdict = read(case)
        assert verdict.score == case.score
        assert str(verdict.score) != "-0.0"
        assert verdict.explanation.strip()


@pytest.mark.parametrize("case", ANSWERS, ids=lambda case: case.name)
def test_what_a_judge_is_told_of_its_answer_repeats_none_of_it(case: Case):
    if case.score is None:
        with pytest.raises(Unreadable) as unreadable:
            read(case)
        assert "perfect" not in unreadable.value.told
        assert not re.search(r"\d{3}|/10|NaN", unreadable.value.told)


def test_a_cut_off_answer_says_so():
    with pytest.raises(Unreadable, match="finish_reason=length"):
        read_verdict('{"score": 0.', score_min=0, score_max=1, finish_reason="length")


def test_every_cut_of_a_verdict_is_no_verdict():
    whole = '{"explanation": "It is right, by 3 of 4 points.", "score": 0.75}'
    for length in range(len(whole)):
        with pytest.raises(Unreadable):
            read_verdict(whole[:length], score_min=0, score_max=1, finish_reason="stop")


ENDLESS = {
    "quotes": '{"score": 0.5, "explanation": "' + '"a" ' * 4500 + "}",
    "commas": '{"score": 0.5, "explanation": ' + ',"' * 9000 + "}",
    "comments": '{"score": 0.5, ' + "/*" * 9000 + "}",
    "scores": '{"score": 0.5, ' + '"score": 0.5, ' * 1200 + "}",
    "open tags": "<" + "<score>1" * 20_000 + ">",
    "open explanations": "<score>1</score>" + "<explanation>" * 14_000 + ">",
    "reasonings": "<think></think>" * 10_000 + "{",
    "fences": "```json\n{" * 15_000,
    "objects": "x " + '{"a":' * 30_000,
    "lines": "Score: 0.5\n" * 15_000,
    "blanks": "score" + " " * 190_000 + "x",
}


@pytest.mark.parametrize("name", ENDLESS)
def test_no_answer_takes_long_to_read(name: str):
    began = time.process_time()
    with pytest.raises(Unreadable):
        read_verdict(ENDLESS[name] + " ", score_min=0, score_max=0.4, finish_reason="stop")
    assert time.process_time() - began < 1.0


PARTS = st.sampled_from(
    [
        "{", "}", "[", "]", '"', "'", ":", ",", "\n", " ", "score", '"score"', "Score: ",
        '"score": ', "explanation", '"explanation": "a"', "0.4", "1", "8/10", "-", ".", "e9",
        "true", "null", "NaN", "```json\n", "```", "<think>", "</think>", "<score>", "</score>",
        "<explanation>a</explanation>", "//", "/*", "*/", "\\", "is", "not ",
    ]
)  # fmt: skip


@settings(max_examples=400, deadline=None)
@given(st.lists(PARTS, max_size=24).map("".join), st.sampled_from(["stop", "length", None]))
def test_no_text_gives_a_score_that_does_not_stand_in_it(text: str, finish: str | None):
    try:
        verdict = read_verdict(text, score_min=0, score_max=10, finish_reason=finish)
    except Unreadable:
        return
    assert verdict.score in {float(found) for found in PLAIN.findall(text)}
    assert 0 <= verdict.score <= 10


@settings(max_examples=200, deadline=None)
@given(
    st.floats(0, 1),
    st.text(max_size=60).filter(lambda text: text.strip() != ""),
)
def test_a_well_formed_verdict_is_read_to_the_last_digit(score: float, explanation: str):
    import json

    text = json.dumps({"explanation": explanation, "score": score})
    verdict = read_verdict(text, score_min=0, score_max=1, finish_reason="stop", judged="42")
    assert (verdict.score, verdict.explanation) == (score, explanation.strip())
