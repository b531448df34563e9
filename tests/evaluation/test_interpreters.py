import os
import sys
import time
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

from osmosis.evaluation.interpreters import (
    Interpreter,
    _candidates,
    best,
    choose_interpreter,
    find_interpreters,
)
from osmosis.wire.errors import RunFailed


@pytest.fixture
def machine(tmp_path):
    """A machine with one real Python and one shim that fails, counting how often it is run."""
    bin_dir = tmp_path / "bin"
    bin_dir.mkdir()
    (bin_dir / "python3").symlink_to(sys.executable)
    shim = bin_dir / "python3.12"
    shim.write_text(f"#!/bin/sh\necho x >> {tmp_path}/runs\nexit 127\n")
    shim.chmod(0o755)
    return {"PATH": str(bin_dir), "HOME": str(tmp_path)}


def made(version, path="/x/python", preferred=False):
    return Interpreter(Path(path), version, Path("/x"), "linux", preferred)


def chosen(requirement, *found):
    return best(found, SpecifierSet(requirement))


def test_a_shim_that_does_not_work_is_skipped_and_remembered(machine, tmp_path):
    cache = tmp_path / "interpreters.json"
    found = find_interpreters(cache_file=cache, environ=machine)
    assert [one.path for one in found] == [Path(sys.executable).resolve()]
    assert found[0].prefix == Path(sys.base_prefix)
    started = time.perf_counter()
    assert find_interpreters(cache_file=cache, environ=machine) == found
    assert time.perf_counter() - started < 2  # 5 ms on an idle machine
    assert (tmp_path / "runs").read_text() == "x\n"


def test_a_failure_is_looked_at_again_when_nothing_else_fits(machine, tmp_path):
    for _ in range(2):
        with pytest.raises(RunFailed) as caught:
            choose_interpreter(">=3.99", cache_file=tmp_path / "interpreters.json", environ=machine)
    assert caught.value.kind == "interpreter_missing"
    assert ">=3.99" in caught.value.message
    assert str(Path(sys.executable).resolve()) in caught.value.message
    assert len((tmp_path / "runs").read_text().split()) > 1


def test_an_interpreter_that_was_replaced_is_asked_again(machine, tmp_path):
    cache = tmp_path / "interpreters.json"
    find_interpreters(cache_file=cache, environ=machine)
    shim = tmp_path / "bin/python3.12"
    shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    shim.chmod(0o755)
    (tmp_path / "bin/python3").unlink()
    found = find_interpreters(cache_file=cache, environ=machine)
    assert [one.path for one in found] == [Path(sys.executable).resolve()]


def test_the_setting_comes_before_everything_else(machine, tmp_path):
    own = tmp_path / "elsewhere"
    own.mkdir()
    (own / "mine").symlink_to(sys.executable)
    environ = {**machine, "OSMOSIS_PYTHONS": os.pathsep.join([str(own / "mine"), "/nowhere"])}
    found = find_interpreters(cache_file=tmp_path / "i.json", environ=environ)
    assert [one.preferred for one in found] == [True]


def test_the_newest_usual_version_is_chosen_and_a_newer_one_only_when_asked_for():
    old, usual, new, newest = made("3.11.9"), made("3.13.1"), made("3.14.0"), made("3.15.1")
    assert chosen(">=3.11", newest, old, new, usual) == usual
    assert chosen(">=3.14", newest, old, new, usual) == new
    assert chosen("<3.13", newest, old, new, usual) == old
    assert chosen("<3", newest, old, new, usual) is None


def test_the_choice_does_not_depend_on_the_order_of_discovery():
    first, second = made("3.12.1", "/a/python"), made("3.12.1", "/b/python")
    assert chosen(">=3.11", first, second) == chosen(">=3.11", second, first) == first


def test_a_prerelease_is_chosen_only_when_alone():
    early, done = made("3.13.0rc1"), made("3.12.4")
    assert chosen(">=3.11", early, done) == done
    assert chosen(">=3.11", early) == early


def test_an_interpreter_of_the_setting_wins_over_a_newer_one():
    assert chosen(">=3.11", made("3.13.1"), made("3.11.2", preferred=True)).version == "3.11.2"


def test_a_requirement_that_is_none_is_named(machine, tmp_path):
    with pytest.raises(RunFailed, match="requires-python = 'three'"):
        choose_interpreter("three", cache_file=tmp_path / "i.json", environ=machine)


def test_interpreters_beside_the_shims_of_pyenv_are_found_whatever_home_is(tmp_path, monkeypatch):
    root = tmp_path / "pyenv"
    (root / "shims").mkdir(parents=True)
    real = root / "versions/3.99.0/bin"
    real.mkdir(parents=True)
    (real / "python3").symlink_to(sys.executable)
    environ = {"PATH": str(root / "shims"), "HOME": str(tmp_path)}
    found = [path for path, _ in _candidates(environ, tmp_path)]
    assert str(real / "python3") in found
