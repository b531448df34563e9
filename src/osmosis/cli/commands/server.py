"""``osmosis server``: run the platform on this machine.

The only commands that know the platform's code; it is imported when one of them runs.
"""

from __future__ import annotations

import getpass
import sys
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from osmosis.cli.commands.options import group
from osmosis.cli.output import Detail, NextStep, Operation
from osmosis.cli.output.format import moment, text
from osmosis.cli.output.mode import output
from osmosis.cli.output.questions import ask_hidden
from osmosis.cli.session import session
from osmosis.wire.errors import OsmosisError, ValidationFailed

if TYPE_CHECKING:
    from osmosis.platform.settings import Settings

MIN_PASSWORD_CHARS = 8

app = group("server", "Run the platform on this machine.")
admin = group("admin", "Accounts of the server's operators.")
app.add_typer(admin)

DataDir = Annotated[
    Path | None,
    typer.Option("--data-dir", help="Where the server keeps everything (~/.osmosis/server)."),
]


@app.command()
def start(
    *,
    host: Annotated[
        str | None, typer.Option("--host", help="The address to listen on (127.0.0.1).")
    ] = None,
    port: Annotated[
        int | None, typer.Option("--port", min=0, max=65535, help="The port (7670); 0 takes any.")
    ] = None,
    data_dir: DataDir = None,
    public_url: Annotated[
        str | None,
        typer.Option(
            "--public-url", help="The address that clients use, when a proxy stands in front."
        ),
    ] = None,
    worker: Annotated[
        bool | None, typer.Option("--worker/--no-worker", help="Run a worker beside the server.")
    ] = None,
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Start it in the background and return.")
    ] = False,
) -> Operation | None:
    """Start the server; Ctrl-C stops it. Its address and a link to the pages are printed.

    Every flag has an environment variable too, such as OSMOSIS_PORT and OSMOSIS_DATA_DIR.
    """
    server = _platform()
    settings = _settings(
        host=host, port=port, data_dir=data_dir, public_url=public_url, embedded_worker=worker
    )
    if not detach:
        server.serve(settings, show_link=output.mode != "json")
        return None
    found = server.start_detached(settings)
    return Operation(
        operation="server.start",
        message=f"The server runs at {found.url} (pid {found.pid}).",
        resource=_facts(found),
        next_steps=(
            NextStep("Sign in to its pages:", "osmosis server link"),
            NextStep("Make a workspace:", "osmosis init demo"),
            NextStep("Stop it:", "osmosis server stop"),
        ),
    )


@app.command()
def status(data_dir: DataDir = None) -> Detail:
    """Show whether the server of this machine runs; exit code 1 when it does not."""
    found = _platform().status(_settings(data_dir=data_dir))
    state = "stopped"
    if found.running:
        state = "running" if found.healthy else "running, but it does not answer"
    rows = [("Status", state), ("Data", str(found.data_dir))]
    if found.running:
        rows[1:1] = [
            ("Address", text(found.url)),
            ("Process", text(found.pid)),
            ("Version", text(found.version)),
            ("Since", moment(found.started_at)),
        ]
    hints = [] if found.running else [NextStep("Start it:", "osmosis server start")]
    return Detail(data=_facts(found), rows=rows, hints=hints, exit_code=0 if found.healthy else 1)


@app.command()
def stop(data_dir: DataDir = None) -> Operation:
    """Stop the server of this machine. Runs under way go on when it starts again."""
    stopped = _platform().stop(_settings(data_dir=data_dir))
    return Operation(
        operation="server.stop",
        status="success" if stopped else "noop",
        message="The server has stopped." if stopped else "No server runs here.",
    )


@app.command()
def link(
    open_page: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
) -> Operation:
    """Make a one-time link that signs a browser in to the pages."""
    answer = session.account.login_link()
    url = str(answer["url"])
    if open_page:
        webbrowser.open(url)
    minutes = int(answer.get("expires_in") or 0) // 60
    return Operation(
        operation="server.link",
        message=f"{url}\nIt signs one browser in, within {minutes} minutes.",
        resource=answer,
    )


@admin.command()
def create(
    email: Annotated[
        str | None, typer.Option("--email", help="The account's address (else the first account).")
    ] = None,
    data_dir: DataDir = None,
) -> Operation:
    """Give an admin account a password, which a server that listens widely needs.

    The password comes from a hidden prompt or a pipe. Works on this machine's data directory.
    """
    settings = _settings(data_dir=data_dir)
    address = _platform().create_admin(settings, _password(), email=email)
    return Operation(
        operation="server.admin.create",
        message=f"The admin account {address} has a password now.",
        resource={"email": address},
    )


def _password() -> str:
    if sys.stdin.isatty():
        value = ask_hidden("Password", hint="Give it through a pipe.")
        if getpass.getpass("The same again: ", stream=sys.stderr) != value:
            raise ValidationFailed("The two passwords differ.")
    else:
        value = sys.stdin.readline().rstrip("\r\n")
    if len(value) < MIN_PASSWORD_CHARS:
        raise ValidationFailed(f"A password has at least {MIN_PASSWORD_CHARS} characters.")
    return value


def _facts(found: Any) -> dict[str, Any]:
    return {
        "running": found.running,
        "healthy": found.healthy,
        "url": found.url,
        "pid": found.pid,
        "version": found.version,
        "started_at": found.started_at,
        "data_dir": str(found.data_dir),
    }


def _settings(**flags: Any) -> Settings:
    _platform()
    from osmosis.platform.settings import Settings

    return Settings.load(**flags)


def _platform() -> Any:
    """The server's module; told plainly when the extra is not installed."""
    try:
        from osmosis.platform import server
    except ModuleNotFoundError as error:
        raise OsmosisError(
            f"The server is not installed here: the module {error.name} is missing.",
            hint="Install it with: pip install 'osmosis-platform[server]'",
        ) from None
    return server
