"""Reading a judge's answer: the score that it states, or the reason why there is none.

The rule that everything here serves: **a score is taken only if the judge stated exactly that
number, once, as its verdict.** Nothing is clamped, rounded, converted (``"8/10"``, ``"80%"``) or
guessed; two different scores are none; what was cut off is not completed; a verdict that the judged
text contains is a quotation. In doubt there is no score, and the judge is asked once more.

Accepted, after leading reasoning (``<think>…</think>``) is put aside:

1. the message is one JSON object, also in a code fence or an envelope of one key or one element;
2. the same with small faults that ``json-repair`` mends, when the number itself stands in the text;
3. the message is XML with one ``<score>`` and one ``<explanation>``;
4. prose that ends with, or holds in a fence or on lines of its own, one such object, or one line
   ``Score: N``. Prose may quote, so this only counts if the judged text speaks of no score itself.
"""

from __future__ import annotations

import html
import math
import re
from dataclasses import dataclass
from typing import Any

import json_repair

from osmosis.rubric.answer_json import Literal, Several, is_score_key, object_of, objects_in, opened

CUT_OFF = frozenset({"length", "max_tokens", "model_length"})
WITHHELD = frozenset({"content_filter", "safety"})
MAX_ANSWER_CHARS = 200_000
MAX_MENDED_CHARS = 20_000
"""Repair is quadratic on hostile text; a verdict with faults is short."""

MAX_XML_TAGS = 20

_NUMBER = r"-?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?"
NUMBER = re.compile(_NUMBER)
_QUOTE = "[\"'`*_“”‘’]*"
STATEMENT = re.compile(rf"(?<![A-Za-z0-9])score\s*{_QUOTE}\s*[:=]\s*([^,}}\n;]*)", re.IGNORECASE)
"""Wherever a text gives a score a value; the group is all that stands there up to a delimiter."""
_IN_WORDS = re.compile(
    r"(?<![A-Za-z0-9])score\s+(?:is|of|as|(?:to|should|must|would) be)\s+"
    r"(-?\.?[0-9][^,}\n;\s]*)",
    re.IGNORECASE,
)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/|#[^\n]*", re.DOTALL)
_REASONING = re.compile(
    r"\s*<(think|thinking|reasoning|thought|analysis|scratchpad)>.*?</\1>\s*",
    re.DOTALL | re.IGNORECASE,
)
_REASONING_OPENS = re.compile(
    r"\s*<(think|thinking|reasoning|thought|analysis|scratchpad)>", re.IGNORECASE
)
_REASONING_CLOSES = re.compile(r"</think(?:ing)?>", re.IGNORECASE)
_FENCE = re.compile(r"```[A-Za-z0-9_+-]*[ \t]*\n?(.*?)```", re.DOTALL)
_LINE = re.compile(
    rf"^[ \t>*_#-]*(?:final |overall )?score[ \t*_]*[:=][ \t*_]*({_NUMBER})[ \t*_]*\.?[ \t]*$",
    re.IGNORECASE | re.MULTILINE,
)
_XML_SCORE = re.compile(r"<score>(.{0,100}?)</score\s*>", re.DOTALL | re.IGNORECASE)
_XML_EXPLANATION = re.compile(r"<explanation>(.*?)</explanation\s*>", re.DOTALL | re.IGNORECASE)
_XML_TAG = re.compile(r"<(?:score|explanation)>", re.IGNORECASE)
_CDATA = re.compile(r"\s*<!\[CDATA\[(.*)\]\]>\s*", re.DOTALL)
_SPEAKS_OF_SCORES = re.compile(r"score\W{0,16}\.?[0-9]|<score\b", re.IGNORECASE)
_DISOWNED = re.compile(
    r"\b(?:not|never|no|cannot|refuse|instead|rather|example|wants?|asks?|demands?|claims?|says?|"
    r"said|suggests?|would|could|might|if|but|however|wrong|fake|actually)\b|n['’]t\b",
    re.IGNORECASE,
)
"""Words beside a verdict by which it may be somebody else's, or none."""
_LABEL = re.compile(r"^[\s*_#>-]*(?:explanation|reason(?:ing)?)[\s*_]*[:=]?[\s*_]*", re.IGNORECASE)
_LAYOUT = re.compile(r"[\s\\]+")


@dataclass(frozen=True)
class Verdict:
    """What a judge decided."""

    score: float
    explanation: str


class Unreadable(Exception):
    """There is no score in an answer. ``str()`` is for people; ``told`` is for the judge.

    ``told`` never repeats a word of the answer, which may itself repeat what was judged.
    """

    def __init__(self, reason: str, told: str | None = None) -> None:
        super().__init__(reason)
        self.told = told or "it was not the one JSON object that was asked for."


def read_verdict(
    text: str,
    *,
    score_min: float,
    score_max: float,
    finish_reason: str | None = None,
    judged: str = "",
) -> Verdict:
    """The verdict that ``text`` states, or :class:`Unreadable`. ``judged`` is what was judged."""
    if finish_reason in WITHHELD:
        raise Unreadable("the provider's content filter withheld the answer")
    if not text.strip() and finish_reason not in CUT_OFF:
        raise Unreadable("the answer is empty", "it was empty.")
    if len(text) > MAX_ANSWER_CHARS:
        raise Unreadable("the answer is far too long", "it was far too long.")
    reader = _Reader(score_min, score_max, judged, finish_reason)
    whole = text.strip().removeprefix("\ufeff").strip()
    if finish_reason in CUT_OFF:
        return reader.cut_off(whole)
    return reader.message(_after_reasoning(whole))


class _Reader:
    """The forms of a verdict, tried in order on one answer."""

    def __init__(
        self, score_min: float, score_max: float, judged: str, finish_reason: str | None
    ) -> None:
        self._low, self._high = score_min, score_max
        self._judged = judged
        self._finish_reason = finish_reason

    def cut_off(self, whole: str) -> Verdict:
        """Only an object that is complete although the answer as a whole was cut."""
        found = object_of(whole)
        if found is None:
            raise Unreadable(
                "the answer was cut off (finish_reason=length); a higher --max-tokens or a "
                "shorter explanation helps",
                "it was cut off before its end. Keep the explanation to one short sentence.",
            )
        return self._verdict(found, whole)

    def message(self, body: str) -> Verdict:
        fenced = _FENCE.fullmatch(body)
        sole = fenced[1].strip() if fenced and "```" not in fenced[1] else body
        found = object_of(sole)
        if found is not None:
            return self._verdict(found, sole)
        if sole.startswith("{") and sole.endswith("}"):
            return self._mended(sole)
        if sole.startswith("{") and "}" not in sole:
            raise Unreadable("the answer ends in the middle of the JSON object")
        if sole.startswith("<") and sole.endswith(">") and _XML_SCORE.search(sole):
            return self._xml(sole)
        return self._in_prose(body)

    # ------------------------------------------------------------------ the forms

    def _verdict(self, found: dict[str, Any], source: str) -> Verdict:
        """From an object that was parsed as it stands."""
        scores = [value for key, value in found.items() if is_score_key(key)]
        if not scores:
            raise Unreadable('the JSON has no "score"', 'it had no "score".')
        if len(scores) > 1 or isinstance(scores[0], Several):
            raise Unreadable("the answer states more than one score", _ONE_SCORE)
        score = self._score(scores[0])
        explanation = next(
            (value for key, value in found.items() if key.strip().lower() == "explanation"), None
        )
        return self._stated(score, explanation, source)

    def _mended(self, body: str) -> Verdict:
        """From an object with faults: its number as written, the rest as json-repair reads it."""
        if len(body) > MAX_MENDED_CHARS:
            raise Unreadable("the answer is not valid JSON")
        literal = self._one_statement(body)
        try:
            mended: Any = json_repair.loads(body)
        except Exception:  # on hostile text it fails in many ways, all of which mean the same
            mended = None
        found = opened(mended)
        if found is None:
            raise Unreadable("the answer is not valid JSON")
        value = next((value for key, value in found.items() if is_score_key(key)), None)
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise Unreadable("the answer is not valid JSON")
        score = self._score(Literal(literal))
        if str(value).strip() != literal and value != score:
            raise Unreadable("the answer is not valid JSON, and can be read in two ways")
        self._not_quoted(literal)
        explanation = next((v for k, v in found.items() if k.strip().lower() == "explanation"), "")
        return self._stated(score, explanation, body)

    def _xml(self, body: str) -> Verdict:
        if len(_XML_TAG.findall(body)) > MAX_XML_TAGS:
            raise Unreadable("the answer states more than one score", _ONE_SCORE)
        scores = {_xml_text(found) for found in _XML_SCORE.findall(body)}
        explanations = [_xml_text(found) for found in _XML_EXPLANATION.findall(body)]
        if len(scores) != 1 or len(explanations) > 1:
            raise Unreadable("the answer states more than one score", _ONE_SCORE)
        literal = scores.pop()
        self._agree(_XML_SCORE.sub("", body), score := self._score(Literal(literal)))
        self._not_quoted(literal)
        return self._stated(score, explanations[0] if explanations else None, body)

    def _in_prose(self, body: str) -> Verdict:
        """A verdict with words around it. Words may quote, so it is trusted only when the judged
        text holds nothing that could be quoted as one."""
        if _SPEAKS_OF_SCORES.search(self._judged):
            raise Unreadable(
                "there are words around the verdict, and the judged text speaks of scores itself"
            )
        objects = objects_in(body)
        if objects:
            return self._object_in_prose(body, objects)
        fences = [found for found in _FENCE.finditer(body) if "{" in found[1]]
        if len(fences) == 1:
            outside = body[: fences[0].start()] + body[fences[0].end() :]
            if _DISOWNED.search(_lines_beside(body, fences[0].start(), fences[0].end())):
                raise Unreadable("the words beside the verdict may disown it")
            verdict = self._mended(fences[0][1].strip())
            self._agree(outside, verdict.score)
            return verdict
        if not fences and len(_XML_SCORE.findall(body)) == 1:
            return self._xml(body)
        return self._labelled(body)

    def _object_in_prose(
        self, body: str, objects: list[tuple[int, int, dict[str, Any]]]
    ) -> Verdict:
        outside, position = "", 0
        for start, end, _ in objects:
            outside += body[position:start] + "\n"
            position = end
        outside += body[position:]
        verdicts: list[Verdict] = []
        for start, end, found in objects:
            if not _stands_alone(body, start, end):
                raise Unreadable("the verdict stands in the middle of a sentence")
            if _DISOWNED.search(_lines_beside(body, start, end)):
                raise Unreadable("the words beside the verdict may disown it")
            verdicts.append(self._verdict(found, body[start:end]))
        if len({verdict.score for verdict in verdicts}) > 1:
            raise Unreadable("the answer states more than one score", _ONE_SCORE)
        self._agree(outside, verdicts[-1].score)
        return verdicts[-1]

    def _labelled(self, body: str) -> Verdict:
        lines = list(_LINE.finditer(body))
        if not lines:
            raise Unreadable("there is no verdict in the answer")
        self._one_statement(body)
        last = lines[-1]
        if last.end() >= len(body.rstrip()) and self._finish_reason != "stop":
            raise Unreadable("the answer may be cut off in the middle of its score")
        score = self._score(Literal(last[1]))
        return self._stated(score, _LABEL.sub("", _LINE.sub("", body).strip()), body)

    # ------------------------------------------------------------------ its parts

    def _score(self, value: Any) -> float:
        if isinstance(value, str):
            literal = value.strip()
            if NUMBER.fullmatch(literal) is None:
                shown = literal if len(literal) <= 40 else literal[:40] + "…"
                raise Unreadable(f"the score is {shown!r}, not a plain number", _PLAIN_NUMBER)
            score = float(literal)
            if not math.isfinite(score) or (score == 0 and re.search(r"[1-9]", _mantissa(literal))):
                raise Unreadable(f"the score {literal[:40]} is beyond any range", _PLAIN_NUMBER)
        else:
            kind = "null" if value is None else type(value).__name__
            raise Unreadable(f"the score is of the type {kind}, not a number", _PLAIN_NUMBER)
        if not self._low <= score <= self._high:
            raise Unreadable(
                f"the score {literal} is outside the range {self._low:g} to {self._high:g}",
                f"its score was outside the range {self._low:g} to {self._high:g}.",
            )
        return score + 0.0  # no negative zero

    def _stated(self, score: float, explanation: Any, source: str) -> Verdict:
        if not isinstance(explanation, str) or not explanation.strip():
            raise Unreadable("there is no explanation beside the score", 'it had no "explanation".')
        if self._judged and _bare(source) in _bare(self._judged):
            raise Unreadable("the answer only repeats a part of the judged text")
        return Verdict(score, explanation.strip())

    def _one_statement(self, body: str) -> str:
        """The literal that every statement of a score in ``body`` gives."""
        found = {_statement(match[1]) for match in STATEMENT.finditer(body)}
        if not found:
            raise Unreadable("there is no score in the answer", 'it had no "score".')
        if len(found) > 1:
            raise Unreadable("the answer states more than one score", _ONE_SCORE)
        return found.pop()

    def _not_quoted(self, literal: str) -> None:
        """Where a verdict's edges are blurred, it may be a quotation inside an explanation."""
        if re.search(rf"score\W{{0,16}}{re.escape(literal)}", self._judged, re.IGNORECASE):
            raise Unreadable("the answer is not valid JSON, and the judged text states this score")

    def _agree(self, outside: str, score: float) -> None:
        """Whatever else the message says of the score must be the same number."""
        for match in (*STATEMENT.finditer(outside), *_IN_WORDS.finditer(outside)):
            literal = _statement(match[1]).rstrip(".")
            if NUMBER.fullmatch(literal) is None or float(literal) != score:
                raise Unreadable("the answer states more than one score", _ONE_SCORE)


_ONE_SCORE = "it stated more than one score. State exactly one."
_PLAIN_NUMBER = 'its "score" was not a plain JSON number.'


def _stands_alone(body: str, start: int, end: int) -> bool:
    """Whether an object has its own lines, a fence, or the end of the message after a colon."""
    before, after = body[:start].rstrip(" \t"), body[end:].lstrip(" \t")
    begins = not before or before.endswith(("\n", "```", "```json", "```JSON"))
    ends = not after or after.startswith(("\n", "```"))
    return ends and (begins or (before.endswith(":") and not after.strip()))


def _lines_beside(body: str, start: int, end: int) -> str:
    """The last line of words before an object, and the first one after it."""
    before = [line for line in body[:start].replace("```json", "").split("\n") if line.strip("` ")]
    after = [line for line in body[end:].split("\n") if line.strip("` ")]
    return "\n".join([*before[-1:], *after[:1]])


def _after_reasoning(text: str) -> str:
    """The answer without the reasoning that some servers leave in front of it."""
    while (found := _REASONING.match(text)) is not None:
        text = text[found.end() :]
    if _REASONING_OPENS.match(text):
        raise Unreadable(
            "the answer is only reasoning without an end",
            "it ended before the verdict. Reason briefly.",
        )
    if not text.startswith(("{", "[", "```")):
        # Some chat templates open the reasoning themselves, so that only its end is answered.
        closes = list(_REASONING_CLOSES.finditer(text))
        if len(closes) == 1:
            text = text[closes[0].end() :]
    return text.strip()


def _statement(raw: str) -> str:
    """What stands after ``score:``, without comments, quotes and emphasis."""
    return _COMMENT.sub("", raw).strip().strip("\"'`*_“”‘’").strip()


def _xml_text(raw: str) -> str:
    inner = _CDATA.fullmatch(raw)
    return (inner[1] if inner else html.unescape(raw)).strip()


def _mantissa(literal: str) -> str:
    return re.split("[eE]", literal)[0]


def _bare(text: str) -> str:
    """Without layout and escapes, so that a quotation is found however it is set."""
    return _LAYOUT.sub("", text)
