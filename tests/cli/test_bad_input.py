"""What a user gets wrong: the documented code, the exit code, and words that help."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from osmosis.client.credentials import credentials_path
from tests.cli.conftest import Osmosis, git

CONFIG = "configs/eval/multiply-scripted.toml"


def run_of(near: Osmosis) -> str:
    return near("--json", "eval", "submit", CONFIG, "--yes").json["resource"]["name"]


@pytest.mark.usefixtures("ready")
@pytest.mark.parametrize(
    ("words", "code", "helps"),
    [
        ("eval submit elsewhere.toml -y", "VALIDATION", "under configs/eval/"),
        ("eval submit configs/eval/multiply-scriptd.toml -y", "NOT_FOUND", "Did you mean"),
        ("dataset info multply", "NOT_FOUND", "multiply"),
        ("dataset download multply", "NOT_FOUND", "multiply"),
        ("eval info no-such-run-1", "NOT_FOUND", "no-such-run-1"),
        ("eval download no-such-run-1", "NOT_FOUND", "no-such-run-1"),
        ("eval retry no-such-run-1 -y", "NOT_FOUND", "no-such-run-1"),
        ("eval stop no-such-run-1 -y", "NOT_FOUND", "no-such-run-1"),
        ("eval download x --type metrcs", "VALIDATION", "Did you mean 'metrics'?"),
        ("eval download x --type all,logs", "VALIDATION", "stands alone"),
        ("eval download x --rows 5-2", "VALIDATION", "Write 2-5"),
        ("eval download x --rows one", "VALIDATION", "3,7,10-20"),
        (f"eval submit {CONFIG} -y --set evaluation.pass_threshold=nan", "VALIDATION", "finite"),
        (f"eval submit {CONFIG} -y --set evaluation.pass_threshold=inf", "VALIDATION", "finite"),
        (f"eval submit {CONFIG} -y --limit 0", "VALIDATION", "evaluation.limit"),
        (f"eval submit {CONFIG} -y --dataset multply", "VALIDATION", "multiply"),
        (
            f"eval submit {CONFIG} -y --model scripted/models/multipl.toml",
            "VALIDATION",
            "multipl.toml",
        ),
        (f"eval submit {CONFIG} -y --commit 0000000", "VALIDATION", "0000000"),
        ("eval info --workspace nope", "PLATFORM_ERROR", "nope"),
        ("eval retry x", "INTERACTIVE_REQUIRED", "--yes"),
        ("eval delete x", "NOT_FOUND", "x"),
    ],
)
def test_a_mistake_has_its_code_and_words_that_help(
    near: Osmosis, words: str, code: str, helps: str
):
    Path("elsewhere.toml").write_text(Path(CONFIG).read_text())
    done = near("--json", *words.split())
    assert done.code == 1, done
    assert done.error["code"] == code
    assert helps in json.dumps(done.error)
    for mode in ([], ["--plain"]):
        told = near(*mode, *words.split())
        assert (told.code, told.out) == (1, "")
        assert told.err.startswith("Error: ")
        assert helps in told.err


@pytest.mark.usefixtures("ready")
@pytest.mark.parametrize(
    "words",
    [
        "eval list --limit 51",
        "dataset list --limit 0",
        "eval list --limit 5 --all",
        "eval logs x --limit 201",
        "eval list --limit many",
        "eval download",
        "eval retry",
        "eval submit",
        "completion tcsh",
        "eval download x --typ metrics",
    ],
)
def test_a_mistake_on_the_command_line_ends_with_2(near: Osmosis, words: str):
    done = near("--json", *words.split())
    assert done.code == 2
    assert done.error["code"] == "VALIDATION"
    told = near(*words.split())
    assert (told.code, told.out) == (2, "")
    assert "--help" in told.err or "exclude" in told.err


@pytest.mark.usefixtures("ready")
def test_an_unknown_run_is_answered_with_the_near_one(near: Osmosis):
    name = run_of(near)
    for words in (["info"], ["stop", "-y"], ["logs"], ["download"], ["retry", "-y"]):
        error = near("--json", "eval", words[0], name[:-1], *words[1:]).error
        assert error["code"] == "NOT_FOUND"
        assert f"'{name}'" in json.dumps(error), words


@pytest.mark.usefixtures("ready")
def test_a_run_that_has_not_begun_has_nothing_to_download_or_to_retry(near: Osmosis):
    name = run_of(near)
    error = near("--json", "eval", "download", name).error
    assert error["code"] == "VALIDATION"
    assert "has not begun" in error["message"]
    assert near("--json", "eval", "retry", name, "-y").error["code"] == "CONFLICT"
    data = near("--json", "eval", "info", name, "-o", "numbers").json["data"]
    assert data["output_path"] is None
    assert "has not begun" in data["save_warning"]


@pytest.mark.usefixtures("ready")
def test_all_missing_secrets_are_named_at_once(near: Osmosis):
    secrets = '--set=secrets.required=["FIRST_KEY", "SECOND_KEY"]'
    error = near("--json", "eval", "submit", CONFIG, "-y", secrets).error
    assert error["code"] == "INTERACTIVE_REQUIRED"
    assert error["details"]["missing"] == ["FIRST_KEY", "SECOND_KEY"]


@pytest.mark.usefixtures("ready")
@pytest.mark.parametrize("way", ["file", "-"])
def test_a_secrets_file_serves_this_run_alone(near: Osmosis, way: str, tmp_path: Path):
    text = "# note\nexport FIRST_KEY='canary-1'\nSECOND_KEY=canary-2\nUNUSED=x\n"
    (tmp_path / "keys").write_text(text)
    given = "-" if way == "-" else str(tmp_path / "keys")
    secrets = '--set=secrets.required=["FIRST_KEY", "SECOND_KEY"]'
    words = ["--json", "eval", "submit", CONFIG, "-y", secrets, "--secrets-file", given]
    done = near(*words, stdin=text if way == "-" else "")
    assert done.code == 0, done
    assert "canary" not in done.out + done.err
    assert near("--json", "secret", "list").json["total_count"] == 0


@pytest.mark.usefixtures("ready")
def test_an_unreadable_secrets_file_names_the_line_and_no_value(near: Osmosis, tmp_path: Path):
    (tmp_path / "keys").write_text("GOOD=1\nthis is canary-3\n")
    secrets = '--set=secrets.required=["FIRST_KEY"]'
    words = ["--json", "eval", "submit", CONFIG, "-y", secrets, "--secrets-file", tmp_path / "keys"]
    error = near(*words).error
    assert error["code"] == "VALIDATION"
    assert "line 2" in error["message"]
    assert "canary" not in json.dumps(error)
    words[-1] = tmp_path / "nothing"
    assert near(*words).error["code"] == "NOT_FOUND"


@pytest.mark.usefixtures("ready")
def test_a_repository_that_no_workspace_knows_says_how_to_connect_it(near: Osmosis, ready: Path):
    origin = git(ready, "remote", "get-url", "origin").strip()
    git(ready, "remote", "set-url", "origin", "https://github.com/somebody/elsewhere")
    noted = git(ready, "config", "--default", "", "--get", "osmosis.identity").strip()
    if noted:
        git(ready, "config", "--unset", "osmosis.identity")
    try:
        error = near("--json", "eval", "list").error
    finally:
        git(ready, "remote", "set-url", "origin", origin)
        if noted:
            git(ready, "config", "osmosis.identity", noted)
    assert error["details"]["platform_code"] == "GIT_REPOSITORY_NOT_CONNECTED"
    assert "somebody/elsewhere" in json.dumps(error)
    assert "osmosis workspace connect" in json.dumps(error)


def test_a_saved_login_that_has_expired_is_not_sent(
    near: Osmosis, server_data: Path, monkeypatch: pytest.MonkeyPatch
):
    url = json.loads((server_data / "server.json").read_text())["url"]
    path = credentials_path()
    path.parent.mkdir(parents=True)
    yesterday = (datetime.now(UTC) - timedelta(days=1)).isoformat()
    entry = {"access_token": "old", "expires_at": yesterday, "user": {}, "token_store": "file"}
    path.write_text(json.dumps({"version": 2, "platforms": {url: entry}}))
    monkeypatch.setenv("OSMOSIS_DATA_DIR", str(server_data / "elsewhere"))
    error = near("--json", "--platform", url, "workspace", "list").error
    assert error["code"] == "AUTH_REQUIRED"
    assert "expired" in error["message"]
    assert "osmosis auth login" in error["details"]["hint"]


@pytest.mark.usefixtures("ready")
def test_a_token_that_the_platform_does_not_know_is_told_as_such(
    near: Osmosis, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OSMOSIS_TOKEN", "osm_nobody")
    error = near("--json", "eval", "list").error
    assert error["code"] == "AUTH_REQUIRED"
    assert "nobody" not in json.dumps(error)
    assert "OSMOSIS_TOKEN" in error["details"]["hint"]


def test_an_unknown_workspace_is_answered_with_the_near_one_of_yours(near: Osmosis, ready: Path):
    error = near("--json", "--workspace", "pushd", "eval", "list").error
    assert error["details"]["platform_code"] == "WORKSPACE_SCOPE_HEADER_ACCESS_DENIED"
    assert "Did you mean 'pushed'?" in error["message"]


@pytest.mark.usefixtures("ready")
def test_ctrl_c_in_a_download_ends_with_130(near: Osmosis, monkeypatch: pytest.MonkeyPatch):
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("osmosis.client.api.Api.eval", interrupt)
    for mode in ([], ["--plain"], ["--json"]):
        done = near(*mode, "eval", "download", "x")
        assert (done.code, done.out) == (130, "")
