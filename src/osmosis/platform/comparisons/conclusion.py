"""What may and what may not be concluded from a comparison, in plain words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from osmosis.metrics.intervals import CONFIDENCE

ALPHA = 1 - CONFIDENCE

Measure = Mapping[str, Any]


def conclusion(
    baseline: str, candidate: str, measures: Mapping[str, Measure], *, paired: bool, same: bool
) -> str:
    """The sentences for two runs; ``same``: nothing that was set differs between them."""
    rate, score = measures.get("pass_rate"), measures.get("score")
    main = rate or score
    if main is None:
        return f"Nothing can be concluded: no row has a result in both {baseline} and {candidate}."
    sentences = [_sentence(baseline, candidate, "pass_rate" if rate else "score", main, paired)]
    if rate and score and _significant(score) != _significant(rate):
        sentences.append(_sentence(baseline, candidate, "score", score, paired))
    if same:
        sentences.append(
            "Nothing was set differently: what differs is the model's own noise, or the provider."
        )
    scope = "these rows" if paired else "the rows that each had"
    sentences.append(f"This holds for {scope} and rows like them, not for other tasks.")
    return " ".join(sentences)


def p_text(p_value: float | None) -> str:
    """``p = 0.012``; very small ones as a bound."""
    if p_value is None:
        return "p unknown"
    return "p < 0.001" if p_value < 0.001 else f"p = {p_value:.3f}"


def _sentence(baseline: str, candidate: str, name: str, measure: Measure, paired: bool) -> str:
    facts = _facts(name, measure, paired)
    p_value = measure.get("p_adjusted", measure.get("p_value"))
    what = "passes" if name == "pass_rate" else "scores"
    if p_value is None:
        return f"Too little to tell {candidate} from {baseline}: {facts}."
    if _significant(measure):
        more = measure["difference"] > 0
        how = {"passes": ("more often", "less often"), "scores": ("higher", "lower")}[what]
        return (
            f"{candidate} {what} {how[not more]} than {baseline}: {facts}. Chance alone is an "
            "unlikely reason."
        )
    noun = "pass rate" if name == "pass_rate" else "mean reward"
    alike = "That is no proof that they are alike"
    if measure.get("low") is not None:
        alike += ": the interval says how far apart they may be"
    return (
        f"No difference in the {noun} of {candidate} and {baseline} can be concluded: {facts}. "
        f"{alike}."
    )


def _facts(name: str, measure: Measure, paired: bool) -> str:
    show = _percent if name == "pass_rate" else _number
    old, new = show(measure["baseline"]), show(measure["candidate"])
    rows = f"{measure['rows']:,} row{'' if measure['rows'] == 1 else 's'}"
    on = f"on the {rows} of both" if paired else "on different rows"
    parts = [f"{_signed(name, measure['difference'])}"]
    if measure.get("low") is not None:
        low = _signed(name, measure["low"]).removesuffix(" points")
        ends = f"{low} to {_signed(name, measure['high'])}"
        parts.append(f"95% interval {ends}")
    parts.append(p_text(measure.get("p_value")))
    if "p_adjusted" in measure:
        parts.append(f"{p_text(measure['p_adjusted'])} among several comparisons")
    return f"{new} against {old} {on} ({', '.join(parts)})"


def _significant(measure: Measure) -> bool:
    p_value = measure.get("p_adjusted", measure.get("p_value"))
    return p_value is not None and p_value < ALPHA


def _percent(value: float) -> str:
    return f"{value * 100:.1f}%"


def _number(value: float) -> str:
    return f"{value:.4g}"


def _signed(name: str, value: float) -> str:
    return f"{value * 100:+.1f} points" if name == "pass_rate" else f"{value:+.4g}"
