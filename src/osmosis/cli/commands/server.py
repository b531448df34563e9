"""``osmosis server``: run the platform on this machine.

The only commands that know the platform's code; it is imported when one of them runs.
"""

from __future__ import annotations

import getpass
import sys
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from osmosis.cli.commands.options import FILE, group
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
app.add_command(admin)

data_dir_flag = click.option(
    "--data-dir",
    type=FILE,
    metavar="DIR",
    help="Where the server keeps everything (else ~/.osmosis/server).",
)


@app.command()
@click.option("--host", metavar="HOST", help="The address to listen on (else 127.0.0.1).")
@click.option(
    "--port", type=click.IntRange(0, 65535), metavar="N", help="The port (else 7670); 0 takes any."
)
@data_dir_flag
@click.option("--public-url", metavar="URL", help="The address for clients, behind a proxy.")
@click.option("--worker/--no-worker", default=None, help="Run a worker beside the server, or not.")
@click.option("--detach", "-d", is_flag=True, help="Start it in the background and return.")
def start(*, detach: bool, worker: bool | None, **flags: Any) -> Operation | None:
    """Start the server; Ctrl-C stops it. Its address and a link to the pages are printed.

    Every flag has an environment variable too, such as OSMOSIS_PORT and OSMOSIS_DATA_DIR.
    """
    server = _platform()
    settings = _settings(embedded_worker=worker, **flags)
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
@data_dir_flag
def status(data_dir: Path | None) -> Detail:
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
@data_dir_flag
def stop(data_dir: Path | None) -> Operation:
    """Stop the server of this machine. Runs under way go on when it starts again."""
    stopped = _platform().stop(_settings(data_dir=data_dir))
    return Operation(
        operation="server.stop",
        status="success" if stopped else "noop",
        message="The server has stopped." if stopped else "No server runs here.",
    )


@app.command()
@click.option("--open", "open_page", is_flag=True, help="Open it in the browser.")
def link(open_page: bool) -> Operation:
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
@click.option("--email", metavar="EMAIL", help="The account (else the first one).")
@data_dir_flag
def create(email: str | None, data_dir: Path | None) -> Operation:
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
