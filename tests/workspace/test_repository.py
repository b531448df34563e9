from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from osmosis.wire.errors import ValidationFailed
from osmosis.workspace.repository import (
    hosted_remote,
    identity_of,
    repository_state,
    without_credentials,
    workspace_identity,
)


@pytest.mark.parametrize(
    "url",
    [
        "https://github.com/Acme/Repo.git",
        "https://github.com/Acme/Repo",
        "https://github.com/Acme/Repo/",
        "https://user:token@github.com/Acme/Repo.git",
        "https://github.com:443/Acme/Repo.git",
        "http://github.com/acme/repo",
        "git://github.com/acme/repo",
        "ssh://git@github.com/acme/repo.git",
        "ssh://git@github.com:22/acme/repo.git",
        "git+ssh://git@github.com/acme/repo",
        "git@github.com:acme/repo.git",
        "someone@GitHub.com:acme/repo",
        "file://github.com/acme/repo.git",
        "https://github.com/acme/repo?x=1#y",
        "http://127.0.0.1:7670/git/acme/repo.git",
        "https://eval.example/git/Acme/Repo.git",
        "https://user:pw@eval.example/prefix/git/acme/repo",
    ],
)
def test_remotes_of_acme_repo(url: str):
    assert identity_of(url) == "acme/repo"


@pytest.mark.parametrize(
    "url",
    [
        "github.com:acme/repo",
        "https://www.github.com/acme/repo",
        "https://ssh.github.com/acme/repo",
        "https://gitlab.com/acme/repo.git",
        "file:///srv/acme/repo.git",
        "/srv/acme/repo.git",
        "../repo.git",
        "https://github.com/repo",
        "https://github.com/a/b/c",
        "https://github.com//acme/repo",
        "https://github.com/acme%2frepo",
        "https://github.com/acme/re po",
        "https://github.com/-acme/repo",
        "https://github.com/acme/re~po",
        "http://127.0.0.1:7670/other/acme/repo.git",
        "ssh://host/git/acme/repo.git",
        "https://github.com/acme/..",
        "",
    ],
)
def test_other_remotes_have_no_identity(url: str):
    with pytest.raises(ValidationFailed):
        identity_of(url)


def test_only_a_lower_case_git_suffix_is_dropped():
    assert identity_of("https://github.com/acme/repo.GIT") == "acme/repo.git"


def test_a_hosted_remote_names_its_platform():
    hosted = hosted_remote("HTTP://user@127.0.0.1:7670/git/Acme/repo.git")
    assert hosted is not None
    assert (hosted.base_url, hosted.identity) == ("http://127.0.0.1:7670", "acme/repo")
    prefixed = hosted_remote("https://eval.example/osmosis/git/acme/repo.git")
    assert prefixed is not None
    assert prefixed.base_url == "https://eval.example/osmosis"
    v6 = hosted_remote("http://[::1]:7670/git/acme/repo.git")
    assert v6 is not None
    assert v6.base_url == "http://[::1]:7670"


def test_shown_urls_hold_no_credentials():
    assert without_credentials("https://u:secret@h/p.git") == "https://h/p.git"
    assert without_credentials("git@github.com:a/b.git") == "ssh://git@github.com/a/b.git"


def git(root: Path, *words: str) -> None:
    command = ["git", "-c", "user.name=t", "-c", "user.email=t@t", *words]
    subprocess.run(command, cwd=root, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "work"
    root.mkdir()
    git(root, "init", "-q", "-b", "main")
    return root


def test_an_empty_repository_has_no_head(repository: Path):
    state = repository_state(repository)
    assert (state.head, state.branch, state.unpushed) == (None, "main", False)


def test_the_state_counts_changes_and_unpushed_commits(repository: Path, tmp_path: Path):
    git(tmp_path, "init", "-q", "--bare", "remote.git")
    (repository / "a.txt").write_text("a")
    git(repository, "add", "-A")
    git(repository, "commit", "-q", "-m", "one")
    state = repository_state(repository)
    assert (state.upstream, state.ahead, state.unpushed, state.dirty) == (None, None, True, False)
    git(repository, "remote", "add", "origin", str(tmp_path / "remote.git"))
    git(repository, "push", "-q", "-u", "origin", "main")
    assert not repository_state(repository).unpushed
    git(repository, "commit", "-q", "--allow-empty", "-m", "two")
    (repository / "b.txt").write_text("b")
    (repository / "a.txt").write_text("changed")
    state = repository_state(repository)
    assert (state.upstream, state.ahead, state.changed_files) == ("origin/main", 1, 2)


def test_a_noted_identity_wins_over_an_unknown_origin(repository: Path):
    git(repository, "remote", "add", "origin", "https://gitlab.com/a/b.git")
    with pytest.raises(ValidationFailed):
        workspace_identity(repository)
    git(repository, "config", "osmosis.identity", "A/B")
    assert workspace_identity(repository) == ("a/b", "https://gitlab.com/a/b.git")


def test_insteadof_is_followed(repository: Path):
    git(repository, "remote", "add", "origin", "gh:acme/repo")
    git(repository, "config", "url.https://github.com/.insteadOf", "gh:")
    assert workspace_identity(repository)[0] == "acme/repo"


def test_no_origin_says_how_to_connect(repository: Path):
    with pytest.raises(ValidationFailed) as failed:
        workspace_identity(repository)
    assert "osmosis workspace connect" in (failed.value.hint or "")
