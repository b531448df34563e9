"""``osmosis eval retry``: the failed and skipped samples of an ended run once more, or all stored
ones graded again."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from osmosis.cli.evals.secret_values import resolve_here
from osmosis.cli.output import NextStep, Operation
from osmosis.cli.output.format import plural
from osmosis.cli.session import session
from osmosis.wire.errors import OsmosisError, ValidationFailed


def retry(
    name: str, secrets_file: str | None, limits: Mapping[str, Any] | None = None
) -> Operation:
    """Ask the platform; values that only the run knew are given anew."""
    return _operation(_asked(name, secrets_file, advanced=limits))


def regrade(
    name: str,
    secrets_file: str | None,
    branch: str | None,
    commit_sha: str | None,
    limits: Mapping[str, Any] | None = None,
) -> Operation:
    """As :func:`retry`, for a new grading of what is stored."""
    options = {"regrade": True, "branch": branch, "commit_sha": commit_sha}
    answer = _asked(name, secrets_file, advanced=limits, **options)
    operation = _operation(answer)
    grader = str((answer.get("regrade") or {}).get("commit_sha") or "")[:7]
    samples = plural(int(answer.get("retryable_samples") or 0), "stored sample")
    operation.message = f"{samples} of the run {name} are graded again, by commit {grader}."
    operation.resource = {**(operation.resource or {}), "regrade": answer.get("regrade")}
    return operation


def _asked(name: str, secrets_file: str | None, **options: Any) -> Mapping[str, Any]:
    try:
        return session.api.retry_eval(name, **options)
    except OsmosisError as error:
        local = error.details.get("local_run")
        if isinstance(local, Mapping):
            raise _runs_elsewhere(name, local) from None
        needed = error.details.get("run_secret_names")
        if not isinstance(needed, list) or not needed:
            raise
        secrets = resolve_here([str(item) for item in needed], secrets_file).provided
        return session.api.retry_eval(name, secrets, **options)


def _operation(answer: Mapping[str, Any]) -> Operation:
    name, samples = str(answer["name"]), answer.get("retryable_samples")
    steps = [NextStep("Follow it:", f"osmosis eval watch {name}")]
    if answer.get("platform_url"):
        steps.append(NextStep("View:", str(answer["platform_url"])))
    # A run that recorded no sample at all has zero of them, and goes from the start.
    what = plural(samples, "sample") if samples else "from the start"
    if not samples and answer.get("resumed_count"):
        what = "every sample is graded already, and its numbers are summed up"
    return Operation(
        operation="eval.retry",
        message=f"The run {name} goes on: {what}.",
        resource={
            "id": answer["id"],
            "name": name,
            "status": answer["status"],
            "workflow_id": answer.get("workflow_id"),
            "retryable_samples": samples,
            "platform_url": answer.get("platform_url"),
            **session.context,
        },
        next_steps=steps,
    )


def _runs_elsewhere(name: str, local: Mapping[str, Any]) -> ValidationFailed:
    config = local.get("config_path")
    shown = shlex.quote(str(config)) if config else "CONFIG"
    run = shlex.quote(str(local.get("eval_run_name") or name))
    return ValidationFailed(
        f"The run {name} ran on somebody's machine and was uploaded; it is retried there.",
        hint=f"Run `osmosis eval run {shown} --name {run} --retry-failed --upload` there.",
    )
