"""``osmosis workspace``: list yours, connect a directory's repository, fetch a remote one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from osmosis.cli.commands.options import FILE, group, yes_flag
from osmosis.cli.output import Column, Listing, NextStep, Operation
from osmosis.cli.output.format import plural, size, text
from osmosis.cli.output.questions import confirm
from osmosis.cli.repository_link import hosted_link, note_identity, workspace_name
from osmosis.cli.session import session
from osmosis.cli.vendor_origin import leave_vendor_form, take_vendor_form
from osmosis.wire.errors import OsmosisError, ValidationFailed
from osmosis.workspace.layout import find_workspace
from osmosis.workspace.repository import (
    origin_url,
    without_credentials,
    workspace_identity,
)

app = group("workspace", "Your workspaces, and the repository each is connected to.")


@app.command("list")
def list_workspaces() -> Listing:
    """List the workspaces that you belong to."""
    items = session.account.workspaces()
    return Listing(
        items=items,
        columns=(
            Column("Name", lambda w: text(w.get("name")), kind="name"),
            Column("Role", lambda w: text(w.get("role"))),
            Column("Repository", _repository),
            Column("Kind", lambda w: text(w.get("repository_kind"))),
        ),
        total_count=len(items),
        empty="You have no workspace yet.",
        hints=() if items else (NextStep("Make one:", "osmosis init DIR"),),
    )


@app.command()
@click.argument("url", required=False, metavar="[URL]")
@click.option("--name", metavar="NAME", help="The workspace's name (else the directory's).")
@click.option(
    "--token-env", metavar="VAR", help="The environment variable that holds an access token."
)
@click.option("--deploy-key", type=FILE, metavar="FILE", help="A file with a private SSH key.")
@click.option(
    "--vendor-cli",
    is_flag=True,
    help="Name origin as the vendor's CLI wants it: github.com/OWNER/REPO; pushes still come here.",
)
@click.option("--undo", is_flag=True, help="With --vendor-cli: make origin the real remote again.")
def connect(
    url: str | None,
    *,
    name: str | None,
    token_env: str | None,
    deploy_key: Path | None,
    vendor_cli: bool,
    undo: bool,
) -> Operation:
    """Connect this workspace: to any git URL, or to a repository that the platform hosts.

    With a URL, the platform fetches from it when you submit. Without one it hosts the repository
    itself: origin is set and git push works at once.
    """
    root = _root_or_none()
    if undo and not vendor_cli:
        raise ValidationFailed("--undo goes with --vendor-cli.")
    if vendor_cli:
        if url:
            raise ValidationFailed(
                "--vendor-cli takes no URL; it changes how the connected origin is named."
            )
        return _vendor_form(root or find_workspace(Path.cwd()), name, undo=undo)
    if url is None:
        if token_env or deploy_key:
            raise ValidationFailed("--token-env and --deploy-key need the URL of a repository.")
        return _connect_hosted(root or find_workspace(Path.cwd()), name)
    chosen = name or session.line.workspace or (workspace_name(root) if root else None)
    if chosen is None:
        raise ValidationFailed("Name the workspace with --name NAME.")
    credential = _credential(token_env, deploy_key)
    made = session.account.create_workspace(chosen)  # the same again changes nothing
    answer = session.account.connect_workspace(
        {"workspace": made["name"], "url": url, **credential}
    )
    connected = answer.get("connected_repo") or {}
    identity = connected.get("repo_full_name")
    if root and identity:
        note_identity(root, str(identity))
    shown = without_credentials(url)
    return Operation(
        operation="workspace.connect",
        message=f"The workspace {answer.get('name')} is connected to {shown}.",
        resource=answer,
        next_steps=(NextStep("Rollouts found there:", "osmosis rollout list"),),
    )


@app.command()
def sync() -> Operation:
    """Fetch the connected repository now and catalogue its branches and rollouts."""
    answer = session.api.sync()
    return Operation(
        operation="workspace.sync",
        message="The repository is in sync.",
        resource=answer,
        next_steps=(NextStep("Rollouts found there:", "osmosis rollout list"),),
    )


@app.command("clear-cache")
@yes_flag
def clear_cache(yes: bool) -> Operation:
    """Forget the model answers that runs with `[advanced] cache` have kept for this workspace.

    Later runs with the cache on ask their models again. The runs themselves stay as they are.
    """
    confirm("Forget all kept model answers of the workspace?", yes=yes)
    answer = session.api.clear_response_cache()
    count, kept_bytes = int(answer["responses"]), int(answer["bytes"])
    return Operation(
        operation="workspace.clear-cache",
        message=f"{plural(count, 'kept answer')} ({size(kept_bytes)}) forgotten.",
        resource={**answer, **session.context},
    )


def _connect_hosted(root: Path, name: str | None) -> Operation:
    link = hosted_link(session.account, root, name)
    return Operation(
        operation="workspace.connect",
        message=f"The workspace {link.workspace} is connected; origin is {link.git_url}.",
        resource=link.resource(),
        next_steps=(NextStep("Send your commits:", "git push"),),
    )


def _vendor_form(root: Path, name: str | None, *, undo: bool) -> Operation:
    """Name origin for the vendor's command, or take that back."""
    if undo:
        origin = leave_vendor_form(root)
        return Operation(
            operation="workspace.connect",
            message=f"origin is {without_credentials(origin.fetch)}.",
            resource=origin.resource(),
        )
    if origin_url(root) is None:
        hosted_link(session.account, root, name)
    identity, _ = workspace_identity(root)
    origin = take_vendor_form(root, identity)
    variables = {
        "OSMOSIS_PLATFORM_URL": session.platform.url,
        "OSMOSIS_TOKEN_PLATFORM_URL": session.platform.url,
    }
    return Operation(
        operation="workspace.connect",
        message=f"The vendor's CLI knows this workspace as {identity}; pushes go to "
        f"{without_credentials(origin.push)}.",
        resource={"repository": identity, **origin.resource(), "environment": variables},
        next_steps=(
            NextStep(
                "Point it at this platform:",
                f"export {' '.join(f'{key}={value}' for key, value in variables.items())}",
            ),
            NextStep("Take it back:", "osmosis workspace connect --vendor-cli --undo"),
        ),
    )


def _credential(token_env: str | None, deploy_key: Path | None) -> dict[str, str]:
    """The credential to store with the repository; values come from variables or files only."""
    if token_env and deploy_key:
        raise ValidationFailed("--token-env and --deploy-key exclude each other.")
    if token_env:
        value = os.environ.get(token_env, "")
        if not value:
            raise ValidationFailed(f"The environment variable {token_env} is not set or empty.")
        return {"token": value}
    if deploy_key:
        try:
            return {"deploy_key": deploy_key.expanduser().read_text("utf-8")}
        except (OSError, UnicodeDecodeError):
            raise ValidationFailed(f"Cannot read the key file {deploy_key}.") from None
    return {}


def _root_or_none() -> Path | None:
    try:
        return find_workspace(Path.cwd())
    except OsmosisError:
        return None


def _repository(workspace: Any) -> str:
    connected = workspace.get("connected_repo")
    return text(connected.get("repo_full_name") if isinstance(connected, dict) else None)
