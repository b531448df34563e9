from __future__ import annotations

from typing import Any

import pytest

from osmosis.platform.db.models import Dataset, DatasetLog
from osmosis.platform.paging import (
    LogPage,
    Page,
    decode_cursor,
    encode_cursor,
    fetch_log_page,
    fetch_page,
)
from osmosis.platform.platform import Platform
from osmosis.wire.errors import ValidationFailed


def test_the_last_page_has_no_next_offset() -> None:
    assert Page(2, 0).body("items", [1, 2], 3)["next_offset"] == 2
    last = Page(2, 2).body("items", [3], 3, platform_url="x")
    assert (last["next_offset"], last["has_more"], last["platform_url"]) == (None, False, "x")
    assert Page(2, 9).body("items", [], 3)["next_offset"] is None


def test_a_foreign_cursor_is_refused() -> None:
    assert decode_cursor(encode_cursor(12345)) == 12345
    for bad in ("!!", "abc", encode_cursor(1) + "x" * 100, "é"):
        with pytest.raises(ValidationFailed):
            decode_cursor(bad)


async def test_a_log_is_walked_back_page_by_page_and_followed_forward(
    platform: Platform, account: Any
) -> None:
    async with platform.db.write() as session:
        dataset = Dataset(
            workspace_id=account.workspace_id, name="d", extension="csv", size_bytes=1
        )
        session.add(dataset)
        await session.flush()
        for number in range(5):
            session.add(
                DatasetLog(dataset_id=dataset.id, level="info", step="s", message=str(number))
            )
            await session.flush()
    where = DatasetLog.dataset_id == dataset.id
    async with platform.db.read() as session:
        newest = await fetch_log_page(session, DatasetLog, where, LogPage(2))
        assert [entry["message"] for entry in newest["logs"]] == ["3", "4"]
        cursor = decode_cursor(newest["next_cursor"])
        older = await fetch_log_page(session, DatasetLog, where, LogPage(3, "older", cursor))
        assert [entry["message"] for entry in older["logs"]] == ["0", "1", "2"]
        assert older["next_cursor"] is None

        first = await fetch_log_page(session, DatasetLog, where, LogPage(4, "newer"))
        assert [entry["message"] for entry in first["logs"]] == ["0", "1", "2", "3"]
        cursor = decode_cursor(first["next_cursor"])
        rest = await fetch_log_page(session, DatasetLog, where, LogPage(4, "newer", cursor))
        assert [entry["message"] for entry in rest["logs"]] == ["4"]
        cursor = decode_cursor(rest["next_cursor"])
        none = await fetch_log_page(session, DatasetLog, where, LogPage(4, "newer", cursor))
        assert none == {"logs": [], "next_cursor": rest["next_cursor"]}


async def test_a_page_counts_all_and_returns_some(platform: Platform, account: Any) -> None:
    from sqlalchemy import select

    async with platform.db.write() as session:
        for number in range(5):
            session.add(
                Dataset(
                    workspace_id=account.workspace_id,
                    name=f"d{number}",
                    extension="csv",
                    size_bytes=1,
                )
            )
    query = select(Dataset).order_by(Dataset.name)
    async with platform.db.read() as session:
        rows, total = await fetch_page(session, query, Page(2, 2))
    assert ([row.name for row in rows], total) == (["d2", "d3"], 5)
