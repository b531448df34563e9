"""A whole platform on an empty data directory, reached in process or over a real socket."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from fastapi import FastAPI

from osmosis.platform.accounts.service import first_user
from osmosis.platform.app import create_app
from osmosis.platform.db.models import Membership, User
from osmosis.platform.db.schema import upgrade
from osmosis.platform.platform import Platform
from osmosis.platform.security.sessions import SESSION_COOKIE, create_login_code
from osmosis.platform.security.tokens import issue_token
from osmosis.platform.settings import Settings
from osmosis.platform.workspaces import service as workspaces
from tests.platform.runs import (
    Running,
    Worker,
    add_dataset,
    claimed,
    push_workspace,
    submitted,
)

BASE_URL = "http://127.0.0.1:7670"
IDENTITY = "ada/agents"


@dataclass(frozen=True)
class Account:
    """A person with a token and a workspace."""

    user_id: str
    token: str
    workspace_id: str
    workspace: str
    identity: str

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}", "X-Osmosis-Git": self.identity}


async def make_account(
    platform: Platform, *, email: str, workspace: str, identity: str, role: str = "owner"
) -> Account:
    """A further person with a workspace of their own."""
    async with platform.db.write() as session:
        user = User(email=email, name=email.partition("@")[0])
        session.add(user)
        await session.flush()
        made, _ = await workspaces.create(session, user.id, workspace, identity)
        membership = await session.get_one(Membership, (made.workspace.id, user.id))
        membership.role = role
        _, token = await issue_token(session, kind="personal", name="test", user_id=user.id)
    return Account(user.id, token, made.workspace.id, made.workspace.name, identity)


@pytest.fixture
def platform_settings(tmp_path: Path) -> Settings:
    return Settings(data_dir=tmp_path / "data", embedded_worker=False)


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with the schema and nothing in it: migrated once, copied for each test."""
    file = tmp_path_factory.mktemp("schema") / "osmosis.db"
    upgrade(f"sqlite+aiosqlite:///{file}")
    return file


@pytest.fixture
async def platform_app(platform_settings: Settings, empty_database: Path) -> AsyncIterator[FastAPI]:
    """The application, started; ``app.state.platform`` is its platform."""
    platform_settings.create_directories()
    shutil.copyfile(empty_database, platform_settings.data_dir / "osmosis.db")
    app = create_app(platform_settings)
    async with app.router.lifespan_context(app):
        yield app


@pytest.fixture
def platform(platform_app: FastAPI) -> Platform:
    return platform_app.state.platform


@pytest.fixture
async def account(platform: Platform) -> Account:
    """The first account, owner of the workspace 'agents' with the repository 'ada/agents'."""
    async with platform.db.write() as session:
        user = await first_user(session)
        made, _ = await workspaces.create(session, user.id, "agents", IDENTITY)
        _, token = await issue_token(session, kind="personal", name="test", user_id=user.id)
    return Account(user.id, token, made.workspace.id, made.workspace.name, IDENTITY)


@pytest.fixture
async def stranger(platform: Platform) -> Account:
    """Another person in another workspace."""
    return await make_account(
        platform, email="eve@example.test", workspace="others", identity="eve/others"
    )


@pytest.fixture
async def anonymous(platform_app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    """A client without a token."""
    transport = httpx.ASGITransport(platform_app)
    async with httpx.AsyncClient(transport=transport, base_url=BASE_URL) as client:
        yield client


@pytest.fixture
async def client(platform_app: FastAPI, account: Account) -> AsyncIterator[httpx.AsyncClient]:
    """A client with the first account's token and its workspace's scope header."""
    transport = httpx.ASGITransport(platform_app)
    async with httpx.AsyncClient(
        transport=transport, base_url=BASE_URL, headers=account.headers
    ) as client:
        yield client


@pytest.fixture
async def worker_client(
    platform_app: FastAPI, platform_settings: Settings
) -> AsyncIterator[httpx.AsyncClient]:
    """A client with the embedded worker's token."""
    token = platform_settings.worker_token_file.read_text().strip()
    transport = httpx.ASGITransport(platform_app)
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(transport=transport, base_url=BASE_URL, headers=headers) as client:
        yield client


@pytest.fixture
def running(
    platform: Platform,
    account: Account,
    client: httpx.AsyncClient,
    worker_client: httpx.AsyncClient,
    tmp_path: Path,
) -> Running:
    """Submits a run of the pushed workspace, with what is given, and claims it."""

    async def run(**changes: Any) -> Worker:
        await push_workspace(platform, account, tmp_path)
        await add_dataset(platform, account)
        await submitted(client, **changes)
        return await claimed(worker_client)

    return run


@pytest.fixture
async def page_client(platform_app: FastAPI, account: Account) -> AsyncIterator[httpx.AsyncClient]:
    """A browser of the first account: session cookie, Origin, wants HTML."""
    platform: Platform = platform_app.state.platform
    async with platform.db.write() as session:
        code = await create_login_code(session, account.user_id, lifetime_s=60)
    transport = httpx.ASGITransport(platform_app)
    headers = {"Accept": "text/html", "Origin": BASE_URL}
    async with httpx.AsyncClient(
        transport=transport, base_url=BASE_URL, headers=headers
    ) as browser:
        await browser.get(f"/login?code={code}")
        assert SESSION_COOKIE in browser.cookies
        yield browser


@pytest.fixture
async def live_url(platform_app: FastAPI) -> AsyncIterator[str]:
    """The same platform on a real loopback socket; yields its base URL."""
    config = uvicorn.Config(
        platform_app, host="127.0.0.1", port=0, lifespan="off", log_config=None, ws="none"
    )
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.005)
        if task.done():
            task.result()
    port = server.servers[0].sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}"
    platform_app.state.platform.events.close()
    server.should_exit = True
    await task


@pytest.fixture
async def commit(platform: Platform, account: Account, tmp_path: Path) -> str:
    """A pushed workspace with the dataset 'sums'; the id of its commit."""
    await add_dataset(platform, account)
    return await push_workspace(platform, account, tmp_path)
