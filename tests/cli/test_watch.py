from __future__ import annotations

from typing import Any

import pytest

from osmosis.cli.evals import watch as watching
from osmosis.cli.evals.run_view import run_detail
from osmosis.cli.output.mode import output
from osmosis.client.api import LogPage
from osmosis.wire.errors import Unreachable


def document(status: str, done: int = 0, **results: Any) -> dict[str, Any]:
    return {
        "eval_run": {
            "id": "1",
            "name": "calm-fox-1",
            "status": status,
            "stage": "running",
            "started_at": "2026-01-01T00:00:00Z",
            "completed_at": "2026-01-01T00:00:09Z" if status == "finished" else None,
        },
        "config": {"n": 2, "model_path": "openai/x"},
        "results": {"total_runs": done, "sampled_rows": 5, "pass_rate": 0.5, **results},
    }


class Platform:
    """Answers with the given documents in turn."""

    def __init__(self, *answers: Any, news: list[str] = []) -> None:  # noqa: B006
        self.answers = list(answers)
        self.news = list(news)

    def eval(self, ref: str) -> dict[str, Any]:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def eval_logs(self, ref: str, **paging: Any) -> LogPage:
        entries = [{"level": "warning", "message": text} for text in self.news]
        self.news = []
        return LogPage(entries, "c")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(watching, "POLL_S", 0.0)
    monkeypatch.setattr(output, "mode", "plain")


def test_each_state_is_told_once(capsys: pytest.CaptureFixture[str]):
    platform: Any = Platform(
        document("pending"),
        document("running", 1),
        document("running", 2),
        document("finished", 10, score=0.5, failed=1),
    )
    ended = watching.watch(platform, "calm-fox-1")
    assert ended["results"]["total_runs"] == 10
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(":")[0].split(" [")[0] for line in lines] == [
        "pending",
        "running",
        "finished",
    ]
    assert lines[-1] == (
        "finished: 10 of 10 samples, pass rate 50.0%, reward 0.500, 1 failed [9.0 s]"
    )


def test_a_server_that_is_away_for_a_moment_is_waited_for():
    platform: Any = Platform(Unreachable("gone"), Unreachable("gone"), document("finished", 10))
    assert watching.watch(platform, "x")["eval_run"]["status"] == "finished"


def test_a_server_that_stays_away_is_an_error(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(watching, "GIVE_UP_S", -1.0)
    with pytest.raises(Unreachable):
        watching.watch(Platform(Unreachable("gone")), "x")  # type: ignore[arg-type]


def test_warnings_are_told_once_and_not_those_told_before(capsys: pytest.CaptureFixture[str]):
    platform: Any = Platform(document("finished", 10), news=["old", "new"])
    watching.watch(platform, "x", told=["old"])
    assert capsys.readouterr().err.splitlines()[1:] == ["Warning: new"]


def test_a_flood_of_warnings_is_cut(capsys: pytest.CaptureFixture[str]):
    platform: Any = Platform(document("finished", 10), news=[str(n) for n in range(100)])
    watching.watch(platform, "x")
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 22
    assert "osmosis eval logs x" in lines[-1]


def test_results_show_error_groups_statistics_and_unknown_cost():
    full = document(
        "finished",
        10,
        graded=8,
        passed=5,
        failed=2,
        skipped=0,
        score=0.625,
        pass_threshold=1.0,
        errors={"timeout": 2},
        infrastructure_failures=2,
        clean_pass_rate=0.625,
        samples_with_unknown_cost=10,
        reward_stats={
            "mean": 0.625, "std": 0.4, "min": 0.0, "median": 1.0, "max": 1.0,
            "pass_at_k": {"1": 0.5, "2": 0.75},
        },
    )  # fmt: skip
    detail = run_detail(full, {"status": "finished"}, None, {})
    results = dict(detail.sections[1].rows)
    assert results["Samples"] == "8 graded, 5 passed, 2 failed, 0 skipped"
    assert results["Cost"] == "unknown"
    assert results["Pass@k"] == "k=1 50.0%  k=2 75.0%"
    assert results["Pass rate without"] == "2 infrastructure failures: 62.5%"
    assert detail.sections[2].rows == [("timeout", "2 samples")]
    assert detail.data["summary"]["reward"] == 0.625


def test_a_failed_run_shows_its_reason_and_remedy():
    failed = document("failed")
    failed["error"] = {"kind": "model_key_missing", "message": "No key.", "hint": "Set it."}
    detail = run_detail(failed, None, None, {})
    rows = dict(detail.rows)
    assert (rows["Error"], rows["Remedy"]) == ("No key.", "Set it.")
    assert any("osmosis eval logs" in (step.command or "") for step in detail.hints)


def test_what_user_code_printed_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str]):
    platform: Any = Platform(document("finished", 10), news=["\x1b]0;owned\x07red\x1b[31m"])
    watching.watch(platform, "x")
    assert "\x1b" not in capsys.readouterr().err
