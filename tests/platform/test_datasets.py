from __future__ import annotations

import asyncio
import hashlib
import json
import time
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from sqlalchemy import select, update

from osmosis.platform.datasets import housekeeping, service
from osmosis.platform.db.base import utc_now
from osmosis.platform.db.models import Dataset, Run
from osmosis.platform.platform import Platform
from osmosis.platform.settings import Settings
from tests.platform.conftest import Account


def rows(count: int, **extra: Any) -> bytes:
    lines = [{"user_prompt": f"{i}+1?", "ground_truth": str(i + 1), **extra} for i in range(count)]
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


@pytest.fixture
def platform_settings(tmp_path: Path) -> Settings:
    return Settings(
        data_dir=tmp_path / "data",
        embedded_worker=False,
        dataset_simple_bytes=64 * 1024,
        dataset_part_bytes=40 * 1024,
    )


async def begin(
    client: httpx.AsyncClient, content: bytes, name: str = "sums", **more: Any
) -> dict[str, Any]:
    body = {"file_name": name, "file_size": len(content), "extension": "jsonl", **more}
    answer = await client.post("/api/cli/datasets", json=body)
    assert answer.status_code == 201, answer.text
    return answer.json()


async def put(client: httpx.AsyncClient, url: str, content: bytes, **more: Any) -> httpx.Response:
    place = urlsplit(url)
    bare = httpx.AsyncClient(transport=client._transport, base_url=client.base_url)
    return await bare.put(f"{place.path}?{place.query}", content=content, **more)


async def complete(
    client: httpx.AsyncClient, dataset: dict[str, Any], **more: Any
) -> httpx.Response:
    body = {"file_extension": dataset["file_format"], **more}
    return await client.post(f"/api/cli/datasets/{dataset['id']}/complete", json=body)


async def settled(client: httpx.AsyncClient, platform: Platform, ref: str) -> dict[str, Any]:
    """The dataset once it is processed."""
    async with asyncio.timeout(20):
        while True:
            mark = platform.events.mark()
            dataset = (await client.get(f"/api/cli/datasets/{ref}")).json()
            if dataset["status"] not in ("processing", "pending"):
                return dataset
            await platform.events.wait(f"dataset:{dataset['id']}", 5, since=mark)


async def upload(
    client: httpx.AsyncClient, platform: Platform, content: bytes, name: str = "sums", **more: Any
) -> dict[str, Any]:
    """A dataset through the whole way."""
    dataset = await begin(client, content, name, **more)
    assert (await put(client, dataset["upload"]["presigned_url"], content)).status_code == 200
    assert (await complete(client, dataset)).status_code == 200
    return await settled(client, platform, dataset["id"])


async def messages(client: httpx.AsyncClient, ref: str) -> list[tuple[str, str]]:
    logs = (await client.get(f"/api/cli/datasets/{ref}/logs?limit=50&direction=older")).json()
    return [(entry["level"], entry["message"]) for entry in logs["logs"]]


async def test_a_small_dataset_goes_up_in_one_piece_and_is_ready_within_a_second(
    client: httpx.AsyncClient, platform: Platform
) -> None:
    content = rows(1000)
    dataset = await begin(client, content)
    assert dataset["status"] == "uploading"
    answer = await put(client, dataset["upload"]["presigned_url"], content)
    assert answer.headers["etag"] == f'"{hashlib.sha256(content).hexdigest()}"'
    started = time.monotonic()
    completed = await complete(client, dataset)
    assert completed.json()["id"] == dataset["id"]
    ready = await settled(client, platform, "sums")
    assert time.monotonic() - started < 5  # about 0.6 s; the bound leaves a busy machine its time
    assert ready["status"] == "uploaded" and ready["row_count"] == 1000
    assert ready["sha256"] == hashlib.sha256(content).hexdigest()
    assert ready["columns"] == ["user_prompt", "ground_truth"]
    assert ready["data_preview"][0] == {"user_prompt": "0+1?", "ground_truth": "1"}
    assert ready["creator_name"] and ready["file_size"] == len(content)
    assert not list(platform.settings.datasets_dir.glob("uploads/*"))
    async with platform.db.read() as session:
        stored = await session.get_one(Dataset, dataset["id"])
    assert service.dataset_path(platform.settings, stored).read_bytes() == content


async def test_a_larger_dataset_goes_up_in_parts(
    client: httpx.AsyncClient, platform: Platform
) -> None:
    content = rows(3000)
    dataset = await begin(client, content)
    plan = dataset["upload"]
    assert plan["method"] == "multipart"
    size, total = plan["part_size"], plan["total_parts"]
    assert size * (total - 1) < len(content) <= size * total and total == 4
    parts = []
    for part in reversed(plan["presigned_urls"]):
        start = (part["part_number"] - 1) * size
        piece = content[start : start + size]
        assert len(piece) == part["size"]
        answer = await put(client, part["presigned_url"], piece)
        assert (await put(client, part["presigned_url"], piece)).headers["etag"]
        etag = answer.headers["etag"].strip('"')
        parts.append({"PartNumber": part["part_number"], "ETag": etag})
    assert (await complete(client, dataset, parts=parts)).status_code == 200
    ready = await settled(client, platform, dataset["id"])
    assert (ready["status"], ready["row_count"]) == ("uploaded", 3000)
    assert ready["sha256"] == hashlib.sha256(content).hexdigest()


async def test_completing_twice_answers_the_same_body(
    client: httpx.AsyncClient, platform: Platform
) -> None:
    dataset = await upload(client, platform, rows(4))
    again = await complete(client, dataset)
    assert again.status_code == 200 and again.json()["id"] == dataset["id"]
    async with platform.db.read() as session:
        assert len((await session.execute(select(Dataset))).all()) == 1


async def test_an_incomplete_upload_is_refused_with_the_reason(
    client: httpx.AsyncClient,
) -> None:
    content = rows(3000)
    dataset = await begin(client, content)
    first = dataset["upload"]["presigned_urls"][0]
    await put(client, first["presigned_url"], content[: first["size"]])
    answer = await complete(client, dataset, parts=[{"PartNumber": 1, "ETag": "x"}])
    assert answer.status_code == 400
    assert "part 2 of 4 is missing" in answer.json()["error"]
    small = await begin(client, rows(4), "other")
    answer = await complete(client, small)
    assert answer.status_code == 400
    assert f"0 of {len(rows(4))} bytes are here" in answer.json()["error"]


async def test_a_put_of_another_length_is_refused_and_leaves_nothing(
    client: httpx.AsyncClient, platform: Platform
) -> None:
    content = rows(4)
    dataset = await begin(client, content)
    url = dataset["upload"]["presigned_url"]
    answer = await put(client, url, content + b"x")
    assert answer.status_code == 400 and "takes exactly" in answer.json()["error"]

    async def chunks() -> Any:
        yield content

    answer = await put(client, url, chunks())  # type: ignore[arg-type]
    assert answer.status_code == 400 and "Content-Length" in answer.json()["error"]
    assert not list(platform.settings.datasets_dir.glob("uploads/*/*"))


async def test_a_put_that_is_cut_off_keeps_what_was_there(
    client: httpx.AsyncClient, platform: Platform, live_url: str
) -> None:
    content = rows(500)
    dataset = await begin(client, content)
    url = urlsplit(dataset["upload"]["presigned_url"])
    await put(client, dataset["upload"]["presigned_url"], content)
    place = urlsplit(live_url)
    _, writer = await asyncio.open_connection(place.hostname, place.port)
    head = f"PUT {url.path}?{url.query} HTTP/1.1\r\nHost: {place.netloc}\r\n"
    writer.write(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + b"#" * 100)
    await writer.drain()
    folder = platform.settings.datasets_dir / "uploads" / dataset["id"]
    async with asyncio.timeout(5):
        while len(list(folder.iterdir())) < 2:  # noqa: ASYNC110  another connection's work
            await asyncio.sleep(0.01)
        writer.transport.abort()
        while len(list(folder.iterdir())) > 1:  # noqa: ASYNC110  another connection's work
            await asyncio.sleep(0.01)
    assert (folder / "1").read_bytes() == content


async def test_upload_addresses_authenticate_themselves_and_nothing_else(
    client: httpx.AsyncClient, platform: Platform, live_url: str, account: Account
) -> None:
    content = rows(4)
    async with httpx.AsyncClient(base_url=live_url, headers=account.headers) as live:
        dataset = await begin(live, content)
    url = dataset["upload"]["presigned_url"]
    assert url.startswith(live_url)
    other = await begin(client, content, "other")
    async with httpx.AsyncClient() as bare:
        for wrong in (
            url.partition("?")[0],
            url[:-3] + "AAA",
            url.replace(dataset["id"], other["id"]),
            url.replace("/parts/1?", "/parts/2?"),
        ):
            assert (await bare.put(wrong, content=content)).status_code == 403
        assert (await bare.get(url)).status_code in (403, 405)
        assert (await bare.put(url, content=content)).status_code == 200


async def test_an_expired_upload_address_is_refused(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = rows(4)
    dataset = await begin(client, content)
    later = time.time() + 90_000
    monkeypatch.setattr("itsdangerous.timed.time.time", lambda: later)
    answer = await put(client, dataset["upload"]["presigned_url"], content)
    assert answer.status_code == 403 and "no longer" in answer.json()["error"]


async def test_bad_content_ends_as_error_with_file_row_and_column_in_the_log(
    client: httpx.AsyncClient, platform: Platform
) -> None:
    content = b"question,answer\n" + b"1,2\n" * 5
    dataset = await upload(client, platform, content, "mine", extension="csv")
    assert dataset["status"] == "error"
    assert "mine.csv: the column 'user_prompt' is missing" in dataset["error_message"]
    said = await messages(client, "mine")
    errors = [message for level, message in said if level == "error"]
    assert len(errors) == 2
    assert "Rename 'question' to 'user_prompt'." in errors[0]
    assert "Rename 'answer' to 'ground_truth'." in errors[1]
    refused = await client.get("/api/cli/datasets/mine/download")
    assert refused.status_code == 409


async def test_a_refused_dataset_is_replaced_without_ado(
    client: httpx.AsyncClient, platform: Platform
) -> None:
    bad = await upload(client, platform, rows(2))
    assert bad["status"] == "error"
    good = await upload(client, platform, rows(5))
    assert (await client.get("/api/cli/datasets/sums")).json()["id"] == good["id"]
    listed = (await client.get("/api/cli/datasets")).json()
    assert [d["id"] for d in listed["datasets"]] == [good["id"]]


async def test_a_taken_name_answers_with_the_holders_id(
    client: httpx.AsyncClient, platform: Platform
) -> None:
    first = await upload(client, platform, rows(4))
    body = {"file_name": "sums", "file_size": 10, "extension": "csv"}
    answer = await client.post("/api/cli/datasets", json=body)
    assert answer.status_code == 409
    assert answer.json()["existing_dataset_id"] == first["id"]


async def test_an_overwrite_takes_over_at_complete_and_not_before(
    client: httpx.AsyncClient, platform: Platform
) -> None:
    first = await upload(client, platform, rows(4))
    dropped = await begin(client, rows(6), overwrite_dataset_id=first["id"])
    await client.post(f"/api/cli/datasets/{dropped['id']}/abort", json={})
    assert (await client.get("/api/cli/datasets/sums")).json()["id"] == first["id"]
    second = await begin(client, rows(6), overwrite_dataset_id=first["id"])
    await put(client, second["upload"]["presigned_url"], rows(6))
    assert (await client.get("/api/cli/datasets/sums")).json()["id"] == first["id"]
    await complete(client, second)
    ready = await settled(client, platform, "sums")
    assert (ready["id"], ready["row_count"]) == (second["id"], 6)
    listed = (await client.get("/api/cli/datasets")).json()
    assert (listed["total_count"], listed["has_more"], listed["next_offset"]) == (1, False, None)


async def test_of_two_uploads_of_one_name_the_second_to_complete_is_refused(
    client: httpx.AsyncClient,
) -> None:
    one, two = await begin(client, rows(4)), await begin(client, rows(5))
    await put(client, one["upload"]["presigned_url"], rows(4))
    await put(client, two["upload"]["presigned_url"], rows(5))
    assert (await complete(client, one)).status_code == 200
    late = await complete(client, two)
    assert late.status_code == 409 and late.json()["existing_dataset_id"] == one["id"]


async def test_an_aborted_upload_is_gone(client: httpx.AsyncClient, platform: Platform) -> None:
    content = rows(4)
    dataset = await begin(client, content)
    url = dataset["upload"]["presigned_url"]
    await put(client, url, content)
    assert (await client.post(f"/api/cli/datasets/{dataset['id']}/abort", json={})).json() == {}
    assert (await client.get("/api/cli/datasets")).json()["datasets"] == []
    assert (await put(client, url, content)).status_code == 409
    assert (await complete(client, dataset)).status_code == 409
    assert not list(platform.settings.datasets_dir.glob("uploads/*"))


async def test_a_download_gives_the_bytes_under_the_right_name(
    client: httpx.AsyncClient, platform: Platform, anonymous: httpx.AsyncClient
) -> None:
    content = rows(50)
    await upload(client, platform, content, "größe 1")
    answer = (await client.get("/api/cli/datasets/gr%C3%B6%C3%9Fe%201/download")).json()
    assert answer["file_name"] == "größe 1.jsonl"
    place = urlsplit(answer["presigned_url"])
    got = await anonymous.get(f"{place.path}?{place.query}")
    assert got.content == content
    assert "gr%C3%B6%C3%9Fe%201.jsonl" in got.headers["content-disposition"]
    assert got.headers["content-length"] == str(len(content))
    part = await anonymous.get(f"{place.path}?{place.query}", headers={"Range": "bytes=0-9"})
    assert part.content == content[:10]
    assert (await anonymous.get(place.path)).status_code == 403


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"file_name": "a/b"}, "file_name"),
        ({"file_name": ".."}, "file_name"),
        ({"file_name": " "}, "file_name"),
        ({"file_name": "x" * 201}, "file_name"),
        ({"file_name": "a\nb"}, "file_name"),
        ({"file_size": 0}, "file_size"),
        ({"file_size": 5 * 1024**3 + 1}, "file_size"),
        ({"extension": "xlsx"}, "extension"),
    ],
)
async def test_what_cannot_be_a_dataset_is_refused_with_the_field(
    client: httpx.AsyncClient, body: dict[str, Any], field: str
) -> None:
    good = {"file_name": "a", "file_size": 10, "extension": "csv"}
    answer = await client.post("/api/cli/datasets", json=good | body)
    assert (answer.status_code, answer.json()["field"]) == (400, field)


async def test_other_workspaces_see_and_touch_nothing(
    client: httpx.AsyncClient, anonymous: httpx.AsyncClient, stranger: Account, platform: Platform
) -> None:
    mine = await upload(client, platform, rows(4))
    for method, path in (
        ("GET", "/sums"),
        ("GET", f"/{mine['id']}"),
        ("GET", f"/{mine['id']}/download"),
        ("GET", f"/{mine['id']}/logs"),
        ("DELETE", f"/{mine['id']}"),
        ("POST", f"/{mine['id']}/complete"),
        ("POST", f"/{mine['id']}/abort"),
    ):
        answer = await anonymous.request(
            method, f"/api/cli/datasets{path}", headers=stranger.headers, json={}
        )
        assert answer.status_code == 404, (method, path)
    listed = await anonymous.get("/api/cli/datasets", headers=stranger.headers)
    assert listed.json()["datasets"] == []
    body = {"file_name": "sums", "file_size": 4, "extension": "csv"}
    answer = await anonymous.post(
        "/api/cli/datasets",
        headers=stranger.headers,
        json=body | {"overwrite_dataset_id": mine["id"]},
    )
    assert answer.status_code == 404


async def test_an_unknown_name_suggests_the_near_one(
    client: httpx.AsyncClient, platform: Platform
) -> None:
    await upload(client, platform, rows(4), "arithmetic")
    answer = await client.get("/api/cli/datasets/arithmetics")
    assert answer.status_code == 404 and "Did you mean 'arithmetic'?" in answer.json()["error"]


async def add_run(platform: Platform, account: Account, dataset_id: str, status: str) -> None:
    async with platform.db.write() as session:
        session.add(
            Run(
                workspace_id=account.workspace_id,
                name=f"run-{status}",
                status=status,
                rollout="r",
                entrypoint="main.py",
                model_path="m",
                commit_sha="0" * 40,
                dataset_id=dataset_id,
                dataset_name="sums",
                dataset_sha256="",
                config={},
                env={},
                secret_scopes={},
                selection={},
                selected_rows=1,
                total_rows=4,
                n=1,
                pass_threshold=1.0,
            )
        )


def files(platform: Platform) -> list[str]:
    return [path.stem for path in platform.settings.datasets_dir.glob("*.jsonl")]


async def test_a_dataset_in_use_is_not_deleted(
    client: httpx.AsyncClient, platform: Platform, account: Account
) -> None:
    dataset = await upload(client, platform, rows(4))
    await add_run(platform, account, dataset["id"], "running")
    answer = await client.delete("/api/cli/datasets/sums")
    assert answer.status_code == 409 and "run-running" in answer.json()["error"]
    async with platform.db.write() as session:
        await session.execute(update(Run).values(status="finished"))
    assert (await client.delete("/api/cli/datasets/sums")).status_code == 200
    assert (await client.get("/api/cli/datasets/sums")).status_code == 404
    assert files(platform) == []


async def test_replaced_bytes_stay_while_a_run_may_be_retried(
    client: httpx.AsyncClient, platform: Platform, account: Account
) -> None:
    used = await upload(client, platform, rows(4))
    await add_run(platform, account, used["id"], "finished")
    unused = await upload(client, platform, rows(5), overwrite_dataset_id=used["id"])
    last = await upload(client, platform, rows(6), overwrite_dataset_id=unused["id"])
    await housekeeping.free_unneeded(platform)
    assert sorted(files(platform)) == sorted([used["id"], last["id"]])


async def test_an_upload_that_nobody_finishes_is_given_up(
    client: httpx.AsyncClient, platform: Platform
) -> None:
    content = rows(4)
    old, new = await begin(client, content), await begin(client, content, "new")
    await put(client, old["upload"]["presigned_url"], content)
    await put(client, new["upload"]["presigned_url"], content)
    past = utc_now() - timedelta(days=2)
    async with platform.db.write() as session:
        await session.execute(
            update(Dataset).where(Dataset.id == old["id"]).values(updated_at=past)
        )
    await housekeeping.give_up_old_uploads(platform)
    await housekeeping.free_unneeded(platform)
    left = [path.name for path in platform.settings.datasets_dir.glob("uploads/*")]
    assert left == [new["id"]]
    assert (await client.get(f"/api/cli/datasets/{old['id']}")).status_code == 404


async def test_processing_goes_on_after_a_crash_between_its_steps(tmp_path: Path) -> None:
    from osmosis.platform.datasets.ingest_process import assemble

    uploads, path = tmp_path / "uploads", tmp_path / "d.jsonl"
    uploads.mkdir()
    for number in range(1, 12):
        (uploads / str(number)).write_bytes(b"%d," % number)
    expected = b"".join(b"%d," % number for number in range(1, 12))
    digest = assemble(path, uploads)
    assert path.read_bytes() == expected and not uploads.exists()
    uploads.mkdir()
    (uploads / "1").write_bytes(b"left over")
    assert assemble(path, uploads) == digest == hashlib.sha256(expected).hexdigest()
    assert path.read_bytes() == expected
