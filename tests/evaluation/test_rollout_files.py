"""What user code leaves on disk is taken by its nature, not by its word."""

from __future__ import annotations

import os

import pytest

from osmosis.evaluation import rollout_files
from osmosis.evaluation.rollout_files import Leftover, iter_artifacts, read_trajectory


@pytest.fixture
def place(tmp_path):
    directory = tmp_path / "rollout"
    (directory / "artifacts").mkdir(parents=True)
    return directory


def artifacts(place):
    leftover = Leftover()
    return {item.path: item.content for item in iter_artifacts(place, leftover)}, leftover.reasons


def test_regular_files_are_taken_with_their_paths(place):
    (place / "artifacts/a").mkdir()
    (place / "artifacts/a/b.bin").write_bytes(b"\0\xff")
    (place / "artifacts/c.txt").write_text("c")
    assert artifacts(place) == ({"a/b.bin": b"\0\xff", "c.txt": b"c"}, [])


def test_links_pipes_and_the_reserved_name_are_left_out(place):
    (place / "artifacts/link").symlink_to("/etc/passwd")
    (place / "artifacts/dirlink").symlink_to("/etc")
    os.mkfifo(place / "artifacts/pipe")
    (place / "artifacts/manifest.json").write_text("{}")
    found, reasons = artifacts(place)
    assert found == {}
    assert len(reasons) == 4


def test_a_directory_that_is_a_link_is_not_entered(place, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/file").write_text("private")
    (place / "artifacts").rmdir()
    (place / "artifacts").symlink_to(tmp_path / "elsewhere")
    assert artifacts(place) == ({}, [])


def test_count_size_and_depth_are_bounded(place, monkeypatch):
    monkeypatch.setattr(rollout_files, "MAX_ARTIFACTS", 3)
    monkeypatch.setattr(rollout_files, "MAX_ARTIFACT_BYTES", 10)
    monkeypatch.setattr(rollout_files, "MAX_DEPTH", 2)
    (place / "artifacts/0big").write_bytes(b"x" * 11)
    deep = place / "artifacts/1/2/3"
    deep.mkdir(parents=True)
    (deep / "file").write_text("x")
    for name in "abcde":
        (place / "artifacts" / name).write_text(name)
    found, reasons = artifacts(place)
    assert sorted(found) == ["a", "b", "c"]
    assert len(reasons) == 3


@pytest.mark.parametrize("kind", ["missing", "link", "pipe", "directory", "huge"])
def test_a_trajectory_that_is_no_plain_file_counts_as_absent(place, kind, monkeypatch):
    monkeypatch.setattr(rollout_files, "MAX_TRAJECTORY_BYTES", 10)
    path = place / "trajectory.json"
    if kind == "link":
        path.symlink_to("/etc/passwd")
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    elif kind == "huge":
        path.write_bytes(b"x" * 11)
    assert read_trajectory(place) is None
