"""`osmosis eval rubric` as a user types it: a file, a rubric, a judge, and no platform."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Done, Osmosis
from tests.rubric.conftest import MockJudge, Reply, mock_judge, no_provider_variables

__all__ = ["mock_judge", "no_provider_variables"]

LIMIT_S = 30.0
Rubric = Any


@pytest.fixture
def rubric(osmosis: Osmosis, mock_judge: MockJudge, tmp_path: Path) -> Rubric:
    """The command on a file of these lines, with the mock judge."""

    def invoke(*words: str, lines: list[Any] | None = None, mode: str = "--json") -> Done:
        data = tmp_path / "c.jsonl"
        if lines is not None:
            texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
            data.write_text("\n".join(texts))
        elif not data.exists():
            data.write_text('{"solution_str": "42", "id": "first"}\n{"solution_str": "43"}\n')
        given = [] if mode == "rich" else [mode]
        model = [] if "--model" in words else ["--model", "openai/m"]
        asked = ["-d", data, *model, "--base-url", mock_judge.url, *words]
        if "-r" not in words and "--rubric" not in words:
            asked += ["-r", "Is it right?"]
        return osmosis(*given, "eval", "rubric", *asked)

    return invoke


def resource(done: Done) -> dict[str, Any]:
    assert (done.code, done.err) == (0, "")
    body = done.json
    assert (body["schema_version"], body["status"]) == (1, "success")
    assert body["operation"] == "eval.rubric"
    return body["resource"]


def test_without_output_the_records_are_in_the_result(rubric: Rubric):
    found = resource(rubric())
    assert (found["model"], found["number"], found["record_count"]) == ("openai/m", 1, 2)
    assert found["error_count"] == 0
    assert found["statistics"]["average"] == 0.75
    assert "output_path" not in found
    assert [record["label"] for record in found["records"]] == ["first", "record[2]"]


def test_with_output_the_report_is_in_its_file_and_nothing_else_is_left(
    rubric: Rubric, tmp_path: Path
):
    found = resource(rubric("-o", "out/", "-n", "2"))
    assert "records" not in found
    path = Path(found["output_path"])
    assert path == Path("out/rubric_eval_result.json")
    report = json.loads(path.read_text())
    assert set(report) >= {
        "generated_at", "model", "rubric", "data_path", "number", "overall_statistics", "records",
    }  # fmt: skip
    assert [record["scores"] for record in report["records"]] == [[0.75, 0.75]] * 2
    assert [file.name for file in Path("out").iterdir()] == ["rubric_eval_result.json"]


def test_bad_lines_are_named_while_the_rest_is_judged(rubric: Rubric):
    lines = ["nonsense", {"solution_str": "42"}, "", {"messages": []}]
    done = rubric("-o", "r.json", lines=lines)
    error = done.error
    assert (done.code, error["code"]) == (1, "PLATFORM_ERROR")
    assert error["details"]["error_count"] == 2
    assert (error["details"]["record_count"], error["details"]["statistics"]["count"]) == (3, 1)
    records = json.loads(Path("r.json").read_text())["records"]
    assert [len(record["errors"]) for record in records] == [1, 0, 1]
    assert records[0]["errors"][0].startswith("line 1: it is not JSON")
    assert records[2]["errors"][0].startswith("line 4: ")


@pytest.mark.parametrize("mode", ["rich", "--plain"])
def test_people_see_the_scores_and_why_some_are_missing(
    rubric: Rubric, mock_judge: MockJudge, mode: str
):
    mock_judge.answer = lambda body: (
        Reply() if '"42"' in body["messages"][1]["content"] else "I like it: 8/10"
    )
    done = rubric(mode=mode)
    assert done.code == 1
    assert "1 unscored" in done.out
    assert "0.75  It is right." in done.out
    assert "line 2: unscored: there is no verdict in the answer" in done.out
    assert done.err.startswith("Error: ")
    assert "\x1b" not in done.out + done.err


def test_an_unscored_answer_is_kept_word_by_word(rubric: Rubric, mock_judge: MockJudge):
    mock_judge.says("I like it: 8/10 \x1b[31m")
    done = rubric("-o", "r.json")
    assert done.code == 1
    for record in json.loads(Path("r.json").read_text())["records"]:
        assert record["scores"] == []
        assert record["judgements"][0]["raw"] == ["I like it: 8/10 \x1b[31m"] * 2


def test_several_judges_and_repeats(rubric: Rubric, mock_judge: MockJudge):
    mock_judge.answer = lambda body: json.dumps(
        {"explanation": "x", "score": 1 if body["model"] == "a" else 0}
    )
    found = resource(rubric("--model", "openai/a", "--model", "openai/b", "-n", "3"))
    assert found["model"] == "openai/a, openai/b"
    assert found["counts"]["scored"] == 12
    assert found["statistics"]["average"] == 0.5
    assert found["agreement"]["pairs"][0]["exact"] == 0.0
    plain = rubric("--model", "openai/a", "--model", "openai/b", mode="--plain")
    assert "Krippendorff's alpha: " in plain.out
    assert "openai/a and openai/b: same score on 0% of 2" in plain.out


def test_the_rubric_may_stand_in_a_file(rubric: Rubric, mock_judge: MockJudge, tmp_path: Path):
    (tmp_path / "rubric.md").write_text("\ufeff  Is it the answer?\n")
    resource(rubric("-r", "@rubric.md"))
    assert "Rubric:\nIs it the answer?\n" in mock_judge.requests[0]["messages"][1]["content"]


def test_the_conversation_is_shown_only_when_asked_for(rubric: Rubric, mock_judge: MockJudge):
    said = {"role": "user", "content": "What is 6 x 7?"}
    lines = [{"messages": [said, {"role": "assistant", "content": "42"}]}]
    resource(rubric(lines=lines))
    resource(rubric("--show-conversation", lines=lines))
    first, second = (body["messages"][1]["content"] for body in mock_judge.requests)
    assert "6 x 7" not in first
    assert "6 x 7" in second


WRONG = {
    "empty rubric": (["-r", " "], 1, "The rubric is empty"),
    "missing rubric file": (["-r", "@none.md"], 1, "There is no file none.md"),
    "range": (["--score-min", "1"], 2, "--score-max"),
    "range that is no number": (["--score-max", "nan"], 2, "--score-max"),
    "number": (["-n", "0"], 2, "--number"),
    "timeout": (["--timeout", "0"], 2, "--timeout"),
    "endless timeout": (["--timeout", "inf"], 2, "--timeout"),
    "same judge twice": (["--model", "openai/m", "--model", "openai/m"], 2, "--model"),
}


@pytest.mark.parametrize("name", WRONG)
def test_mistakes_are_told_before_any_request(rubric: Rubric, mock_judge: MockJudge, name: str):
    words, code, said = WRONG[name]
    done = rubric(*words)
    assert done.code == code
    assert said in done.error["message"]
    assert mock_judge.requests == []


def test_a_file_that_is_not_there_or_holds_nothing(rubric: Rubric, osmosis: Osmosis):
    done = osmosis("--json", "eval", "rubric", "-d", "x.jsonl", "-r", "x", "--model", "openai/m")
    assert done.error["code"] == "NOT_FOUND"
    done = rubric(lines=["", ""])
    assert done.error["code"] == "VALIDATION"
    assert "nothing to judge" in done.error["message"]


def test_a_missing_key_names_the_variable(osmosis: Osmosis, tmp_path: Path):
    (tmp_path / "c.jsonl").write_text('{"solution_str": "42"}')
    words = ["eval", "rubric", "-d", "c.jsonl", "-r", "x", "--model"]
    done = osmosis("--json", *words, "openai/gpt-5-mini")
    assert done.code == 1
    assert "OPENAI_API_KEY" in done.error["message"]
    done = osmosis("--json", *words, "opnai/gpt-5-mini")
    assert "Did you mean 'openai'?" in done.error["message"]


def test_keys_come_from_the_environment_and_reach_no_output(
    rubric: Rubric, mock_judge: MockJudge, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary-from-env")
    mock_judge.says(Reply(status=401, error="Incorrect API key provided: sk-canary-from-env"))
    done = rubric("-o", "r.json")
    assert set(mock_judge.keys) == {"Bearer sk-canary-from-env"}
    assert done.error["details"]["counts"]["failed"] == 2
    assert "canary" not in done.out + done.err + Path("r.json").read_text()


def test_a_key_on_the_command_line_works_with_a_warning(rubric: Rubric, mock_judge: MockJudge):
    done = rubric("--api-key", "sk-given")
    assert done.code == 0
    assert mock_judge.keys == ["Bearer sk-given"] * 2
    warning = json.loads(done.err)["warning"]
    assert warning["code"] == "DEPRECATION"
    assert "sk-given" not in done.out + done.err


def test_the_address_may_stand_in_the_environment(
    osmosis: Osmosis, mock_judge: MockJudge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "c.jsonl").write_text('{"solution_str": "42"}')
    (tmp_path / ".env").write_text(f"OPENAI_BASE_URL={mock_judge.url}\n")
    words = ["eval", "rubric", "-d", "c.jsonl", "-r", "x", "--model", "openai/m"]
    assert resource(osmosis("--json", *words))["judges"][0]["base_url"] == mock_judge.url


def test_a_scripted_judge_needs_no_server(osmosis: Osmosis, tmp_path: Path):
    (tmp_path / "c.jsonl").write_text('{"solution_str": "42"}')
    (tmp_path / "judge.toml").write_text(
        '[[rules]]\nreply = \'{"explanation": "scripted", "score": 0.5}\'\n'
    )
    words = ["eval", "rubric", "-d", "c.jsonl", "-r", "x", "--model", "scripted/judge.toml"]
    found = resource(osmosis("--json", *words))
    assert (found["model"], found["statistics"]["average"]) == ("scripted/judge.toml", 0.5)
    (tmp_path / "judge.toml").write_text("[[rules]]\n")
    error = osmosis("--json", *words).error
    assert error["code"] == "VALIDATION"
    assert "judge.toml" in error["message"]


def test_an_interrupted_command_goes_on_where_it_was(mock_judge: MockJudge, tmp_path: Path):
    data = tmp_path / "c.jsonl"
    data.write_text("".join(f'{{"solution_str": "text {n}"}}\n' for n in range(30)))
    mock_judge.answer = lambda _: Reply(delay_s=0.0 if len(mock_judge.requests) < 11 else 60.0)
    argv = [sys.executable, "-m", "osmosis.cli.main", "eval", "rubric", "-d", "c.jsonl"]
    argv += ["-r", "x", "--model", "openai/m", "--base-url", mock_judge.url, "-o", "r.json"]
    argv += ["--concurrency", "2"]
    process = subprocess.Popen(argv, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + LIMIT_S
    while len(mock_judge.requests) < 12:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    told = process.communicate(timeout=LIMIT_S)[1]
    assert process.returncode == 130, told
    assert "10 of 30 judged" in told
    assert "the same command goes on" in told
    assert "Traceback" not in told
    assert not (tmp_path / "r.json").exists()

    mock_judge.requests.clear()
    mock_judge.answer = lambda _: Reply()
    done = subprocess.run(
        argv, cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT_S, check=False,
        env={**os.environ, "NO_COLOR": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done
    assert "10 scores of an earlier, unfinished run" in done.stderr
    assert len(mock_judge.requests) == 20
    report = json.loads((tmp_path / "r.json").read_text())
    assert (report["counts"]["scored"], report["counts"]["resumed"]) == (30, 10)
    assert not list(tmp_path.glob("*.partial*"))


def test_fresh_asks_everything_anew(rubric: Rubric, mock_judge: MockJudge):
    mock_judge.answer = lambda _: Reply() if len(mock_judge.requests) == 1 else "mumble"
    assert rubric("-o", "r.json", "--concurrency", "1").code == 1
    mock_judge.requests.clear()
    mock_judge.answer = lambda _: Reply()
    resource(rubric("-o", "r.json", "--fresh"))
    assert len(mock_judge.requests) == 2
