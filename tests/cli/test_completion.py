"""The completion script in a real bash: words at each place of a line."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from osmosis.cli.completion import nodes
from tests.cli.conftest import Osmosis
from tests.cli.test_help import VISIBLE


def complete(script: Path, *words: str) -> list[str]:
    """What bash offers for the last of ``words``."""
    quoted = " ".join(f"'{word}'" for word in words)
    code = (
        f"source {script}; COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _osmosis; "
        'echo "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_commands_and_flags(osmosis: Osmosis, tmp_path: Path):
    script = tmp_path / "script"
    script.write_text(osmosis("completion", "bash").out)
    assert "eval" in complete(script, "osmosis", "")
    assert complete(script, "osmosis", "eval", "downl") == ["download"]
    assert complete(script, "osmosis", "eval", "download", "x", "--ty") == ["--type"]
    assert complete(script, "osmosis", "--json", "model", "endpoint", "rem") == ["remove"]
    assert complete(script, "osmosis", "eval", "submit", "--wor") == ["--workspace"]
    assert complete(script, "osmosis", "eval", "submit", "") == []
    assert complete(script, "osmosis", "secret", "set", "X", "--scope", "p") == ["personal"]
    assert complete(script, "osmosis", "completion", "f") == ["fish"]


@pytest.mark.skipif(shutil.which("fish") is None, reason="needs fish")
def test_fish_completes_commands_flags_and_their_values(osmosis: Osmosis, tmp_path: Path):
    script = tmp_path / "script"
    script.write_text(osmosis("completion", "fish").out)

    def offered(line: str) -> set[str]:
        code = f"source {script}; complete -C {line!r}"
        done = subprocess.run(
            ["fish", "--no-config", "-c", code], capture_output=True, text=True, check=True
        )
        assert done.stderr == ""
        return {word.partition("\t")[0] for word in done.stdout.splitlines()}

    assert offered("osmosis --platform http://x eva") == {"eval"}
    assert offered("osmosis --json model endpoint rem") == {"remove"}
    assert offered("osmosis eval download x --ty") == {"--type"}
    assert offered("osmosis secret set X --scope p") == {"personal"}
    assert offered("osmosis completion f") == {"fish"}


@pytest.mark.skipif(shutil.which("zsh") is None, reason="needs zsh")
def test_zsh_takes_the_script_as_it_is(osmosis: Osmosis, tmp_path: Path):
    script = tmp_path / "script"
    script.write_text(osmosis("completion", "zsh").out)
    code = f"source {script}; print -r -- $_comps[osmosis]"
    done = subprocess.run(["zsh", "-f", "-c", code], capture_output=True, text=True, check=True)
    assert (done.stderr, done.stdout.strip()) == ("", "_bash_complete -o default -F _osmosis")


def test_every_visible_command_is_known_to_every_shell(osmosis: Osmosis):
    known = {" ".join(node.path) for node in nodes() if node.path}
    assert known == set(VISIBLE)
    fish = osmosis("completion", "fish").out
    for node in nodes():
        for flag in node.flags:
            assert f" -l {flag.name[2:]} " in fish
        for name in node.commands:
            assert f" -a {name} " in fish
    zsh = osmosis("completion", "zsh").out
    assert zsh.endswith(osmosis("completion", "bash").out)
    assert "bashcompinit" in zsh
