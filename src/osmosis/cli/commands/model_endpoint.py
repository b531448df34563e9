"""``osmosis model endpoint``: names for model servers of your own."""

from __future__ import annotations

import click

from osmosis.cli.commands.options import group, paging, paging_flags, yes_flag
from osmosis.cli.output import Column, Listing, NextStep, Operation
from osmosis.cli.output.format import text
from osmosis.cli.output.questions import confirm
from osmosis.cli.session import session

endpoint = group(
    "endpoint", "Names for OpenAI-compatible servers: vLLM, Ollama, llama.cpp, a proxy."
)


@endpoint.command()
@click.argument("name")
@click.option(
    "--base-url", metavar="URL", required=True, help="For example http://127.0.0.1:8000/v1."
)
@click.option("--model", metavar="ID", help="The model's id there (else NAME/ID in configs).")
@click.option("--api-key-secret", metavar="SECRET", help="The secret that holds its key.")
def add(name: str, base_url: str, model: str | None, api_key_secret: str | None) -> Operation:
    """Add a named endpoint, or change it."""
    body = {"name": name, "base_url": base_url}
    if model:
        body["model"] = model
    if api_key_secret:
        body["api_key_secret"] = api_key_secret
    answer = session.api.add_endpoint(body)
    steps = [
        NextStep("Use it in a config:", f'model_path = "{name if model else f"{name}/MODEL"}"')
    ]
    if api_key_secret and answer.get("api_key_stored") is False:
        steps.insert(0, NextStep("Store its key:", f"osmosis secret set {api_key_secret}"))
    return Operation(
        operation="model.endpoint.add",
        message=f"The endpoint {answer.get('name', name)} leads to {answer.get('base_url')}.",
        resource={**answer, **session.context},
        next_steps=steps,
    )


@endpoint.command("list")
@paging_flags
def list_endpoints(limit: int | None, everything: bool) -> Listing:
    """List the workspace's endpoints."""
    chosen = paging(limit, everything)
    page = session.api.endpoints(**chosen)
    return Listing(
        items=page.items,
        columns=(
            Column("Name", lambda e: text(e.get("name")), kind="name"),
            Column("Address", lambda e: text(e.get("base_url"))),
            Column("Model", lambda e: text(e.get("model"))),
            Column("Key", lambda e: text(e.get("api_key_secret"))),
        ),
        total_count=page.total_count,
        has_more=page.has_more,
        next_offset=page.next_offset,
        extra={**page.extra, **session.context},
        empty="No endpoints yet; hosted models need none.",
        hints=()
        if page.items
        else (
            NextStep(
                "Add one:",
                "osmosis model endpoint add local --base-url http://127.0.0.1:11434/v1 "
                "--model llama3.2",
            ),
        ),
    )


@endpoint.command()
@click.argument("name")
@yes_flag
def remove(name: str, yes: bool) -> Operation:
    """Remove an endpoint. Runs that were submitted keep what they have."""
    confirm(f"Remove the endpoint {name}?", yes=yes)
    session.api.remove_endpoint(name)
    return Operation(
        operation="model.endpoint.remove",
        message=f"The endpoint {name} is removed.",
        resource={"name": name, **session.context},
    )
