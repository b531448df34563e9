from __future__ import annotations

import json
import math
import statistics as exact
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmosis.evaluation.redaction import Redactor
from osmosis.rubric.judge import Judge, Judgement
from osmosis.rubric.judging import Counts, Outcome
from osmosis.rubric.prompt import Task
from osmosis.rubric.report import Finished, build_report, report_path, statistics, write_report
from osmosis.wire.errors import OsmosisError


def scored(score: float) -> Judgement:
    return Judgement(status="scored", score=score, explanation=f"it is {score}", asks=1)


def unscored(reason: str) -> Judgement:
    return Judgement(status="unscored", reason=reason, raw=("mumble",), asks=2)


def finished(*outcomes: Outcome, models: tuple[str, ...] = ("openai/m",), **more: Any) -> Finished:
    judges = [
        Judge(SimpleNamespace(provider="p", model=m, address="http://x/v1", ask=None))  # type: ignore[arg-type]
        for m in models
    ]
    every = [j for outcome in outcomes for j in outcome.judgements.values()]
    counts = Counts(
        scored=sum(j.status == "scored" for j in every),
        unscored=sum(j.status == "unscored" for j in every),
        bad_records=sum(outcome.problem is not None for outcome in outcomes),
    )
    given = {"number": 1, "redactor": Redactor([]), **more}
    return Finished(
        judges, Task("Is it right?"), "c.jsonl", outcomes=outcomes, counts=counts, **given
    )


def test_the_report_has_the_documented_shape():
    report = build_report(
        finished(
            Outcome(1, "first", "line 1", judgements={(0, 0): scored(0.5), (0, 1): scored(1.0)}),
            Outcome(2, "record[2]", "line 4", problem="it is not JSON"),
            Outcome(3, "record[3]", "line 5", judgements={(0, 0): unscored("no verdict")}),
            number=2,
        )
    )
    assert report["model"] == "openai/m"
    assert (report["rubric"], report["data_path"]) == ("Is it right?", "c.jsonl")
    assert report["number"] == 2
    assert report["overall_statistics"] == {
        "average": 0.75,
        "variance": 0.0625,
        "stdev": 0.25,
        "min": 0.5,
        "max": 1.0,
        "count": 2,
    }
    first, second, third = report["records"]
    assert {key: first[key] for key in ("index", "label", "scores", "explanations", "errors")} == {
        "index": 1,
        "label": "first",
        "scores": [0.5, 1.0],
        "explanations": ["it is 0.5", "it is 1.0"],
        "errors": [],
    }
    assert second["errors"] == ["line 4: it is not JSON"]
    assert third["errors"] == ["line 5: unscored: no verdict"]
    assert third["scores"] == []
    assert third["statistics"]["count"] == 0
    assert third["judgements"][0]["raw"] == ("mumble",)
    assert report["counts"]["unscored"] == 1
    assert report["agreement"] is None


def test_several_judges_are_compared_on_what_both_scored():
    report = build_report(
        finished(
            Outcome(1, "a", "line 1", judgements={(0, 0): scored(0), (1, 0): scored(0)}),
            Outcome(2, "b", "line 2", judgements={(0, 0): scored(1), (1, 0): scored(1)}),
            Outcome(3, "c", "line 3", judgements={(0, 0): scored(0), (1, 0): scored(1)}),
            Outcome(4, "d", "line 4", judgements={(0, 0): scored(1), (1, 0): unscored("x")}),
            models=("openai/x", "openai/y"),
        )
    )
    found = report["agreement"]
    assert found["krippendorff_alpha"] == pytest.approx(1 - (1 / 3) / (3 / 5))
    (pair,) = found["pairs"]
    assert (pair["models"], pair["units"]) == (["openai/x", "openai/y"], 3)
    assert pair["exact"] == pytest.approx(2 / 3)
    assert [judge["scored"] for judge in report["judges"]] == [4, 3]
    assert report["records"][3]["errors"] == ["line 4: unscored: openai/y: x"]


def test_a_secret_that_a_server_echoes_is_taken_out():
    leak = Judgement(status="failed", reason="Incorrect API key: sk-canary-123", kind="auth")
    report = build_report(
        finished(
            Outcome(1, "a", "line 1", judgements={(0, 0): leak}),
            redactor=Redactor(["sk-canary-123"]),
        )
    )
    assert "canary" not in json.dumps(report)


@given(st.lists(st.floats(-1e6, 1e6), max_size=30))
def test_the_statistics_are_those_of_the_population(scores: list[float]):
    found = statistics(scores)
    assert found["count"] == len(scores)
    if not scores:
        assert set(found.values()) == {0.0}
        return
    assert found["average"] == pytest.approx(exact.fmean(scores), abs=1e-9, rel=1e-9)
    assert found["variance"] == pytest.approx(exact.pvariance(scores), rel=1e-6, abs=1e-6)
    assert found["stdev"] == math.sqrt(found["variance"])
    assert found["min"] <= found["average"] <= found["max"] or found["stdev"] < 1e-6


def test_equal_scores_have_no_spread_at_all():
    assert statistics([0.1 + 0.2] * 3)["variance"] == 0.0


def test_a_directory_gets_the_documented_name(tmp_path: Path):
    assert report_path(str(tmp_path)) == tmp_path / "rubric_eval_result.json"
    assert report_path(f"{tmp_path}/new/") == tmp_path / "new" / "rubric_eval_result.json"
    assert report_path(f"{tmp_path}/r.json") == tmp_path / "r.json"


def test_a_report_is_written_whole_or_not_at_all(tmp_path: Path):
    path = tmp_path / "deep" / "r.json"
    write_report(path, {"a": "ü"})
    assert json.loads(path.read_text()) == {"a": "ü"}
    with pytest.raises(ValueError, match="JSON"):
        write_report(path, {"a": math.nan})
    assert json.loads(path.read_text()) == {"a": "ü"}
    (tmp_path / "file").touch()
    with pytest.raises(OsmosisError, match="Cannot write"):
        write_report(tmp_path / "file" / "r.json", {})
    assert [found.name for found in path.parent.iterdir()] == ["r.json"]
