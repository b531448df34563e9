"""The addresses of the pages. Everything but the static files needs a page session."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, FastAPI, Path, Query, Request
from sqlalchemy.ext.asyncio import AsyncSession
from starlette.responses import FileResponse, RedirectResponse, Response, StreamingResponse

from osmosis.platform.comparisons.report import report
from osmosis.platform.comparisons.routes import CurrentComparisons
from osmosis.platform.comparisons.service import MAX_RUNS
from osmosis.platform.db.models import Run, RunLog, User, Workspace
from osmosis.platform.deps import CurrentPlatform, PageUser, Principal
from osmosis.platform.evals.download_routes import FILE_ROUTE
from osmosis.platform.evals.downloads import list_sample_artifacts
from osmosis.platform.evals.sample_page import SampleQuery
from osmosis.platform.evals.samples import SampleKey, find_sample, neighbours, view_sample
from osmosis.platform.evals.service import find_run, list_runs
from osmosis.platform.evals.state import CurrentRuns
from osmosis.platform.paging import LogQuery, Page, fetch_log_page
from osmosis.platform.platform import Platform
from osmosis.platform.security.signing import presigned_url
from osmosis.platform.web import vendor_links
from osmosis.platform.web.access import member_workspace
from osmosis.platform.web.conversation import label_of, turn_of
from osmosis.platform.web.live import REGIONS, live_regions
from osmosis.platform.web.run_view import RunView, view_run
from osmosis.platform.web.templating import STATIC, page
from osmosis.platform.workspaces import service as workspaces
from osmosis.wire.errors import NotFound
from osmosis.wire.samples import ModelCall

STATIC_FILES = {"osmosis.css": "text/css", "live.js": "text/javascript"}
STATIC_LIFETIME_S = 365 * 86_400
STEPS_PER_PAGE = 50
RUNS_PER_PAGE = 30

router = APIRouter(include_in_schema=False)
router.include_router(vendor_links.router)

Index = Annotated[int, Path(ge=0, lt=2**31)]
Offset = Annotated[int, Query(ge=0, lt=2**31)]


def setup(app: FastAPI, _platform: Platform) -> None:
    app.state.error_page = error_page


def error_page(_request: Request, status: int, message: str, hint: str | None) -> Response:
    return page("error.html", status=status, message=message, hint=hint, user=None)


@router.get("/static/{name}")
async def static(name: str) -> Response:
    if name not in STATIC_FILES:
        raise NotFound("There is no such file.")
    lasting = {"Cache-Control": f"public, max-age={STATIC_LIFETIME_S}, immutable"}
    return FileResponse(STATIC / name, media_type=STATIC_FILES[name], headers=lasting)


@router.get("/")
async def start(platform: CurrentPlatform, user: PageUser) -> Response:
    async with platform.db.read() as session:
        mine = await workspaces.of_user(session, user.user_id)
    if len(mine) == 1:
        return RedirectResponse(f"/{mine[0].workspace.name}/runs", status_code=303)
    return page("workspaces.html", user=user, workspaces=mine)


@router.get("/{workspace}/runs")
async def runs_page(
    workspace: str, platform: CurrentPlatform, user: PageUser, offset: Offset = 0
) -> Response:
    wanted = Page(RUNS_PER_PAGE, offset)
    async with platform.db.read() as session:
        found = await member_workspace(session, user.user_id, workspace)
        runs, total = await list_runs(session, found.id, wanted)
    return page("runs.html", user=user, workspace=found.name, runs=runs, total=total, page=wanted)


@router.get("/{workspace}/compare")
async def compare_page(
    workspace: str,
    *,
    request: Request,
    platform: CurrentPlatform,
    user: PageUser,
    comparisons: CurrentComparisons,
    run: Annotated[list[str], Query(max_length=MAX_RUNS)],
    baseline: Literal["first", "last"] = "first",
    cluster_by: Annotated[str | None, Query(max_length=200)] = None,
) -> Response:
    async with platform.db.read() as session:
        found = await member_workspace(session, user.user_id, workspace)
    names = [name.strip() for name in run if name.strip()]
    if baseline == "last":
        names.reverse()
    compared = await comparisons.compare(found.id, names, cluster_by=cluster_by or None)
    document = report(
        compared.baseline,
        compared.candidates,
        compared.summaries,
        cluster_by=compared.cluster_by,
        url=lambda path: f"/{found.name}/runs/{path}",
    )
    return page("compare.html", user=user, workspace=found.name, report=document)


@router.get("/{workspace}/runs/{name}")
async def run_page(
    workspace: str,
    name: str,
    *,
    platform: CurrentPlatform,
    user: PageUser,
    runs: CurrentRuns,
    samples: SampleQuery,
) -> Response:
    async with platform.db.read() as session:
        found, run, creator = await _run(session, user, workspace, name)
        view = await view_run(session, runs.numbers, run, creator, samples)
    return page("run.html", user=user, workspace=found.name, view=view, regions=REGIONS)


@router.get("/{workspace}/runs/{name}/live")
async def run_live(
    workspace: str,
    name: str,
    *,
    platform: CurrentPlatform,
    user: PageUser,
    runs: CurrentRuns,
    samples: SampleQuery,
) -> Response:
    async def load() -> RunView:
        async with platform.db.read() as session:
            _, run, creator = await _run(session, user, workspace, name)
            return await view_run(session, runs.numbers, run, creator, samples)

    view = await load()
    stream = live_regions(platform.events, view.run.id, load, workspace)
    return StreamingResponse(stream, media_type="text/event-stream")


@router.get("/{workspace}/runs/{name}/logs")
async def log_page(
    workspace: str, name: str, *, platform: CurrentPlatform, user: PageUser, wanted: LogQuery
) -> Response:
    async with platform.db.read() as session:
        found, run, _ = await _run(session, user, workspace, name)
        where = RunLog.run_id == run.id
        lines = await fetch_log_page(session, RunLog, where, wanted)
    return page("log.html", user=user, workspace=found.name, run=run, log=lines)


@router.get("/{workspace}/runs/{name}/samples/{row}/{run_index}")
async def sample_page(
    workspace: str,
    name: str,
    row: Index,
    run_index: Index,
    *,
    request: Request,
    platform: CurrentPlatform,
    user: PageUser,
    start: Annotated[int, Query(alias="from", ge=0, lt=2**31)] = 0,
) -> Response:
    key = SampleKey(row, run_index)
    async with platform.db.read() as session:
        found, run, _ = await _run(session, user, workspace, name)
        sample = await find_sample(session, run, key)
        before, after = await neighbours(session, run.id, key)
    view = await view_sample(platform.settings, sample, start=start, count=STEPS_PER_PAGE)
    artifacts = await list_sample_artifacts(platform.settings, sample)

    def address(path: str) -> str:
        claims = {"run": run.id, "path": path, "token": None}
        return presigned_url(request, "GET", FILE_ROUTE, claims)

    return page(
        "sample.html",
        user=user,
        workspace=found.name,
        run=run,
        view=view,
        turns=[turn_of(step) for step in view.steps],
        calls=[ModelCall.model_validate(call) for call in view.calls],
        label=label_of(view.document),
        sample=sample,
        before=before,
        after=after,
        artifacts=[(file.path, file.size, address(file.path)) for file in artifacts],
        trajectory_url=address(f"trajectories/row_{row}_run_{run_index}.json"),
        per_page=STEPS_PER_PAGE,
    )


async def _run(
    session: AsyncSession, user: Principal, workspace: str, name: str
) -> tuple[Workspace, Run, User | None]:
    found = await member_workspace(session, user.user_id, workspace)
    run, creator = await find_run(session, found.id, name)
    return found, run, creator
