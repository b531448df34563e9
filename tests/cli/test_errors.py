from __future__ import annotations

import json
from pathlib import Path

import pytest

from osmosis.cli.arguments import parse_line
from tests.cli.conftest import Osmosis


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["evla"], "Did you mean 'eval'?"),
        (["submit"], "Did you mean 'osmosis eval submit'?"),
        (["--jsn"], "Did you mean '--json'?"),
        (["eval", "lst"], "Did you mean 'list'?"),
        (["eval", "list", "--lmit", "3"], "--limit"),
        (["eval", "list", "--limit", "51"], "range"),
        (["eval", "list", "--limit", "3", "--all"], "exclude"),
        (["eval", "stop"], "NAME"),
        (["eval", "info", "a", "b"], "unexpected"),
        (["--platform"], "needs a value"),
        (["eval", "submit", "x.toml", "--set", "nonsense"], "section.key=value"),
    ],
)
def test_a_mistake_on_the_line_ends_with_2_and_a_suggestion(
    osmosis: Osmosis, words: list[str], expected: str
):
    done = osmosis(*words)
    assert done.code == 2
    assert done.out == ""
    assert expected in done.err
    error = osmosis("--json", *words).error
    assert error["code"] == "VALIDATION"


def test_json_and_plain_exclude_each_other(osmosis: Osmosis):
    done = osmosis("eval", "list", "--json", "--plain")
    assert done.code == 1
    assert done.error["code"] == "VALIDATION"


def test_global_flags_stand_anywhere(osmosis: Osmosis):
    for words in (
        ["--json", "eval", "list"],
        ["eval", "--json", "list"],
        ["eval", "list", "--json"],
    ):
        assert osmosis(*words).error["code"] == "WORKSPACE_REQUIRED"


def test_what_follows_two_dashes_is_not_a_flag():
    line = parse_line(["secret", "set", "--", "--json"])
    assert (line.json, line.words) == (False, ["secret", "set", "--", "--json"])


def test_valued_flags_take_both_spellings():
    line = parse_line(
        ["--platform=http://x", "eval", "--workspace", "w", "list", "--env-file", "e"]
    )
    assert (line.platform, line.workspace, line.env_file) == ("http://x", "w", "e")
    assert line.words == ["eval", "list"]


def test_the_error_envelope_names_the_command(osmosis: Osmosis):
    done = osmosis("--json", "model", "endpoint", "list")
    envelope = json.loads(done.err)
    assert envelope["schema_version"] == 1
    assert envelope["command"] == "model endpoint list"
    assert envelope["cli_version"]
    assert set(envelope["error"]) == {"code", "message", "details"}


def test_without_a_server_it_says_how_to_start_one(osmosis: Osmosis):
    done = osmosis("workspace", "list")
    assert done.code == 1
    assert "osmosis server start" in done.err


def test_a_platform_that_is_away_is_named(osmosis: Osmosis, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OSMOSIS_TOKEN", "x")
    done = osmosis("workspace", "list", "--platform", "http://127.0.0.1:9")
    assert done.code == 1
    assert "No server answers at http://127.0.0.1:9" in done.err


def test_an_unexpected_error_shows_no_traceback_unless_asked(
    osmosis: Osmosis, monkeypatch: pytest.MonkeyPatch
):
    def explode(self: object) -> None:
        raise RuntimeError("bang")

    monkeypatch.setattr("osmosis.client.api.Api.workspaces", explode)
    monkeypatch.setenv("OSMOSIS_TOKEN", "x")
    done = osmosis("--json", "workspace", "list")
    assert done.code == 1
    assert done.error["code"] == "INTERNAL"
    assert done.error["details"]["exception_type"] == "RuntimeError"
    assert "Traceback" not in done.err
    monkeypatch.setenv("OSMOSIS_DEBUG", "1")
    assert "Traceback" in osmosis("workspace", "list").err


def test_ctrl_c_ends_with_130(osmosis: Osmosis, monkeypatch: pytest.MonkeyPatch):
    def interrupt(self: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("osmosis.client.api.Api.workspaces", interrupt)
    monkeypatch.setenv("OSMOSIS_TOKEN", "x")
    done = osmosis("workspace", "list")
    assert (done.code, done.out) == (130, "")


def test_the_nearest_env_file_is_read_and_the_environment_wins(
    osmosis: Osmosis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / ".env").write_text("export OSMOSIS_PLATFORM_URL='http://127.0.0.1:9'\n# note\n")
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    assert "127.0.0.1:9" in osmosis("workspace", "list").err
    monkeypatch.setenv("OSMOSIS_PLATFORM_URL", "http://127.0.0.1:8")
    assert osmosis("--json", "workspace", "list").error["code"] == "CONFLICT"


def test_an_env_file_does_not_choose_who_gets_the_token(
    osmosis: Osmosis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / ".env").write_text("OSMOSIS_PLATFORM_URL=https://evil.example\n")
    monkeypatch.setenv("OSMOSIS_TOKEN", "secret")
    error = osmosis("--json", "workspace", "list").error
    assert error["code"] == "ENV_TOKEN_PLATFORM_REQUIRED"


def test_a_broken_env_file_names_the_line(osmosis: Osmosis, tmp_path: Path):
    (tmp_path / "my.env").write_text("A=1\nnot a pair\n")
    done = osmosis("--env-file", tmp_path / "my.env", "workspace", "list")
    assert done.code == 1
    assert "line 2" in done.err
