"""``osmosis secret``: keys that are stored encrypted and never shown again."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from osmosis.cli.commands.options import group, paging, paging_flags, yes_flag
from osmosis.cli.output import Column, Listing, NextStep, Operation
from osmosis.cli.output.format import minute, text
from osmosis.cli.output.questions import ask_hidden, confirm
from osmosis.cli.session import session
from osmosis.wire.errors import (
    InteractiveRequired,
    NotFound,
    OsmosisError,
    ValidationFailed,
    did_you_mean,
)
from osmosis.workspace.config import check_secret_name

app = group("secret", "Keep keys encrypted on the platform.")


_HOW_TO_GIVE = "Give it with --env VAR or through a pipe."
_WIRE = {"personal": "user", "workspace": "workspace", "all": "all"}

scope_flag = click.option(
    "--scope",
    type=click.Choice(["personal", "workspace"]),
    default="personal",
    help="For you alone, or for the whole workspace.",
)


@app.command("set")
@click.argument("name")
@scope_flag
@click.option("--env", metavar="VAR", help="Take the value from this environment variable.")
def set_secret(name: str, scope: str, env: str | None) -> Operation:
    """Store a secret, or replace it. The value comes from a hidden prompt, --env or a pipe."""
    check_secret_name(name)
    value = _value(name, env)
    answer = session.api.set_secret(name, value, _WIRE[scope])
    return Operation(
        operation="secret.set",
        message=f"The {scope} secret {name} is stored.",
        resource={**shown(answer), **session.context},
        next_steps=(NextStep("Name it in a config:", f'[secrets] required = ["{name}"]'),),
    )


@app.command("list")
@click.option(
    "--scope",
    type=click.Choice(["all", "personal", "workspace"]),
    default="all",
    help="Only those of one scope.",
)
@paging_flags
def list_secrets(scope: str, limit: int | None, everything: bool) -> Listing:
    """List secrets by name; values are never shown."""
    chosen = paging(limit, everything)
    page = session.api.secrets(scope=_WIRE[scope], **chosen)
    return Listing(
        items=[shown(item) for item in page.items],
        columns=(
            Column("Name", lambda s: text(s.get("name")), kind="name"),
            Column("Scope", lambda s: text(s.get("scope"))),
            Column("Updated", lambda s: minute(s.get("updated_at")), kind="time"),
            Column("Updated by", lambda s: text(s.get("updater_name") or s.get("creator_name"))),
        ),
        total_count=page.total_count,
        has_more=page.has_more,
        next_offset=page.next_offset,
        extra={**page.extra, **session.context},
        empty="No secrets are stored.",
        hints=() if page.items else (NextStep("Store one:", "osmosis secret set OPENAI_API_KEY"),),
    )


@app.command()
@click.argument("name")
@scope_flag
@yes_flag
def delete(name: str, scope: str, yes: bool) -> Operation:
    """Delete a secret."""
    _check_present(name, scope)
    confirm(f"Delete the {scope} secret {name}?", yes=yes)
    session.api.delete_secret(name, _WIRE[scope])
    return Operation(
        operation="secret.delete",
        message=f"The {scope} secret {name} is deleted.",
        resource={"name": name, "scope": scope, **session.context},
    )


def shown(secret: Any) -> dict[str, Any]:
    """A secret with its scope in people's words."""
    scope = secret.get("scope")
    return {**secret, "scope": "personal" if scope == "user" else scope}


def _value(name: str, env: str | None) -> str:
    if env is not None:
        value = os.environ.get(env, "")
        source = f"The environment variable {env}"
    elif not sys.stdin.isatty():
        # One final line break belongs to `echo`, not to the secret.
        value = sys.stdin.read().removesuffix("\n").removesuffix("\r")
        source = "Standard input"
        if not value:
            raise InteractiveRequired(f"The value of {name} is needed.", hint=_HOW_TO_GIVE)
    else:
        value = ask_hidden(f"Value of {name}", hint=_HOW_TO_GIVE)
        source = "The value"
    if value == "":
        raise ValidationFailed(
            f"{source} is empty.",
            hint=f"For example: osmosis secret set {name} --env {name}",
            field="value",
        )
    return value


def _check_present(name: str, scope: str) -> None:
    """Refuse what is not there, with the near name; an unreadable list lets the server decide."""
    try:
        items = session.api.secrets(everything=True).items
    except OsmosisError:
        return
    mine = [str(item.get("name")) for item in items if item.get("scope") == _WIRE[scope]]
    if name in mine:
        return
    other = "workspace" if scope == "personal" else "personal"
    elsewhere = any(item.get("name") == name for item in items)
    raise NotFound(
        f"There is no {scope} secret {name}." + ("" if elsewhere else did_you_mean(name, mine)),
        hint=f"There is a {other} one: add --scope {other}." if elsewhere else None,
    )
