"""Where each required secret comes from: a file, the environment, the store, or a prompt."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from osmosis.cli.environment import parse_dotenv, read_dotenv
from osmosis.cli.output.mode import output
from osmosis.cli.output.questions import ask_hidden
from osmosis.wire.errors import InteractiveRequired, OsmosisError

if TYPE_CHECKING:
    from osmosis.client.api import Api

STDIN = "-"
STORE_HINT = (
    "Store each with `osmosis secret set NAME`, or give them for this run with --secrets-file FILE."
)
LOCAL_HINT = "Set each in the environment, or give them with --secrets-file FILE."
SCOPE_LABELS = {
    "workspace": "Workspace",
    "user": "Personal",
    "user_override": "Personal (overrides workspace)",
    "run": "Run",
    "provided": "Run",
}


@dataclass
class SecretValues:
    """``provided`` goes with the run only and is never printed; ``scopes`` is for people."""

    provided: dict[str, str] = field(default_factory=dict, repr=False)
    scopes: dict[str, str] = field(default_factory=dict)


def resolve(api: Api, names: list[str], secrets_file: str | None) -> SecretValues:
    """A source for every name, in the documented order; what has none is asked for."""
    result = SecretValues()
    if not names:
        return result
    from_file = _read(secrets_file)
    stored = _stored_scopes(api)
    missing: list[str] = []
    for name in names:
        if value := from_file.get(name) or os.environ.get(name):
            result.provided[name] = value
            result.scopes[name] = "run"
        elif stored is None:
            result.scopes[name] = "unknown"  # the list cannot be read: the platform decides
        elif name in stored:
            result.scopes[name] = stored[name]
        else:
            missing.append(name)
    _ask_for(missing, result)
    return result


def resolve_here(names: list[str], secrets_file: str | None) -> SecretValues:
    """The values for a run on this machine: the file, the environment, a prompt."""
    result = SecretValues()
    from_file = _read(secrets_file)
    missing: list[str] = []
    for name in names:
        if value := from_file.get(name) or os.environ.get(name):
            result.provided[name] = value
            result.scopes[name] = "run"
        else:
            missing.append(name)
    _ask_for(missing, result, LOCAL_HINT)
    return result


def scope_label(scope: str) -> str:
    return SCOPE_LABELS.get(scope, scope.capitalize())


def _ask_for(missing: list[str], result: SecretValues, hint: str = STORE_HINT) -> None:
    if missing and not output.interactive:
        raise InteractiveRequired(
            f"Secret(s) not found: {', '.join(missing)}.",
            hint=hint,
            details={"missing": missing},
        )
    for name in missing:
        value = ask_hidden(f"Value of {name} (for this run only)", hint="")
        if not value:
            raise InteractiveRequired(
                f"Secret(s) not found: {name}.",
                hint=f"Store it with `osmosis secret set {name}`.",
                details={"missing": [name]},
            )
        result.provided[name] = value
        result.scopes[name] = "run"


def _read(secrets_file: str | None) -> Mapping[str, str]:
    if secrets_file is None:
        return {}
    if secrets_file == STDIN:
        return parse_dotenv(sys.stdin.read(), "standard input")
    return read_dotenv(Path(secrets_file).expanduser())


def _stored_scopes(api: Api) -> dict[str, str] | None:
    """Scope by name of what the platform keeps; None when it does not tell."""
    try:
        items = api.secrets(everything=True).items
    except OsmosisError:
        return None
    scopes: dict[str, str] = {}
    for item in items:
        name, scope = str(item.get("name")), str(item.get("scope"))
        scopes[name] = "user_override" if name in scopes else scope
    return scopes
