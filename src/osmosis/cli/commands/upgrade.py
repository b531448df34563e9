"""``osmosis upgrade``: how this installation is brought up to date."""

from __future__ import annotations

import json
import shlex
import sys
from importlib import metadata
from urllib.parse import unquote, urlsplit

import click

from osmosis import __version__
from osmosis.cli.commands.options import CONTEXT, EVERYWHERE
from osmosis.cli.output import NextStep, Operation

DISTRIBUTION = "osmosis-platform"


@click.command("upgrade", epilog=EVERYWHERE, context_settings=CONTEXT)
def app() -> Operation:
    """Say how this installation is upgraded. Nothing is changed.

    Osmosis is installed from its repository or a wheel of your own; no package index is asked,
    where anybody could own the name.
    """
    source, place = _installed_from()
    message, steps = _advice(source, place)
    return Operation(
        operation="upgrade",
        status="noop",
        message=f"This is Osmosis {__version__}, {message}",
        resource={"version": __version__, "installed_from": source, "location": place},
        next_steps=steps,
    )


def _installed_from() -> tuple[str, str | None]:
    """``checkout``, ``git``, ``wheel`` or ``index``, and where that is (PEP 610)."""
    try:
        written = metadata.distribution(DISTRIBUTION).read_text("direct_url.json")
        record = json.loads(written or "null")
    except (metadata.PackageNotFoundError, ValueError):
        record = None
    if not isinstance(record, dict) or not isinstance(record.get("url"), str):
        return "index", None
    url = str(record["url"])
    if record.get("vcs_info"):
        return "git", url
    place = unquote(urlsplit(url).path) if url.startswith("file://") else url
    return ("checkout" if record.get("dir_info") is not None else "wheel"), place


def _advice(source: str, place: str | None) -> tuple[str, list[NextStep]]:
    pip = f"{shlex.quote(sys.executable)} -m pip install --upgrade"
    restart = NextStep(
        "Then start the server again:", "osmosis server stop && osmosis server start"
    )
    if source == "checkout" and place:
        where = shlex.quote(place)
        command = f"git -C {where} pull && make -C {where} install"
        return f"run from the checkout {place}.", [NextStep("Upgrade:", command), restart]
    if source == "git" and place:
        command = f"{pip} {shlex.quote(f'{DISTRIBUTION}[server] @ git+{place}')}"
        return f"installed from {place}.", [NextStep("Upgrade:", command), restart]
    origin = f"installed from {place}." if place else "installed as a wheel."
    return origin, [NextStep("Upgrade with the newer wheel:", f"{pip} WHEEL"), restart]
