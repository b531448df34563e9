"""``osmosis rollout``: make one here, list what the platform found in the repository."""

from __future__ import annotations

import click

from osmosis.cli.commands.options import group, paging, paging_flags
from osmosis.cli.output import Column, Listing, NextStep, Operation
from osmosis.cli.output.format import minute, text
from osmosis.cli.session import session
from osmosis.workspace.scaffold import create_rollout

app = group("rollout", "Make rollouts and list the synced ones.")


@app.command()
@click.argument("name")
@click.option("--force", "-f", is_flag=True, help="Overwrite what is there.")
def init(name: str, force: bool) -> Operation:
    """Make a rollout that works as it stands, with its two configs."""
    created = create_rollout(session.root, name, force=force)
    return Operation(
        operation="rollout.init",
        message=f"The rollout {name} is in rollouts/{name}.",
        resource={"name": name, "created": created, "workspace_directory": str(session.root)},
        next_steps=(
            NextStep("Edit the agent and its grader:", f"rollouts/{name}/main.py"),
            NextStep("Set model and dataset:", f"configs/eval/{name}.toml"),
            NextStep("Send the code:", f"git add -A && git commit -m 'Add {name}' && git push"),
            NextStep("Evaluate:", f"osmosis eval submit configs/eval/{name}.toml --watch"),
        ),
    )


@app.command("list")
@click.option("--branch", metavar="BRANCH", help="Another branch than the default one.")
@paging_flags
def list_rollouts(branch: str | None, limit: int | None, everything: bool) -> Listing:
    """List the rollouts that the platform found in the pushed repository."""
    chosen = paging(limit, everything)
    page = session.api.rollouts(branch=branch, **chosen)
    return Listing(
        items=page.items,
        columns=(
            Column("Name", lambda r: text(r.get("name")), kind="name"),
            Column("Commit", lambda r: text(str(r.get("last_synced_commit_sha") or "")[:7])),
            Column(
                "Synced",
                lambda r: minute(r.get("last_synced_at") or r.get("created_at")),
                kind="time",
            ),
            Column("Repository", lambda r: text(r.get("repo_full_name")), kind="dim"),
            Column("Description", lambda r: text(r.get("description"))),
        ),
        total_count=page.total_count,
        has_more=page.has_more,
        next_offset=page.next_offset,
        extra={**page.extra, **session.context, **({"branch": branch} if branch else {})},
        empty="No rollout was found in the pushed repository.",
        hints=() if page.items else (NextStep("Send your commits:", "git push"),),
    )
