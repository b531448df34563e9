"""Waiting for a run's end, and what a command says and exits with then."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from osmosis.cli.evals.gate import Gate, verdict_section
from osmosis.cli.evals.run_view import part, run_detail
from osmosis.cli.output import Detail, Operation
from osmosis.cli.output.messages import note
from osmosis.cli.session import session
from osmosis.wire.errors import NotFound, OsmosisError
from osmosis.wire.verdict import EXIT_CODES, outcome_of_status

EXIT_INTERRUPTED = 130
_ENDED = {"finished": "finished", "failed": "failed", "stopped": "been stopped"}


def latest_run() -> str:
    """The name of the workspace's newest run."""
    page = session.api.evals(limit=1)
    if not page.items:
        raise NotFound(
            "This workspace has no runs yet.",
            hint="Start one with `osmosis eval submit configs/eval/FILE.toml`.",
        )
    return str(page.items[0]["name"])


def detail_of(document: dict[str, Any]) -> Detail:
    """The run with its metrics; a failing metrics call is told, not raised."""
    run = part(document, "eval_run")
    metrics, problem = None, None
    if run.get("status") != "pending":
        try:
            metrics = session.api.eval_metrics(str(run["id"]))
        except OsmosisError as error:
            problem = error.message
    return run_detail(document, metrics, problem, session.context)


def wait_for(
    ref: str,
    *,
    gate: Gate | None = None,
    told: Sequence[str] = (),
    timeout_s: float | None = None,
) -> Detail | None:
    """The run's detail once it has ended; its exit code is the verdict's.

    None when the user left with Ctrl-C, which does not touch the run.
    """
    # Only a command that waits needs it.
    from osmosis.cli.evals.watch import watch

    try:
        document = watch(session.api, ref, told, timeout_s)
        return _ended(document, gate)
    except KeyboardInterrupt:
        note(f"You left; the run {ref} goes on.")
        note(f"  osmosis eval watch {ref}    follows it again")
        note(f"  osmosis eval stop {ref}     stops it")
        return None


def wait_after(
    operation: Operation, name: str, *, gate: Gate | None = None, told: Sequence[str] = ()
) -> Operation | int:
    """What was started, with its results once it has ended."""
    detail = wait_for(name, gate=gate, told=told)
    if detail is None:
        return EXIT_INTERRUPTED
    status = str(part(detail.data, "eval_run").get("status"))
    operation.message = f"The run {name} has {_ENDED.get(status, status)}."
    operation.status = "success" if status == "finished" else status
    operation.resource = {**(operation.resource or {}), "status": status}
    operation.detail = detail
    operation.next_steps = ()
    operation.extra = {"result": detail.data}
    operation.exit_code = detail.exit_code
    return operation


def _ended(document: dict[str, Any], gate: Gate | None) -> Detail:
    detail = detail_of(document)
    if not gate:
        status = str(part(document, "eval_run").get("status"))
        detail.exit_code = EXIT_CODES[outcome_of_status(status)]
        return detail
    verdict = gate.judge(document)
    detail.data = {**detail.data, "verdict": verdict.body()}
    detail.sections = [*detail.sections, verdict_section(verdict)]
    detail.exit_code = verdict.exit_code
    return detail
