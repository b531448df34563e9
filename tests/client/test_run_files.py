from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from osmosis.client.run_files import KINDS, parse_kinds, parse_rows, read_manifest, run_directory
from osmosis.wire.errors import OsmosisError, ValidationFailed


def test_kinds_are_named_by_commas_and_all_stands_alone():
    assert parse_kinds("metrics,trajectories") == ("metrics", "trajectories")
    assert parse_kinds(" logs , metrics,logs") == ("metrics", "logs")
    assert parse_kinds("all") == KINDS
    for wrong in ("all,metrics", "", "metrics,,logs", "trajectory"):
        with pytest.raises(ValidationFailed):
            parse_kinds(wrong)


def test_rows_are_checked_as_syntax():
    assert parse_rows(" 3, 7,10-20 ") == "3,7,10-20"
    for wrong in ("", "a", "1-", "-1", "1,,2", "5-3", "1.5", "9" * 30):
        with pytest.raises(ValidationFailed):
            parse_rows(wrong)


GOOD = [
    "metrics.json",
    "summary.jsonl",
    "logs.txt",
    "trajectories/row_0_run_0.json",
    "artifacts/row_0_run_0/a/manifest.json",
    "artifacts/row_0_run_0/ünï cödé.txt",
]
BAD = [
    "../metrics.json",
    "trajectories/../../x",
    "/etc/passwd",
    "artifacts/row_0_run_0/..\\x",
    "artifacts//x",
    "artifacts/row_0_run_0/manifest.json",
    "artifacts/row_0_run_0/" + "x" * 300,
    "artifacts/./x",
    "artifacts/a\0b",
    "C:/x",
    "other.json",
    "METRICS.JSON",
]


def manifest_of(*paths: str, kinds: tuple[str, ...] = KINDS) -> Any:
    return read_manifest({"files": [{"path": p, "size": 1} for p in paths], "totals": {}}, kinds)


def test_paths_of_a_run_are_taken():
    assert [file.path for file in manifest_of(*GOOD).files] == GOOD


@pytest.mark.parametrize("path", BAD)
def test_other_paths_are_refused_one_by_one(path: str):
    manifest = manifest_of("metrics.json", path)
    assert [file.path for file in manifest.files] == ["metrics.json"]
    assert [problem.path for problem in manifest.refused] == [path]


def test_a_type_that_was_not_asked_for_and_a_path_named_twice_are_refused():
    manifest = manifest_of("metrics.json", "logs.txt", "metrics.json", kinds=("metrics",))
    assert [file.path for file in manifest.files] == ["metrics.json"]
    assert len(manifest.refused) == 2


@pytest.mark.parametrize(
    "entry",
    [
        {"path": "metrics.json"},
        {"path": "metrics.json", "size": "1"},
        {"path": "metrics.json", "size": -1},
        {"path": "metrics.json", "size": True},
        {"path": "", "size": 1},
        {"path": "metrics.json", "size": 1, "token": 5},
        "metrics.json",
    ],
)
def test_a_manifest_is_strict_in_its_shape(entry: Any):
    with pytest.raises(OsmosisError):
        read_manifest({"files": [entry]}, KINDS)
    with pytest.raises(OsmosisError):
        read_manifest({}, KINDS)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("calm-otter-1", "calm-otter-1"),
        ("Calm Otter", "Calm_Otter--id7"),
        ("../up", "up--id7"),
        ("con", "con--id7"),
        ("...", "id7"),
    ],
)
def test_a_run_has_a_directory_of_its_own(name: str, expected: str):
    assert run_directory(Path("base"), name, "id7") == Path("base") / expected
