"""Serving: take the port, open the platform, listen, keep the worker, stop in good order."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import logging
import os
import resource
import signal
import socket
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict

import uvicorn
import uvloop

import osmosis
from osmosis.event_loop import collect_seldom
from osmosis.platform.accounts.service import first_user, has_admin_password
from osmosis.platform.app import create_app
from osmosis.platform.db.base import utc_now
from osmosis.platform.paging import iso
from osmosis.platform.platform import Platform
from osmosis.platform.ports import BACKLOG, listen
from osmosis.platform.security.hosts import WILDCARDS, is_loopback
from osmosis.platform.security.sessions import create_login_code
from osmosis.platform.security.vault import write_private
from osmosis.platform.server import ServerRecord, read_record
from osmosis.platform.server_log import configure_logging
from osmosis.platform.settings import Settings
from osmosis.platform.worker_process import WorkerProcess
from osmosis.processes import ProcessRecord, reap
from osmosis.wire.errors import Conflict, Forbidden

KEEP_ALIVE_S = 75
"""Longer than our clients keep an idle connection, so that the server never closes first."""
MAX_OPEN_FILES = 1_048_576
WORKER_GRACE_S = 2.0

log = logging.getLogger("osmosis.platform")


def run(settings: Settings, *, show_link: bool) -> None:
    """Serve until a signal says stop. Blocking."""
    os.umask(0o077)
    settings.create_directories()
    raise_file_limit()
    with hold(settings), contextlib.closing(listen(settings.host, settings.port)) as taken:
        configure_logging(settings)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_serve(settings, taken, show_link=show_link))


@contextmanager
def hold(settings: Settings) -> Generator[None]:
    """Own the data directory: one server at a time."""
    descriptor = os.open(settings.data_dir / "server.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            record = read_record(settings)
            where = f" at {record.url} (pid {record.pid})" if record else ""
            raise Conflict(
                f"The server of {settings.data_dir} is running already{where}.",
                hint="`osmosis server stop` ends it.",
                platform_code="SERVER_RUNNING",
            ) from None
        yield
    finally:
        os.close(descriptor)


def raise_file_limit() -> None:
    """Take as many file descriptors as the system allows: three sockets for each row in flight."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, MAX_OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


async def ensure_binding_allowed(platform: Platform) -> None:
    """Refuse to be reachable from other machines while anybody there could take the account."""
    host = platform.settings.host
    if is_loopback(host):
        return
    async with platform.db.read() as session:
        guarded = await has_admin_password(session)
    if not guarded:
        raise Forbidden(
            f"Listening on {host} makes this server reachable from other machines, and no admin "
            "account has a password yet.",
            hint="Run `osmosis server admin create` first, then start again.",
            platform_code="ADMIN_REQUIRED",
        )


async def _serve(settings: Settings, taken: socket.socket, *, show_link: bool) -> None:
    app = create_app(settings)
    platform: Platform = app.state.platform
    async with app.router.lifespan_context(app):
        await ensure_binding_allowed(platform)
        for left in reap(settings.processes_dir):
            log.warning("Ended a process of an earlier life: %s (pid %s).", left.what, left.pid)
        server = Server(
            uvicorn.Config(
                app,
                http="httptools",
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                backlog=BACKLOG,
                timeout_keep_alive=KEEP_ALIVE_S,
                timeout_graceful_shutdown=max(1, round(settings.stop_grace_s)),
            )
        )
        with _signals() as stop:
            serving = asyncio.create_task(server.serve(sockets=[taken]))
            await _until_started(server, serving)
            url = reachable_url(settings.host, taken.getsockname()[1])
            collect_seldom()
            async with _recorded(settings, url), _worker(settings, url):
                await _banner(platform, url, show_link=show_link)
                await _first_done(serving, stop)
                log.info("The server stops.")
                platform.events.close()
            server.should_exit = True
            await serving


class Server(uvicorn.Server):
    """uvicorn without its own signal handlers: the order of a stop is ours."""

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


@contextmanager
def _signals() -> Generator[asyncio.Event]:
    """An event that SIGINT or SIGTERM sets; a second signal ends the process at once."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()

    def on_signal() -> None:
        if stop.is_set():
            os._exit(130)
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, on_signal)
    try:
        yield stop
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


async def _until_started(server: Server, serving: asyncio.Task[None]) -> None:
    while not server.started:
        if serving.done():
            serving.result()
            raise Conflict("The server could not listen.", platform_code="SERVER_NOT_STARTED")
        await asyncio.sleep(0)


async def _first_done(serving: asyncio.Task[None], stop: asyncio.Event) -> None:
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait((serving, stopping), return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()


@asynccontextmanager
async def _recorded(settings: Settings, url: str) -> AsyncGenerator[None]:
    """``server.json`` while the server listens."""
    me = ProcessRecord.of(os.getpid(), "server")
    record = ServerRecord(
        **asdict(me), url=url, version=osmosis.__version__, started_at=iso(utc_now())
    )
    write_private(settings.server_file, json.dumps(asdict(record), indent=2) + "\n")
    log.info("Osmosis %s listens at %s.", osmosis.__version__, url)
    try:
        yield
    finally:
        settings.server_file.unlink(missing_ok=True)


@asynccontextmanager
async def _worker(settings: Settings, url: str) -> AsyncGenerator[None]:
    """The embedded worker while the server listens; it ends while the API still answers it."""
    if not settings.embedded_worker:
        yield
        return
    worker = WorkerProcess(settings, url)
    worker.start()
    try:
        yield
    finally:
        await worker.stop(WORKER_GRACE_S)


async def _banner(
    platform: Platform, url: str, *, show_link: bool, say: Callable[[str], None] | None = None
) -> None:
    say = say or (lambda line: print(line, flush=True))
    settings = platform.settings
    say(f"Osmosis {osmosis.__version__} is running.")
    say(f"  address  {settings.public_url or url}")
    say(f"  data     {settings.data_dir}")
    if show_link:
        async with platform.db.write() as session:
            user = await first_user(session)
            code = await create_login_code(session, user.id, lifetime_s=settings.login_link_s)
        minutes = settings.login_link_s // 60
        say(f"  pages    {settings.public_url or url}/login?code={code}")
        say(f"           (signs one browser in, within {minutes} minutes)")
    say("  Ctrl-C stops it.")


def reachable_url(host: str, port: int) -> str:
    """The address at which this machine reaches a server bound to ``host``."""
    name = "127.0.0.1" if host in WILDCARDS else host
    return f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}"
