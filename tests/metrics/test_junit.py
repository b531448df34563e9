"""The JUnit report, read back by an XML parser."""

from __future__ import annotations

import io
from collections.abc import Iterable
from xml.etree import ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from osmosis.metrics.junit import SampleCase, write_junit
from osmosis.wire.verdict import Check, Verdict

PASSED = SampleCase(0, 0, "success", True, 1.0, duration_ms=1500.0)
MISSED = SampleCase(1, 0, "success", False, 0.25)
BROKEN = SampleCase(2, 0, "failed", False, None, "timeout", "No result within 5 s.")
CRASHED = SampleCase(3, 0, "failed", False, None, "agent_error", "KeyError: 'x'\nat line 3")
SKIPPED = SampleCase(4, 0, "skipped", False)
CHECKS = (
    Check("min_pass_rate", "failed", 0.9, 0.5, "pass rate 50%"),
    Check("min_score", "undecided", 1, None, "nothing graded"),
)
FAILED_GATE = Verdict("failed", "1 of 2 thresholds missed.", CHECKS)


def report(samples: Iterable[SampleCase], verdict: Verdict | None = None) -> ET.Element:
    out = io.StringIO()
    write_junit(out, name="calm-fox-3", group="multiply.sums", verdict=verdict, samples=samples)
    return ET.fromstring(out.getvalue().encode())


def counts(suite: ET.Element) -> tuple[int, ...]:
    return tuple(int(suite.attrib[name]) for name in ("tests", "failures", "errors", "skipped"))


def test_each_sample_is_a_case_and_the_suite_counts_them() -> None:
    (suite,) = report([PASSED, MISSED, BROKEN, CRASHED, SKIPPED])
    assert counts(suite) == (5, 2, 1, 1)
    children = [[child.tag for child in case] for case in suite]
    assert children == [[], ["failure"], ["error"], ["failure"], ["skipped"]]
    assert suite[0].attrib == {"classname": "multiply.sums", "name": "row 0 run 0", "time": "1.500"}
    assert suite[3][0].attrib == {"message": "KeyError: 'x'", "type": "agent_error"}
    assert suite[3][0].text == "KeyError: 'x'\nat line 3"


def test_a_gate_is_a_suite_of_its_own() -> None:
    gate, samples = report([PASSED], FAILED_GATE)
    assert (counts(gate), counts(samples)) == ((2, 1, 1, 0), (1, 0, 0, 0))


def test_a_run_that_never_got_to_its_thresholds_does_not_look_green() -> None:
    gate, _ = report([PASSED], Verdict("incomplete", "The run was stopped (budget)."))
    assert counts(gate) == (1, 0, 1, 0)


@given(st.text() | st.text(st.characters(categories=["Cc", "Cs"]), min_size=1))
def test_whatever_a_program_wrote_is_legal_xml(text: str) -> None:
    sample = SampleCase(0, 0, "failed", False, None, text, text)
    (suite,) = report([sample])
    assert suite[0][0].tag == "failure"
