"""``osmosis quickstart``: from a platform's address to a workspace on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from osmosis.cli.commands.auth import login
from osmosis.cli.commands.options import CONTEXT, EVERYWHERE, FILE
from osmosis.cli.output import NextStep, Operation
from osmosis.cli.output.messages import note
from osmosis.cli.output.mode import output
from osmosis.cli.output.questions import choose
from osmosis.cli.repository_link import clone_hosted
from osmosis.cli.session import session
from osmosis.wire.errors import AuthRequired, NotFound, OsmosisError, did_you_mean
from osmosis.workspace.layout import find_workspace, missing_paths
from osmosis.workspace.repository import workspace_identity


@click.command("quickstart", epilog=EVERYWHERE, context_settings=CONTEXT)
@click.argument("directory", type=FILE, metavar="[DIR]", required=False)
@click.option("-w", "name", metavar="NAME", help="The workspace (else you are asked).")
def app(directory: Path | None, name: str | None) -> Operation:
    """Sign in, choose a workspace, and clone its repository to DIR (else its name).

    In a directory that is that workspace already, it only says what to do next.
    """
    _sign_in()
    workspace = _chosen(session.account.workspaces(), name or session.line.workspace)
    connected = workspace.get("connected_repo") or {}
    identity = str(connected.get("repo_full_name") or "")
    here = _here(identity)
    root = here or _clone(workspace, directory)
    steps: list[NextStep] = []
    if here is None:
        steps.append(NextStep("Go there:", f"cd {directory or workspace['name']}"))
    if missing_paths(root):
        steps.append(NextStep("Complete its layout:", "osmosis init ."))
    steps += [
        NextStep("Check it:", "osmosis doctor"),
        NextStep("Upload the data:", "osmosis dataset upload data/FILE.jsonl"),
        NextStep("Evaluate:", "osmosis eval submit configs/eval/FILE.toml --watch"),
    ]
    where = f"You are in it: {root}." if here else f"It is in {directory or workspace['name']}."
    return Operation(
        operation="quickstart",
        message=f"The workspace {workspace['name']} is ready. {where}",
        resource={
            "name": workspace["name"],
            "repository": identity,
            "workspace_directory": str(root),
            "cloned": here is None,
            "platform_url": session.platform.url,
        },
        next_steps=steps,
    )


def _sign_in() -> None:
    try:
        session.account.verify()
    except AuthRequired:
        if not output.interactive:
            raise
        note("First, sign in.")
        session.forget_login()
        login.callback(token=None)  # pyright: ignore[reportOptionalCall]
        session.account.verify()


def _chosen(workspaces: list[dict[str, Any]], name: str | None) -> dict[str, Any]:
    names = [str(workspace["name"]) for workspace in workspaces]
    if not names:
        raise NotFound("You have no workspace yet.", hint="Make one with `osmosis init DIR`.")
    if name is None and len(names) > 1:
        name = choose("Which workspace?", names, hint="Name it with -w NAME.")
    if name is not None and name not in names:
        raise NotFound(
            f"There is no workspace '{name}' among yours.{did_you_mean(name, names)}",
            hint="`osmosis workspace list` shows them.",
        )
    return workspaces[names.index(name) if name else 0]


def _here(identity: str) -> Path | None:
    """The current workspace directory, when it is the one that was chosen."""
    try:
        root = find_workspace(Path.cwd())
        return root if workspace_identity(root)[0] == identity else None
    except OsmosisError:
        return None


def _clone(workspace: dict[str, Any], directory: Path | None) -> Path:
    git_url = workspace.get("git_url")
    if not git_url:
        raise NotFound(
            f"The platform does not host the repository of {workspace['name']}; it fetches it.",
            hint="Clone it from its own host, and run `osmosis doctor` there.",
        )
    target = (directory or Path(str(workspace["name"]))).expanduser()
    return clone_hosted(str(git_url), target)
