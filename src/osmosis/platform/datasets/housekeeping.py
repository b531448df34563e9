"""Gives up uploads that nobody finished, and frees the bytes that nobody needs."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from sqlalchemy import select

from osmosis.platform.datasets import service
from osmosis.platform.datasets.places import remove_bytes
from osmosis.platform.db.base import utc_now
from osmosis.platform.db.models import Dataset
from osmosis.platform.platform import Platform

INTERVAL_S = 3600.0


async def keep_house(platform: Platform) -> None:
    """Forever: look once an hour, first at the start."""
    while True:
        await give_up_old_uploads(platform)
        await free_unneeded(platform)
        await asyncio.sleep(INTERVAL_S)


async def give_up_old_uploads(platform: Platform) -> None:
    """Cancel the uploads whose addresses have expired."""
    oldest = utc_now() - timedelta(seconds=platform.settings.upload_url_s)
    query = select(Dataset).where(Dataset.status == "uploading", Dataset.updated_at < oldest)
    async with platform.db.read() as session:
        if (await session.execute(query.limit(1))).first() is None:
            return
    async with platform.db.write() as session:
        for dataset in (await session.execute(query)).scalars():
            service.cancel_upload(session, dataset, "The upload was not completed in time.")


async def free_unneeded(platform: Platform) -> None:
    """Remove the files of datasets that are gone."""
    folder = platform.settings.datasets_dir
    on_disk = await asyncio.to_thread(
        lambda: (
            {path.name.partition(".")[0] for path in folder.glob("*.*")}
            | {path.name for path in folder.glob("uploads/*")}
        )
    )
    for dataset_id in on_disk:
        await free(platform, dataset_id)


async def free(platform: Platform, dataset_id: str) -> None:
    """Remove the bytes of one dataset, if nobody needs them."""
    async with platform.db.read() as session:
        dataset = await session.get(Dataset, dataset_id)
        if dataset is None or await service.bytes_needed(session, dataset):
            return
    await asyncio.to_thread(remove_bytes, platform.settings, dataset)
