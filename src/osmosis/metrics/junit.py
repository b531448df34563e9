"""A run as JUnit XML, the report that every CI system shows: a case for each threshold and sample.

A sample below the threshold is a failure; one that broke by no fault of the agent's is an error;
a skipped one is skipped. What programs wrote is made legal XML text first.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TextIO
from xml.sax.saxutils import escape, quoteattr

from osmosis.metrics.error_types import is_infrastructure
from osmosis.wire.verdict import Verdict

SPOOL_BYTES = 4 << 20
MAX_TEXT_CHARS = 4000
# What XML 1.0 has no way to write, not even as a reference: https://www.w3.org/TR/xml/#charsets
_ILLEGAL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


@dataclass(frozen=True)
class SampleCase:
    """One sample as a test case. ``duration_ms`` may be unknown."""

    row_index: int
    run_index: int
    status: str
    passed: bool
    reward: float | None = None
    error_type: str | None = None
    error_message: str | None = None
    duration_ms: float | None = None


def write_junit(
    out: TextIO, *, name: str, group: str, verdict: Verdict | None, samples: Iterable[SampleCase]
) -> None:
    """Write the report of the run ``name``. ``group`` is the class of its cases.

    The samples are read once and never held in memory: the head of a suite needs its counts, so
    the cases wait in a temporary file.
    """
    out.write('<?xml version="1.0" encoding="UTF-8"?>\n')
    out.write(f"<testsuites name={_attribute(name)}>\n")
    if verdict is not None:
        _write_gate(out, name, verdict)
    with tempfile.SpooledTemporaryFile(SPOOL_BYTES, "w+", encoding="utf-8") as cases:
        counts: Counter[str] = Counter()
        for sample in samples:
            kind, inner = _outcome(sample)
            counts[kind] += 1
            label = f"row {sample.row_index} run {sample.run_index}"
            seconds = (sample.duration_ms or 0.0) / 1000
            cases.write(_case(group, label, inner, seconds))
        cases.seek(0)
        out.write(_suite("samples", counts))
        shutil.copyfileobj(cases, out)
    out.write("  </testsuite>\n</testsuites>\n")


def _write_gate(out: TextIO, name: str, verdict: Verdict) -> None:
    counts: Counter[str] = Counter()
    cases: list[str] = []
    for check in verdict.checks:
        kind, inner = "passed", ""
        if check.outcome == "failed":
            kind, inner = "failure", _element("failure", check.message)
        elif check.outcome == "undecided":
            kind, inner = "error", _element("error", check.message)
        counts[kind] += 1
        cases.append(_case("gate", check.name, inner, 0.0))
    if not verdict.checks and verdict.outcome != "passed":
        counts["error"] += 1
        cases.append(_case("gate", name, _element("error", verdict.message), 0.0))
    out.write(_suite("gate", counts))
    out.writelines(cases)
    out.write("  </testsuite>\n")


def _outcome(sample: SampleCase) -> tuple[str, str]:
    """How the case ended, and the element that says so."""
    if sample.status == "skipped":
        return "skipped", "<skipped/>"
    if sample.passed:
        return "passed", ""
    if sample.status == "failed":
        kind = "error" if is_infrastructure(sample.error_type) else "failure"
        text = sample.error_message or "The sample failed."
        return kind, _element(kind, text, sample.error_type)
    return "failure", _element("failure", f"reward {sample.reward:g} is below the threshold")


def _suite(name: str, counts: Counter[str]) -> str:
    return (
        f'  <testsuite name="{name}" tests="{counts.total()}" failures="{counts["failure"]}" '
        f'errors="{counts["error"]}" skipped="{counts["skipped"]}">\n'
    )


def _case(group: str, name: str, inner: str, seconds: float) -> str:
    head = (
        f'    <testcase classname={_attribute(group)} name={_attribute(name)} time="{seconds:.3f}"'
    )
    return f"{head}>{inner}</testcase>\n" if inner else f"{head}/>\n"


def _element(tag: str, text: str, kind: str | None = None) -> str:
    legal = _ILLEGAL.sub("\ufffd", text[:MAX_TEXT_CHARS])
    first = legal.split("\n", 1)[0]
    type_ = f" type={_attribute(kind)}" if kind else ""
    return f"<{tag} message={quoteattr(first)}{type_}>{escape(legal)}</{tag}>"


def _attribute(text: str) -> str:
    return quoteattr(_ILLEGAL.sub("\ufffd", text))
