from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from osmosis.cli.catalogue import ENTRIES
from tests.cli.conftest import Osmosis

DOCS = Path(__file__).parents[2] / "docs" / "cli.md"


def commands() -> Iterator[tuple[str, click.Command]]:
    """Every command with its path, groups included."""
    for entry in ENTRIES.values():
        app = importlib.import_module(f"osmosis.cli.commands.{entry.module}").app
        yield from _below(entry.name, app)


def _below(path: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        for name, child in command.commands.items():
            yield from _below(f"{path} {name}", child)


ALL = dict(commands())
VISIBLE = {path: command for path, command in ALL.items() if not command.hidden}


@pytest.mark.parametrize("path", ALL)
def test_every_command_explains_itself_on_stdout(osmosis: Osmosis, path: str):
    done = osmosis(*path.split(), "--help")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(f"Usage: osmosis {path}")
    assert osmosis(*path.split(), "-h").out == done.out


@pytest.mark.parametrize("path", VISIBLE)
def test_every_command_and_flag_is_documented(path: str):
    text = DOCS.read_text()
    assert f"`osmosis {path}" in text
    section = text.split(f"`osmosis {path}", 1)[1]
    for parameter in VISIBLE[path].params:
        if isinstance(parameter, click.Option):
            assert parameter.help, f"{path} {parameter.name} has no help"
            assert any(f"`{flag}" in section for flag in parameter.opts), (path, parameter.opts)


def test_the_catalogue_lists_the_groups_as_they_are():
    for entry in ENTRIES.values():
        command = ALL[entry.name]
        if isinstance(command, click.Group):
            shown = {name for name, child in command.commands.items() if not child.hidden}
            assert set(entry.commands) == shown
        else:
            assert entry.commands == ()


def test_the_root_help_shows_every_group(osmosis: Osmosis):
    done = osmosis("--help")
    assert (done.code, done.err) == (0, "")
    assert done.out == osmosis().out == osmosis("-h").out
    for entry in ENTRIES.values():
        assert entry.name in done.out


def test_a_bare_group_shows_its_help(osmosis: Osmosis):
    for path in ("eval", "model endpoint"):
        done = osmosis(*path.split())
        assert done.code == 0
        assert done.out == osmosis(*path.split(), "--help").out


@pytest.mark.parametrize("flag", ["-V", "--version"])
def test_the_version_is_shown(osmosis: Osmosis, flag: str):
    import osmosis as package

    assert osmosis(flag).out == f"osmosis {package.__version__}\n"


def test_the_version_is_that_of_the_distribution():
    import tomllib

    import osmosis as package

    project = tomllib.loads((DOCS.parents[1] / "pyproject.toml").read_text())["project"]
    assert package.__version__ == project["version"]


@pytest.mark.parametrize(
    ("words", "heavy"),
    [
        (["--help"], ["click", "rich", "httpx", "pydantic", "osmosis.workspace"]),
        (["eval", "list"], ["pydantic", "ssl_context", "osmosis.workspace.config", "aiohttp"]),
    ],
)
def test_start_up_loads_only_what_is_needed(words: list[str], heavy: list[str]):
    code = (
        "import sys; from osmosis.cli.main import run; run(sys.argv[1:]); "
        "print(*sys.modules, file=sys.stderr)"
    )
    command = [sys.executable, "-c", code, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd="/")
    loaded = set(done.stderr.split())
    assert not loaded.intersection(heavy)
