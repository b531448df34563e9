"""``osmosis init``: a workspace directory that is connected, so that ``git push`` just works."""

from __future__ import annotations

from pathlib import Path

import click

from osmosis.cli.commands.options import CONTEXT, EVERYWHERE, FILE
from osmosis.cli.output import NextStep, Operation
from osmosis.cli.output.messages import warn
from osmosis.cli.repository_link import Link, hosted_link
from osmosis.cli.session import session
from osmosis.client.api import Api
from osmosis.client.auth import find_platform, find_token
from osmosis.wire.errors import OsmosisError
from osmosis.workspace.repository import hosted_origin, origin_url
from osmosis.workspace.scaffold import Scaffolded, create_workspace


@click.command("init", epilog=EVERYWHERE, context_settings=CONTEXT)
@click.argument("directory", type=FILE, metavar="DIR")
@click.option("--name", metavar="NAME", help="The workspace's name (else the directory's).")
@click.option("--offline", is_flag=True, help="Write the files only; connect to no platform.")
def app(directory: Path, name: str | None, offline: bool) -> Operation:
    """Make a workspace: a git repository with the layout and one rollout that works.

    When a platform is found, a workspace is made there, origin is set to the repository that it
    hosts, and git is told how to log in. A directory that has content keeps all of it.
    """
    made = create_workspace(directory)
    link = None if offline else _connect(made.root, name)
    created = ", ".join(made.created) if made.adopted else ""
    message = f"The workspace is in {directory}."
    if made.adopted:
        message += f" Added: {created}." if created else " Nothing was missing."
    if link:
        message += f" Its repository is {link.git_url}."
        if not link.new:
            message += f" (The workspace {link.workspace} existed already.)"
    return Operation(
        operation="init",
        message=message,
        resource={
            "workspace_directory": str(made.root),
            "created": made.created,
            "committed": made.committed,
            "connected": link is not None,
            **(link.resource() if link else {}),
        },
        next_steps=_next_steps(directory, made, link),
    )


def _connect(root: Path, name: str | None) -> Link | None:
    """The link to the platform; without a platform the files alone are a success."""
    origin = origin_url(root)
    hosted = hosted_origin(root, origin)
    if origin and hosted is None:
        warn(
            "NOT_CONNECTED",
            f"Not connected: the directory has its own origin. To let the platform fetch from it, "
            f"run: osmosis workspace connect {origin}",
        )
        return None
    try:
        platform = find_platform(session.line.platform, hosted.base_url if hosted else None)
        with Api(platform.url, find_token(platform).value) as account:
            return hosted_link(account, root, name)
    except OsmosisError as error:
        hint = f" {error.hint}" if error.hint else ""
        warn(
            "NOT_CONNECTED",
            f"Not connected to a platform: {error.message}{hint} "
            "Then run `osmosis workspace connect` in the workspace.",
        )
        return None


def _next_steps(directory: Path, made: Scaffolded, link: Link | None) -> list[NextStep]:
    steps = [NextStep("Go there:", f"cd {directory}")] if str(directory) != "." else []
    if made.created and not made.committed:
        steps.append(NextStep("Commit:", "git add -A && git commit -m 'Start'"))
    if link is None:
        steps.append(NextStep("Connect it once a server runs:", "osmosis workspace connect"))
    steps.append(NextStep("Send the code:", "git push"))
    if not made.adopted:
        steps += [
            NextStep("Upload the data:", "osmosis dataset upload data/multiply.jsonl"),
            NextStep(
                "Evaluate on a scripted model, which needs no key:",
                "osmosis eval submit configs/eval/multiply-scripted.toml --watch",
            ),
        ]
    return steps
