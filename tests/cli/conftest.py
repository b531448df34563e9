"""A real server without a worker, one for all tests, and the command line in this process."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from osmosis.cli.main import run

START_LIMIT_S = 30.0


@dataclass(frozen=True)
class Done:
    """How a command line ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """stdout as the one JSON document that it must be."""
        assert self.out.count("\n") == 1, self
        return json.loads(self.out)

    @property
    def error(self) -> dict[str, Any]:
        """The error envelope; nothing may stand on stdout beside it."""
        assert self.out == "", self
        return json.loads(self.err.splitlines()[-1])["error"]


Osmosis = Callable[..., Done]


@pytest.fixture(autouse=True)
def environment_as_before() -> Iterator[None]:
    """A command line reads its .env file into the process's environment; here that is ours."""
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture(scope="session")
def server_data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The data directory of a running server."""
    data = tmp_path_factory.mktemp("server") / "data"
    environment = {key: v for key, v in os.environ.items() if not key.startswith("OSMOSIS_")}
    environment.update(
        OSMOSIS_DATA_DIR=str(data),
        OSMOSIS_PORT="0",
        OSMOSIS_EMBEDDED_WORKER="false",
        OSMOSIS_GIT_ALLOW_FILE="true",
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "osmosis.platform.server"],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    deadline = time.monotonic() + START_LIMIT_S
    while not _answers(data):
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            pytest.fail(f"the server did not start: {process.communicate()[0].decode()}")
        time.sleep(0.02)
    yield data
    process.terminate()
    process.communicate(timeout=20)


def _answers(data: Path) -> bool:
    try:
        url = json.loads((data / "server.json").read_text())["url"]
        with urllib.request.urlopen(f"{url}/api/health", timeout=2):
            return True
    except (OSError, ValueError, KeyError):
        return False


@pytest.fixture
def osmosis(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Osmosis:
    """Run a command line in this process, in an empty home, with nobody at the keyboard."""
    for name in list(os.environ):
        if name.startswith("OSMOSIS_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("OSMOSIS_DATA_DIR", str(tmp_path / "no-server"))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)

    def invoke(*words: str | Path, stdin: str = "") -> Done:
        capsys.readouterr()
        monkeypatch.setattr("sys.stdin", io.StringIO(stdin))
        code = run([str(word) for word in words])
        captured = capsys.readouterr()
        return Done(code, captured.out, captured.err)

    return invoke


@pytest.fixture
def near(server_data: Path, osmosis: Osmosis, monkeypatch: pytest.MonkeyPatch) -> Osmosis:
    """The command line beside the running server."""
    monkeypatch.setenv("OSMOSIS_DATA_DIR", str(server_data))
    return osmosis


@pytest.fixture
def workspace(
    near: Osmosis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Path:
    """A new, connected workspace of this test's own; the current directory."""
    name = "".join(c if c.isalnum() else "-" for c in request.node.name.lower())[-40:].strip("-")
    root = tmp_path / f"{name}-{os.urandom(2).hex()}"
    made = near("init", root)
    assert made.code == 0, made
    monkeypatch.chdir(root)
    return root


@pytest.fixture(scope="session")
def pushed(server_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One workspace for all tests that submit: pushed, with its dataset.

    Its entrypoint is empty, so that the import check of each submit takes no second.
    """
    home = tmp_path_factory.mktemp("pushed")
    root = home / "pushed"
    clean = {key: v for key, v in os.environ.items() if not key.startswith("OSMOSIS_")}
    environment = {**clean, "OSMOSIS_DATA_DIR": str(server_data), "XDG_CONFIG_HOME": str(home)}

    def command(*words: str, cwd: Path) -> None:
        argv = [sys.executable, "-m", "osmosis.cli.main", *words]
        done = subprocess.run(argv, cwd=cwd, env=environment, capture_output=True, check=False)
        assert done.returncode == 0, done

    command("init", str(root), cwd=home)
    (root / "rollouts/multiply/main.py").write_text("")
    git(root, "commit", "-q", "-a", "-m", "Empty the entrypoint")
    subprocess.run(["git", "push", "-q"], cwd=root, env=environment, check=True)
    command("dataset", "upload", "data/multiply.jsonl", "--yes", "--wait", cwd=root)
    return root


@pytest.fixture
def ready(pushed: Path, near: Osmosis, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The pushed workspace as it was pushed; the current directory. Its runs pile up."""
    git(pushed, "reset", "-q", "--hard", "origin/main")
    git(pushed, "clean", "-q", "-f", "-d")
    monkeypatch.chdir(pushed)
    return pushed


def push(root: Path) -> None:
    git(root, "push", "-q")


def git(root: Path, *words: str) -> str:
    """Run git as a user does, with the user's own settings out of the way."""
    environment = {
        **os.environ,
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_AUTHOR_NAME": "t",
        "GIT_AUTHOR_EMAIL": "t@t",
        "GIT_COMMITTER_NAME": "t",
        "GIT_COMMITTER_EMAIL": "t@t",
    }
    done = subprocess.run(
        ["git", *words], cwd=root, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done
    return done.stdout
