"""``osmosis doctor``: is the workspace complete, and can its configs be read?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from osmosis.cli.commands.options import CONTEXT, EVERYWHERE, FILE
from osmosis.cli.output import NextStep, Operation
from osmosis.cli.output.messages import warn
from osmosis.cli.session import session
from osmosis.client.api import Api
from osmosis.client.auth import find_platform, find_token
from osmosis.wire.errors import OsmosisError, ValidationFailed
from osmosis.workspace import doctor as workspace_doctor
from osmosis.workspace.layout import REQUIRED_DIRS, REQUIRED_FILES, find_workspace
from osmosis.workspace.repository import hosted_origin, without_credentials, workspace_identity


@click.command("doctor", epilog=EVERYWHERE, context_settings=CONTEXT)
@click.argument("path", type=FILE, default=Path(), metavar="[PATH]")
@click.option("--fix", is_flag=True, help="Add what is missing; overwrite nothing.")
def app(path: Path, fix: bool) -> Operation:
    """Check that the workspace is complete and that its evaluation configs can be read."""
    if not path.is_dir():
        raise ValidationFailed(f"{path} is not a directory.")
    root = find_workspace(path)
    fixed = workspace_doctor.fix(root) if fix else []
    report = workspace_doctor.check(root)
    facts: dict[str, Any] = {
        "workspace_directory": str(root),
        **_platform_facts(root),
        "required_paths": [*REQUIRED_DIRS, *REQUIRED_FILES],
        "missing": report.missing,
        "valid": report.valid,
        "fixed": fixed,
        "config_problems": {
            name: [issue.body() for issue in issues]
            for name, issues in report.config_problems.items()
        },
    }
    for name, issues in report.config_problems.items():
        for issue in issues:
            line = str(issue)
            warn("CONFIG_PROBLEM", line if line.startswith(name) else f"{name}: {line}")
    if not report.valid:
        raise ValidationFailed(
            f"The workspace {root} lacks {', '.join(report.missing)}.",
            hint="Add what is missing with `osmosis doctor --fix`.",
            details=facts,
        )
    added = f" Added {', '.join(fixed)}." if fixed else ""
    return Operation(
        operation="doctor",
        message=f"The workspace {root} is complete.{added}",
        resource=facts,
        next_steps=[NextStep("Commit what was added:", "git add -A && git commit")]
        if fixed
        else [],
    )


def _platform_facts(root: Path) -> dict[str, Any]:
    """The identity and, when the platform answers, the workspace there; never a failure."""
    facts: dict[str, Any] = {"git": None, "workspace": None}
    try:
        identity, origin = workspace_identity(root)
        facts["git"] = {
            "identity": identity,
            "remote_url": without_credentials(origin) if origin else None,
        }
        hosted = hosted_origin(root, origin)
        platform = find_platform(session.line.platform, hosted.base_url if hosted else None)
        scope = {"X-Osmosis-Git": identity}
        with Api(platform.url, find_token(platform).value, scope) as api:
            facts["workspace"] = api.verify(scoped=True).get("workspace")
    except OsmosisError:
        return facts
    return facts
