"""``osmosis model``: the models that the platform knows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from osmosis.cli.commands.model_endpoint import endpoint
from osmosis.cli.commands.options import group, paging, paging_flags
from osmosis.cli.output import Column, Detail, Listing, Listings, NextStep, Operation, Section
from osmosis.cli.output.format import minute, moment, money, number, text
from osmosis.cli.session import session
from osmosis.wire.errors import NotFound

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from osmosis.client.api import Page

app = group("model", "The models that the platform knows, and addresses of your own.")
app.add_command(endpoint)

BASE_COLUMNS = (
    Column("Name", lambda m: text(m.get("model_name")), kind="name"),
    Column("Model", lambda m: text(m.get("base_model"))),
    Column("Created", lambda m: minute(m.get("created_at")), kind="time"),
    Column("Created by", lambda m: text(m.get("creator_name"))),
)
LORA_COLUMNS = (
    Column("Name", lambda m: text(m.get("model_name")), kind="name"),
    Column("Base model", lambda m: text(m.get("base_model"))),
    Column("Training run", lambda m: text(m.get("training_run_name"))),
    Column("Step", lambda m: text(m.get("checkpoint_step")), "right"),
    Column("Reward", lambda m: number(m.get("reward"), 2), "right"),
    Column("Created", lambda m: minute(m.get("created_at")), kind="time"),
)
ADD_ENDPOINT = NextStep(
    "Name one of yours:", "osmosis model endpoint add NAME --base-url URL --model ID"
)


@app.command("list")
@click.option(
    "--type",
    "kind",
    type=click.Choice(("all", "base", "lora")),
    default="all",
    metavar="all|base|lora",
    help="Only those of one kind.",
)
@paging_flags
def list_models(kind: str, limit: int | None, everything: bool) -> Listing | Listings:
    """List the base models, which are the workspace's named endpoints, and trained ones."""
    chosen = paging(limit, everything)
    lists: dict[str, Listing] = {}
    if kind != "lora":
        page = session.api.base_models(**chosen)
        steps = () if page.items else (ADD_ENDPOINT,)
        lists["base_models"] = _listing("Base models", page, BASE_COLUMNS, steps)
    if kind != "base":
        page = session.api.lora_models(**chosen)
        lists["lora_models"] = _listing("LoRA models", page, LORA_COLUMNS)
    if kind == "all":
        return Listings(lists, extra=session.context)
    return next(iter(lists.values()))


@app.command()
@click.argument("name")
def info(name: str) -> Detail:
    """Show one model: a trained one, or a base model by its name or path."""
    if "/" not in name:
        try:
            return _lora_detail(session.api.lora_model(name))
        except NotFound:
            pass  # most names are those of base models
    return _base_detail(session.api.base_model(name))


@app.command()
@click.argument("name", metavar="LORA_MODEL")
def deploy(name: str) -> Operation:
    """Serve a trained model, where the platform can."""
    return _deployment("deploy", session.api.deploy_model(name))


@app.command()
@click.argument("name", metavar="LORA_MODEL")
def undeploy(name: str) -> Operation:
    """Serve a trained model no longer."""
    return _deployment("undeploy", session.api.undeploy_model(name))


def _listing(
    title: str, page: Page, columns: Sequence[Column], hints: Sequence[NextStep] = ()
) -> Listing:
    return Listing(
        title=title,
        items=page.items,
        columns=columns,
        total_count=page.total_count,
        has_more=page.has_more,
        next_offset=page.next_offset,
        extra={**page.extra, **session.context},
        empty="None.",
        hints=hints,
    )


def _base_detail(model: Mapping[str, Any]) -> Detail:
    prices = [
        (label, money(model[key]))
        for label, key in (
            ("Input", "inference_input_usd_per_million_tokens"),
            ("Cached input", "inference_cached_input_usd_per_million_tokens"),
            ("Output", "inference_output_usd_per_million_tokens"),
        )
        if model.get(key) is not None
    ]
    return Detail(
        data={"base_model": dict(model), **_page_of(model), **session.context},
        rows=[
            ("Name", text(model.get("model_name"))),
            ("Model", text(model.get("base_model"))),
            ("Kind", text(model.get("namespace"))),
            *([("Address", text(model["base_url"]))] if model.get("base_url") else []),
            ("Created", moment(model.get("created_at"))),
            ("Created by", text(model.get("creator_name"))),
        ],
        sections=[Section("Price of a million tokens", prices)] if prices else [],
    )


def _lora_detail(model: Mapping[str, Any]) -> Detail:
    rows = [
        ("Name", text(model.get("model_name"))),
        ("Base model", text(model.get("base_model"))),
        ("Training run", text(model.get("training_run_name"))),
        ("Step", text(model.get("checkpoint_step"))),
        ("Reward", number(model.get("reward"))),
        ("Created", moment(model.get("created_at"))),
    ]
    if "deployment_status" in model:
        rows.append(("Deployment", text(model["deployment_status"])))
    return Detail(data={"lora_model": dict(model), **_page_of(model), **session.context}, rows=rows)


def _page_of(model: Mapping[str, Any]) -> dict[str, Any]:
    url = model.get("platform_url")
    return {"platform_url": url} if url else {}


def _deployment(action: str, model: Mapping[str, Any]) -> Operation:
    return Operation(
        operation=f"model.{action}",
        message=f"The model {model['model_name']} is {text(model.get('status'))}.",
        resource={**model, **session.context},
    )
