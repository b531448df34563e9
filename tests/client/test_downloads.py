from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from osmosis.client.api import Api
from osmosis.client.downloads import URLS_PER_CALL, fetch_files, missing_files
from osmosis.client.run_files import RunFile
from osmosis.wire.errors import NotFound, Unreachable, ValidationFailed
from tests.client.conftest import Answering


class Addresses:
    """The call that gives addresses: to one server, each time anew."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.asked: list[Sequence[dict[str, Any]]] = []
        self.failures: list[Exception] = []

    def eval_download_urls(self, ref: str, items: Sequence[dict[str, Any]]) -> dict[str, Any]:
        if self.failures:
            raise self.failures.pop(0)
        self.asked.append(items)
        number = len(self.asked)
        return {"items": [{**i, "url": f"{self.url}/{i['path']}?sig={number}"} for i in items]}


@pytest.fixture
def addresses(server: Answering) -> Addresses:
    return Addresses(server.url)


def file(path: str = "metrics.json", size: int = 4) -> RunFile:
    return RunFile(path, size, "metrics", "v1")


def fetch(addresses: Addresses, files: Sequence[RunFile], to: Path) -> Any:
    return fetch_files(cast(Api, addresses), "run", files, to, wait=lambda seconds: None)


def test_a_file_arrives_whole_and_without_our_headers(
    server: Answering, addresses: Addresses, tmp_path: Path
):
    server.answer(200, b"abcd")
    report = fetch(addresses, [file("trajectories/row_0_run_0.json")], tmp_path)
    assert (report.downloaded, report.bytes_downloaded, report.complete) == (1, 4, True)
    assert (tmp_path / "trajectories/row_0_run_0.json").read_bytes() == b"abcd"
    (seen,) = server.seen
    assert not [name for name in seen.headers if name == "authorization" or "osmosis" in name]


def test_what_is_there_with_its_size_is_skipped_unless_overwritten(tmp_path: Path):
    (tmp_path / "metrics.json").write_bytes(b"abcd")
    (tmp_path / "logs.txt").write_bytes(b"abc")
    files = [file(), file("logs.txt")]
    assert missing_files(files, tmp_path, overwrite=False) == [file("logs.txt")]
    assert missing_files(files, tmp_path, overwrite=True) == files


@pytest.mark.parametrize("body", [b"abc", b"abcde", b""])
def test_a_file_of_another_size_is_not_kept(
    server: Answering, addresses: Addresses, tmp_path: Path, body: bytes
):
    server.answer(200, body)
    (tmp_path / "metrics.json").write_bytes(b"old!")
    report = fetch(addresses, [file()], tmp_path)
    assert (report.downloaded, len(server.seen)) == (0, 3)
    assert "bytes" in report.problems[0].error
    assert [p.name for p in tmp_path.iterdir()] == ["metrics.json"]
    assert (tmp_path / "metrics.json").read_bytes() == b"old!"


def test_a_failing_storage_is_asked_three_times(
    server: Answering, addresses: Addresses, tmp_path: Path
):
    server.answer(503)
    server.answer(429)
    server.answer(200, b"abcd")
    assert fetch(addresses, [file()], tmp_path).complete
    assert len(server.seen) == 3


def test_an_expired_address_is_asked_for_anew(
    server: Answering, addresses: Addresses, tmp_path: Path
):
    server.answer(403)
    server.answer(200, b"abcd")
    assert fetch(addresses, [file()], tmp_path).complete
    assert [seen.path[-1] for seen in server.seen] == ["1", "2"]


def test_one_failure_leaves_the_others_and_its_message_holds_no_address(
    server: Answering, addresses: Addresses, tmp_path: Path
):
    server.answer(404)
    server.answer(200, b"abcd")
    report = fetch(addresses, [file("metrics.json"), file("logs.txt")], tmp_path)
    assert report.downloaded == 1
    (problem,) = report.problems
    assert "404" in problem.error
    assert "sig" not in problem.error
    assert "127.0.0.1" not in problem.error


def test_a_directory_that_cannot_be_made_is_a_mistake_in_words(
    addresses: Addresses, tmp_path: Path
):
    (tmp_path / "taken").write_text("")
    with pytest.raises(ValidationFailed, match="cannot be made"):
        fetch(addresses, [file()], tmp_path / "taken" / "run")


def test_addresses_are_asked_for_five_hundred_at_a_time(
    server: Answering, addresses: Addresses, tmp_path: Path
):
    server.answer(200, b"")
    files = [file(f"artifacts/row_0_run_0/{n}", 0) for n in range(URLS_PER_CALL + 1)]
    assert fetch(addresses, files, tmp_path).downloaded == URLS_PER_CALL + 1
    assert [len(items) for items in addresses.asked] == [URLS_PER_CALL, 1]


def test_addresses_that_do_not_come_fail_their_files_or_end_the_command(
    server: Answering, addresses: Addresses, tmp_path: Path
):
    addresses.failures = [Unreachable("away")] * 3
    report = fetch(addresses, [file()], tmp_path)
    assert [problem.error for problem in report.problems] == ["away"]
    addresses.failures = [NotFound("no such run")]
    with pytest.raises(NotFound):
        fetch(addresses, [file()], tmp_path)


def test_a_link_on_disk_leads_nothing_out_of_the_directory(
    server: Answering, addresses: Addresses, tmp_path: Path
):
    server.answer(200, b"abcd")
    outside = tmp_path / "outside"
    outside.mkdir()
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "artifacts").symlink_to(outside)
    report = fetch(addresses, [file("artifacts/row_0_run_0/x")], tmp_path / "run")
    assert "link" in report.problems[0].error
    assert not list(outside.iterdir())


def test_an_address_without_tls_on_another_machine_is_refused_also_behind_a_redirect(
    server: Answering, addresses: Addresses, tmp_path: Path
):
    server.answer(302, None, Location="http://files.example/x")
    report = fetch(addresses, [file()], tmp_path)
    assert "not https" in report.problems[0].error
    addresses.url = "http://files.example"
    assert "not https" in fetch(addresses, [file()], tmp_path).problems[0].error
