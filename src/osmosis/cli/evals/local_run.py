"""``eval run``: the config and the options become a local run, which is watched to its end."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
import signal
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from osmosis.cli.arguments import UsageMistake
from osmosis.cli.evals import local_view, secret_values
from osmosis.cli.evals.watch import PlainScreen, Screen
from osmosis.cli.output import Operation
from osmosis.cli.output.messages import note, show_note, warn
from osmosis.cli.output.mode import output
from osmosis.cli.output.questions import confirm
from osmosis.cli.session import session
from osmosis.wire.errors import Issue, NotFound, OsmosisError, ValidationFailed
from osmosis.wire.runner import ModelEndpoint
from osmosis.workspace.checks import path_issues
from osmosis.workspace.config import EvalConfig, load_eval_config
from osmosis.workspace.layout import config_path, shown_path
from osmosis.workspace.repository import repository_state

if TYPE_CHECKING:
    from osmosis.evaluation.local.run import Ended, LocalRun

EXTRA = "osmosis-platform[server]"
ENGINE_PACKAGES = ("litellm", "packaging", "uv")
NO_ENDPOINTS = ("replay", "scripted")
EXIT_TWICE = 130


def run(
    given: str,
    *,
    yes: bool,
    name: str | None,
    root: Path | None,
    dataset_file: Path | None,
    secrets_file: str | None,
    rows: str | None,
    fresh: bool,
    retry_failed: bool,
    max_in_flight: int | None,
    endpoints: Sequence[str],
    rollout_port: int | None,
    verbose: bool,
    advanced: Mapping[str, Any],
) -> Operation | int:
    """Prepare, ask, run, show."""
    _require_engine()
    # After the check, whose message is better than an import error.
    from osmosis.evaluation.local.dataset import open_dataset, select_rows
    from osmosis.evaluation.local.replays import find_replays
    from osmosis.evaluation.local.run import LocalRun, check_resumable
    from osmosis.evaluation.local.run_directory import (
        RunDirectory,
        check_run_name,
        new_run_name,
    )

    if fresh and retry_failed:
        raise UsageMistake("--fresh and --retry-failed exclude each other.")
    workspace = session.root
    path = config_path(workspace, given)
    shown = shown_path(workspace, path)
    config = _load(workspace, path, shown, advanced)
    dataset = open_dataset(dataset_file or _dataset_file(workspace, config))
    directory = RunDirectory(
        (root or workspace / ".osmosis" / "evals").expanduser().absolute(),
        check_run_name(name) if name else new_run_name(path),
    )
    secrets = secret_values.resolve_here(config.secrets.required, secrets_file)
    prepared = LocalRun(
        root=workspace,
        directory=directory,
        config=config,
        dataset=dataset,
        source_rows=select_rows(dataset.total_rows, rows, config.evaluation.limit),
        provenance=_provenance(workspace, config, shown),
        secrets=secrets.provided,
        endpoints=_endpoints(config, endpoints, secrets.provided),
        replays=find_replays(config, directory.root, workspace),
        in_flight=max_in_flight,
        rollout_port=rollout_port,
        retry_failed=retry_failed,
        fresh=fresh,
    )
    with directory.locked():
        if not fresh:
            check_resumable(prepared)
        show_note(local_view.plan_detail(prepared))
        if config.evaluation.limit is None and rows is None:
            note(local_view.all_rows_note(dataset))
        samples = f"{prepared.samples} sample{'' if prepared.samples == 1 else 's'}"
        confirm(f"Run {samples} on this machine?", yes=yes, default=True)
        ended = _execute(prepared, verbose=verbose)
    return local_view.operation(prepared, ended)


def _execute(prepared: LocalRun, *, verbose: bool) -> Ended:
    from osmosis.evaluation.local.run import run_locally

    async def execute() -> Ended:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()

        def interrupted() -> None:
            if stop.is_set():
                os._exit(EXIT_TWICE)  # the rollout process dies with this one
            note("\nStopping; open samples stay pending. Ctrl-C again exits at once.")
            stop.set()

        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, interrupted)
        with _screen() as screen:

            def told(level: str, step: str, message: str) -> None:
                if output.mode == "json":
                    if level == "warning":
                        warn("RUN", message)
                elif verbose or level == "warning":
                    screen.say(f"[{step}] {message}" if verbose else f"Warning: {message}")

            return await run_locally(prepared, stop, on_update=screen.update, on_log=told)

    return asyncio.run(execute())


@contextlib.contextmanager
def _screen() -> Generator[Screen]:
    if output.live:
        # Only a person at a terminal pays for this import.
        from osmosis.cli.evals.live import LiveScreen

        with LiveScreen() as screen:
            yield screen
    else:
        yield PlainScreen()


def _require_engine() -> None:
    missing = [name for name in ENGINE_PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise OsmosisError(
            f"A local run needs the engine, and {', '.join(missing)} is not installed.",
            hint=f"Install it with `pip install '{EXTRA}'`.",
            details={"missing": missing},
        )


def _load(workspace: Path, path: Path, shown: str, advanced: Mapping[str, Any]) -> EvalConfig:
    overrides = {f"advanced.{key}": value for key, value in advanced.items()}
    try:
        config = load_eval_config(path, shown=shown, overrides=overrides)
        if issues := path_issues(workspace, config):
            raise ValidationFailed(f"{shown} does not fit the workspace.", issues=issues)
    except ValidationFailed as failed:
        failed.hint = failed.hint or "Every key is explained in configs/AGENTS.md."
        raise
    return config


def _dataset_file(workspace: Path, config: EvalConfig) -> Path:
    from osmosis.evaluation.local.dataset import find_dataset_file

    name = config.experiment.dataset
    return find_dataset_file(workspace, name) or _download(workspace, name)


def _download(workspace: Path, name: str) -> Path:
    """The dataset as the platform has it, when there is a platform."""
    from osmosis.client.dataset_files import download_dataset

    folder = workspace / ".osmosis" / "datasets"
    folder.mkdir(parents=True, exist_ok=True)
    try:
        _, path = download_dataset(session.api, name, folder, overwrite=True)
    except OsmosisError as error:
        raise NotFound(
            f"There is no data/{name}.jsonl, .csv or .parquet in this workspace, and no platform "
            f"gives the dataset '{name}': {error.message}",
            hint="Name the file with --dataset-file FILE.",
        ) from None
    note(f"The dataset {name} is the platform's, as it is now.")
    return path


def _provenance(workspace: Path, config: EvalConfig, shown: str) -> dict[str, Any]:
    state = repository_state(workspace)
    known = {
        "config_branch": config.experiment.branch,
        "config_commit_sha": config.experiment.commit_sha,
        "config_path": shown,
        "advanced": config.advanced.model_dump(exclude_unset=True, exclude_none=True),
        "git_head": state.head,
        "git_branch": state.branch,
        "git_dirty": state.dirty,
    }
    return {key: value for key, value in known.items() if value is not None}


def _endpoints(
    config: EvalConfig, given: Sequence[str], values: Mapping[str, str]
) -> tuple[ModelEndpoint, ...]:
    """The named endpoints of the config: as given, else as the platform knows them."""
    found = [_given_endpoint(text, values) for text in given]
    models = [config.experiment.model_path, config.advanced.judge_model or ""]
    wanted = {model.partition("/")[0] for model in models if model}
    unknown = {name for name in wanted if _may_be_endpoint(name, found)}
    if unknown:
        found += _platform_endpoints(unknown, values)
    return tuple(found)


def _may_be_endpoint(name: str, found: Sequence[ModelEndpoint]) -> bool:
    from osmosis.evaluation.gateway.providers import PROVIDERS

    known = {endpoint.name for endpoint in found}
    return name not in NO_ENDPOINTS and name not in PROVIDERS and name not in known


def _given_endpoint(text: str, values: Mapping[str, str]) -> ModelEndpoint:
    name, equals, url = text.partition("=")
    if not equals or not name or not url.startswith(("http://", "https://")):
        raise UsageMistake(f"--endpoint {text}: write it as NAME=http://HOST:PORT/v1.")
    variable = f"{name.upper().replace('-', '_')}_API_KEY"
    key = values.get(variable) or os.environ.get(variable)
    return ModelEndpoint(name=name, base_url=url, api_key=key)


def _platform_endpoints(names: set[str], values: Mapping[str, str]) -> list[ModelEndpoint]:
    """Those that the platform knows by these names; none without a platform."""
    try:
        items = session.api.endpoints(everything=True).items
    except OsmosisError:
        return []
    found: list[ModelEndpoint] = []
    for item in items:
        if item.get("name") not in names:
            continue
        secret = item.get("api_key_secret")
        key = (values.get(secret) or os.environ.get(secret)) if secret else None
        if secret and not key:
            raise ValidationFailed(
                f"The endpoint '{item['name']}' needs the key {secret}, and it is not set here.",
                hint=secret_values.LOCAL_HINT.format(name=secret),
                issues=[Issue(key="secrets.required", message=f"add {secret}")],
            )
        found.append(
            ModelEndpoint(
                name=item["name"], base_url=item["base_url"], model=item.get("model"), api_key=key
            )
        )
    return found
