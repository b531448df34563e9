"""`osmosis dataset …` of the published package."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lab.workspace import Workspace
from tests.interop.conftest import PART_BYTES, SIMPLE_BYTES
from tests.interop.vendor import Vendor

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]


def test_a_large_dataset_goes_up_in_parts_and_comes_back_the_same(
    vendor: Vendor, workspace: Workspace, tmp_path: Path
) -> None:
    sent = (workspace.directory / "data/multiply.jsonl").read_bytes()
    assert len(sent) > max(SIMPLE_BYTES, 3 * PART_BYTES)
    uploaded = vendor("dataset", "upload", "data/multiply.jsonl", "--yes")["resource"]
    assert uploaded["file_name"] == "multiply" and uploaded["file_size"] == len(sent)
    shown = vendor.wait_for_dataset("multiply")
    assert shown["row_count"] == sent.count(b"\n") and shown["file_format"] == "jsonl"
    target = tmp_path / "back.jsonl"
    got = vendor("dataset", "download", "multiply", "-o", target)["resource"]
    assert got["output_path"] == str(target) and target.read_bytes() == sent


def test_a_name_that_is_taken_is_refused_and_overwritten_on_demand(
    vendor: Vendor, workspace: Workspace, tmp_path: Path
) -> None:
    rows = (workspace.directory / "data/sums.jsonl").read_text().splitlines(keepends=True)
    file = tmp_path / "again.jsonl"
    file.write_text("".join(rows[:6]))
    first = vendor("dataset", "upload", file, "--yes")["resource"]
    error = vendor.fails("dataset", "upload", file, "--yes")
    assert error["code"] == "CONFLICT"
    assert error["details"]["existing_dataset_id"] == first["id"]

    file.write_text("".join(rows[:9]))
    second = vendor("dataset", "upload", file, "--yes", "--overwrite")["resource"]
    shown = vendor.wait_for_dataset("again")
    assert shown["id"] == second["id"] and shown["row_count"] == 9
    names = [item["file_name"] for item in vendor("dataset", "list", "--all")["items"]]
    assert names.count("again") == 1


def test_logs_and_preview_tell_what_is_in_it(vendor: Vendor, sums: str) -> None:
    page = vendor("dataset", "logs", sums, "--limit", "1")
    (last,) = page["items"]
    assert "40 rows" in last["message"] and page["next_cursor"]
    older = vendor("dataset", "logs", sums, "--cursor", page["next_cursor"])["items"]
    assert older and older[-1]["timestamp"] <= last["timestamp"]
    preview = vendor("dataset", "preview", sums, "--rows", "2")["data"]
    assert preview["returned_rows"] == 2 and preview["available"] is True
    assert "What is 1 x 1?" in json.dumps(preview["rows"][0])


def test_an_unknown_dataset_is_a_typed_error(vendor: Vendor, sums: str) -> None:
    error = vendor.fails("dataset", "info", "sumz")
    assert error["code"] == "NOT_FOUND" and sums in error["message"]
