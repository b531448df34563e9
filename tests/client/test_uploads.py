from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from osmosis.client.uploads import send_file
from osmosis.wire.errors import OsmosisError, ValidationFailed
from tests.client.conftest import Answering


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"0123456789")
    return path


def multipart(server: Answering, part_size: int, total: int, **more: Any) -> dict[str, Any]:
    urls = [
        {"part_number": n, "presigned_url": f"{server.url}/part/{n}"} for n in range(1, total + 1)
    ]
    plan = {"method": "multipart", "part_size": part_size, "total_parts": total}
    return {**plan, "presigned_urls": urls, **more}


def test_one_piece_goes_with_its_headers_and_without_our_token(server: Answering, file: Path):
    server.answer(200)
    upload = {"presigned_url": f"{server.url}/put", "upload_headers": {"x-checksum": "abc"}}
    sent: list[int] = []
    assert send_file(file, upload, progress=sent.append) == []
    (seen,) = server.seen
    assert (seen.method, seen.body) == ("PUT", b"0123456789")
    assert seen.headers["content-length"] == "10"
    assert seen.headers["x-checksum"] == "abc"
    assert "authorization" not in seen.headers
    assert not [name for name in seen.headers if name.startswith("x-osmosis")]
    assert sent[-1] == 10


def test_parts_go_one_by_one_and_give_their_tags(server: Answering, file: Path):
    server.answer(200, None, ETag='"tag"')
    parts = send_file(file, multipart(server, 4, 3))
    assert [seen.body for seen in server.seen] == [b"0123", b"4567", b"89"]
    assert parts == [{"PartNumber": n, "ETag": "tag"} for n in (1, 2, 3)]


@pytest.mark.parametrize(("part_size", "total"), [(4, 2), (4, 4), (0, 3)])
def test_a_plan_that_does_not_fit_the_file_is_refused(
    server: Answering, file: Path, part_size: int, total: int
):
    with pytest.raises(OsmosisError):
        send_file(file, multipart(server, part_size, total))
    assert server.seen == []


def test_the_platforms_own_reason_is_told(server: Answering, file: Path):
    server.answer(507, {"message": "The server's disk has no room for this."})
    with pytest.raises(OsmosisError, match="no room"):
        send_file(file, {"presigned_url": f"{server.url}/put"})


def test_a_part_without_a_tag_breaks_off(server: Answering, file: Path):
    server.answer(200)
    with pytest.raises(OsmosisError, match="ETag"):
        send_file(file, multipart(server, 10, 1))


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_passing_troubles_are_tried_again(server: Answering, file: Path, status: int):
    server.answer(status)
    server.answer(status)
    server.answer(200)
    waits: list[float] = []
    send_file(file, {"presigned_url": f"{server.url}/put"}, wait=waits.append)
    assert waits == [1, 2]
    assert {seen.body for seen in server.seen} == {b"0123456789"}


def test_five_tries_are_enough(server: Answering, file: Path):
    server.answer(503)
    waits: list[float] = []
    with pytest.raises(OsmosisError, match="503"):
        send_file(file, {"presigned_url": f"{server.url}/put"}, wait=waits.append)
    assert waits == [1, 2, 4, 8]


@pytest.mark.parametrize("status", [302, 400, 403, 404, 501])
def test_a_refusal_is_final(server: Answering, file: Path, status: int):
    server.answer(status)
    with pytest.raises(OsmosisError, match=str(status)):
        send_file(file, {"presigned_url": f"{server.url}/put"}, wait=lambda s: pytest.fail("wait"))
    assert len(server.seen) == 1


def test_plain_http_elsewhere_is_refused(file: Path):
    with pytest.raises(ValidationFailed, match="not https"):
        send_file(file, {"presigned_url": "http://192.168.1.2/put"})


def test_an_unknown_method_is_refused(file: Path):
    with pytest.raises(OsmosisError, match="telepathy"):
        send_file(file, {"method": "telepathy"})
