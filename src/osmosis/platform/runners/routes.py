"""``/api/runner``: what workers call (:mod:`osmosis.wire.runner` is the description)."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Iterator
from typing import Annotated

from fastapi import APIRouter, Depends, FastAPI, Header, Query, Request
from pydantic import ValidationError
from sqlalchemy import select
from starlette.concurrency import iterate_in_threadpool
from starlette.responses import FileResponse, Response, StreamingResponse

from osmosis.platform.datasets.service import dataset_path
from osmosis.platform.db.base import utc_now
from osmosis.platform.db.models import Dataset, Repository, Run
from osmosis.platform.deps import CurrentPlatform
from osmosis.platform.evals.lifecycle import CLAIMABLE
from osmosis.platform.evals.places import artifacts_dir
from osmosis.platform.evals.samples import SampleKey, find_sample
from osmosis.platform.evals.state import CurrentRuns, RunState
from osmosis.platform.gitsync import service as gitsync
from osmosis.platform.platform import Platform
from osmosis.platform.runners.artifacts import safe_path, store_artifact
from osmosis.platform.runners.done import recorded_keys
from osmosis.platform.runners.finish import finish_run
from osmosis.platform.runners.leases import LEASE_S, claim_next, heartbeat, leased_run
from osmosis.platform.runners.lost_calls import add_lost_calls
from osmosis.platform.runners.reaper import reap, sweep
from osmosis.platform.runners.records import take_records
from osmosis.platform.runners.regrading import keys_to_leave
from osmosis.platform.runners.replays import check_replayed, kept_calls
from osmosis.platform.runners.responses import MAX_RESPONSE_BYTES
from osmosis.platform.runners.rows import selected_rows
from osmosis.platform.runners.spec import build_spec, code_commit
from osmosis.platform.runners.stored_samples import stored_record
from osmosis.platform.runners.worker_id import is_dead
from osmosis.platform.runners.workers import known_worker
from osmosis.wire.errors import NotFound, OsmosisError, RunFailed, ValidationFailed
from osmosis.wire.runner import (
    LEASE_HEADER,
    Claim,
    ClaimRequest,
    FinishRequest,
    Heartbeat,
    HeartbeatRequest,
    LogBatch,
    LostCalls,
    RecordsAck,
    RunError,
)

RECORDS_BYTES = 512 * 1024 * 1024
LOGS_BYTES = 64 * 1024 * 1024
NDJSON = "application/x-ndjson"

log = logging.getLogger("osmosis.platform")

router = APIRouter(prefix="/api/runner", dependencies=[Depends(known_worker)])

Lease = Annotated[str | None, Header(alias=LEASE_HEADER)]


class BatchTooLarge(OsmosisError):
    code, http_status = "BATCH_TOO_LARGE", 413


def setup(app: FastAPI, platform: Platform) -> None:
    state: RunState = app.state.runs

    async def sweep_and_close() -> None:
        try:
            await sweep(platform, state.writers)
        finally:
            state.writers.close_all()
            state.responses.close_all()

    platform.background("leases", lambda: reap(platform))
    platform.background("deleted runs", sweep_and_close)


@router.post("/claim", response_model=None)
async def claim(
    body: ClaimRequest, request: Request, platform: CurrentPlatform, runs: CurrentRuns
) -> Claim | Response:
    deadline = time.monotonic() + body.wait_s
    while True:
        mark = platform.events.mark()
        if is_dead(body.worker_id) or await request.is_disconnected():
            return Response(status_code=204)  # Nobody is there to take the run.
        run = await claim_next(platform, body.worker_id, body.holding)
        if run is not None:
            claimed = await _claimed(platform, runs, run)
            if claimed is not None:
                return claimed
            continue
        left = deadline - time.monotonic()
        if left <= 0 or not await platform.events.wait(CLAIMABLE, left, since=mark):
            return Response(status_code=204)


@router.post("/runs/{run_id}/heartbeat")
async def beat(
    run_id: str, body: HeartbeatRequest, platform: CurrentPlatform, x_osmosis_lease: Lease = None
) -> Heartbeat:
    return await heartbeat(platform, run_id, x_osmosis_lease, body)


@router.get("/runs/{run_id}/code")
async def code(
    run_id: str, platform: CurrentPlatform, x_osmosis_lease: Lease = None
) -> StreamingResponse:
    async with platform.db.read() as session:
        run = await leased_run(session, run_id, x_osmosis_lease)
        repository = await session.get(Repository, run.repository_id or "")
    if repository is None:
        raise NotFound("The repository of the run is not connected any more.")
    archive = gitsync.archive(platform, repository, code_commit(run))
    return StreamingResponse(archive, media_type="application/x-tar")


@router.get("/runs/{run_id}/rows")
async def rows(
    run_id: str,
    platform: CurrentPlatform,
    first: Annotated[int, Query(ge=0)] = 0,
    step: Annotated[int, Query(ge=1)] = 1,
    x_osmosis_lease: Lease = None,
) -> StreamingResponse:
    async with platform.db.read() as session:
        run = await leased_run(session, run_id, x_osmosis_lease)
        ranges = await session.scalar(
            select(Run.selection["rows"].as_string()).where(Run.id == run_id)
        )
        dataset = await session.get(Dataset, run.dataset_id or "")
    path = dataset_path(platform.settings, dataset) if dataset else None
    if dataset is None or path is None or not path.is_file():
        raise NotFound(
            f"The dataset '{run.dataset_name}' of the run was deleted.",
            hint="Upload it again and submit the run again.",
        )
    chunks = selected_rows(
        path, dataset.extension, dataset.name, ranges or "", first=first, step=step
    )
    # A mistake in the first rows is still answered with its own status and sentence.
    beginning = await asyncio.to_thread(next, chunks, b"")
    return StreamingResponse(_send(beginning, chunks, run_id), media_type=NDJSON)


@router.get("/runs/{run_id}/done")
async def done(
    run_id: str, platform: CurrentPlatform, x_osmosis_lease: Lease = None
) -> StreamingResponse:
    async with platform.db.read() as session:
        run = await leased_run(session, run_id, x_osmosis_lease)
    keys = keys_to_leave(platform, run) if run.regrade else recorded_keys(platform, run_id)
    return StreamingResponse(keys, media_type=NDJSON)


@router.get("/runs/{run_id}/stored/{row_index}/{run_index}")
async def stored(
    run_id: str,
    row_index: int,
    run_index: int,
    platform: CurrentPlatform,
    x_osmosis_lease: Lease = None,
) -> Response:
    async with platform.db.read() as session:
        run = await leased_run(session, run_id, x_osmosis_lease)
        sample = await find_sample(session, run, SampleKey(row_index, run_index))
    record = await stored_record(platform.settings, sample)
    return Response(record.model_dump_json(exclude_none=True), media_type="application/json")


@router.get("/runs/{run_id}/artifacts/{rollout_id}/{path:path}")
async def stored_artifact(
    run_id: str,
    rollout_id: str,
    path: str,
    platform: CurrentPlatform,
    x_osmosis_lease: Lease = None,
) -> FileResponse:
    async with platform.db.read() as session:
        await leased_run(session, run_id, x_osmosis_lease)
    file = safe_path(artifacts_dir(platform.settings, run_id), rollout_id, path)
    if not file.is_file() or file.is_symlink():
        raise NotFound(f"There is no artifact {path} of the rollout {rollout_id}.")
    return FileResponse(file, media_type="application/octet-stream")


@router.post("/runs/{run_id}/records", responses={200: {"model": RecordsAck}})
async def records(
    run_id: str,
    request: Request,
    platform: CurrentPlatform,
    runs: CurrentRuns,
    x_osmosis_lease: Lease = None,
) -> Response:
    body = await _batch(request, RECORDS_BYTES)
    ack = await take_records(platform, runs.writers, run_id, x_osmosis_lease, body)
    return Response(ack.model_dump_json(), media_type="application/json")


@router.post("/runs/{run_id}/logs")
async def logs(
    run_id: str, request: Request, runs: CurrentRuns, x_osmosis_lease: Lease = None
) -> dict[str, str]:
    try:
        batch = LogBatch.model_validate_json(await _batch(request, LOGS_BYTES))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        raise ValidationFailed(f"The batch is not a list of log lines: {first['msg']}.") from None
    await runs.logs.add(run_id, x_osmosis_lease, batch)
    return {}


@router.put("/runs/{run_id}/artifacts/{rollout_id}/{path:path}")
async def artifact(
    run_id: str,
    *,
    rollout_id: str,
    path: str,
    request: Request,
    platform: CurrentPlatform,
    x_osmosis_lease: Lease = None,
) -> dict[str, int]:
    async with platform.db.read() as session:
        await leased_run(session, run_id, x_osmosis_lease)
    root = artifacts_dir(platform.settings, run_id)
    return {"size": await store_artifact(root, rollout_id, path, request.stream())}


@router.get("/runs/{run_id}/replays/{replayed_id}")
async def replay(
    run_id: str, replayed_id: str, platform: CurrentPlatform, x_osmosis_lease: Lease = None
) -> StreamingResponse:
    await check_replayed(platform, run_id, x_osmosis_lease, replayed_id)
    return StreamingResponse(kept_calls(platform, replayed_id), media_type=NDJSON)


@router.get("/runs/{run_id}/responses/{key}")
async def cached_response(
    run_id: str,
    key: str,
    platform: CurrentPlatform,
    runs: CurrentRuns,
    x_osmosis_lease: Lease = None,
) -> Response:
    value = await runs.responses.get(platform, run_id, x_osmosis_lease, key)
    if value is None:
        return Response(status_code=204)
    return Response(value, media_type="application/octet-stream")


@router.put("/runs/{run_id}/responses/{key}")
async def cache_response(
    run_id: str,
    *,
    key: str,
    request: Request,
    platform: CurrentPlatform,
    runs: CurrentRuns,
    x_osmosis_lease: Lease = None,
) -> dict[str, str]:
    value = await _batch(request, MAX_RESPONSE_BYTES)
    await runs.responses.put(platform, run_id, x_osmosis_lease, key, value)
    return {}


@router.post("/runs/{run_id}/finish")
async def finish(
    run_id: str,
    body: FinishRequest,
    platform: CurrentPlatform,
    runs: CurrentRuns,
    x_osmosis_lease: Lease = None,
) -> dict[str, str]:
    await finish_run(
        platform, run_id, x_osmosis_lease, body, writers=runs.writers, numbers=runs.numbers
    )
    return {}


@router.post("/runs/{run_id}/lost-calls")
async def lost_calls(run_id: str, body: LostCalls, platform: CurrentPlatform) -> dict[str, str]:
    await add_lost_calls(platform, run_id, body)
    return {}


async def _batch(request: Request, most_bytes: int) -> bytes:
    """The body, read only now that the worker is known."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > most_bytes:
            raise BatchTooLarge(
                f"The batch is larger than {most_bytes // 2**20} MiB; send a smaller one."
            )
    return bytes(body)


async def _claimed(platform: Platform, runs: RunState, run: Run) -> Claim | None:
    """The claim with its spec; a run that cannot be specified ends here, and None comes back."""
    lease_token = run.lease_token or ""
    try:
        async with platform.db.read() as session:
            spec = await build_spec(session, platform.vault, run)
    except OsmosisError as error:
        kind = error.kind if isinstance(error, RunFailed) else "internal"
        failed = RunError(kind=kind, message=error.message, hint=error.hint)
        report = FinishRequest(status="failed", error=failed)
        await finish_run(
            platform, run.id, lease_token, report, writers=runs.writers, numbers=runs.numbers
        )
        return None
    return Claim(lease_token=lease_token, lease_s=LEASE_S, spec=spec, now=utc_now().timestamp())


async def _send(first: bytes, rest: Iterator[bytes], run_id: str) -> AsyncIterator[bytes]:
    yield first
    try:
        async for chunk in iterate_in_threadpool(rest):
            yield chunk
    except OsmosisError as error:
        # The answer has begun: breaking it off is the only way left to say that it is incomplete.
        log.error("The rows cannot be read: %s", error.message, extra={"run_id": run_id})
        raise
