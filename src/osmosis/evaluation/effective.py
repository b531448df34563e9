"""The limits and parts an evaluation really runs with, as shown to people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from osmosis.evaluation.deadlines import Deadlines
from osmosis.evaluation.parts import EnvironmentPart, RolloutPart
from osmosis.evaluation.plan import EvaluationPlan, Sink, calls_allowed
from osmosis.evaluation.redaction import MIN_SECRET_CHARS, is_too_short
from osmosis.evaluation.sandbox import choose_sandbox

MANY_SAMPLES = 20
"""From here on a run one sample at a time deserves a hint."""


def run_in_flight(plan: EvaluationPlan, advertised: int | None) -> int:
    """The most samples in flight in the whole run."""
    return plan.batch_size if advertised is None else min(plan.batch_size, advertised)


def samples_in_flight(plan: EvaluationPlan, advertised: int | None) -> int:
    """This evaluation's share of them, so that all rollout processes of the run together take no
    more than the rollout advertises."""
    return max(1, plan.slice.share(run_in_flight(plan, advertised)))


def effective_values(
    plan: EvaluationPlan,
    process: RolloutPart,
    environment: EnvironmentPart,
    model: Mapping[str, Any],
) -> dict[str, Any]:
    """For ``Sink.effective``: plain JSON, no secret, the same in every slice of a run."""
    advertised = process.max_concurrent
    deadlines = Deadlines.of(plan)
    return {
        "batch_size": plan.batch_size,
        "advertised_max_concurrent": advertised,
        "in_flight": run_in_flight(plan, advertised),
        "shards": plan.slice.count,
        "agent_workflow_timeout_s": plan.agent_workflow_timeout_s,
        "grader_timeout_s": plan.grader_timeout_s,
        "sample_deadline_s": deadlines.sample_s,
        "limits": deadlines.described(),
        "pass_threshold": plan.pass_threshold,
        "n": plan.n,
        "call_limits": {
            "calls_at_once": calls_allowed(plan),
            "max_retries": plan.advanced.max_retries,
            "max_retry_s": plan.advanced.max_retry_s,
            "max_tokens": plan.advanced.max_tokens,
            "max_total_tokens": plan.advanced.max_total_tokens,
            "max_cost_usd": plan.advanced.max_cost_usd,
        },
        "advanced": plan.advanced.model_dump(exclude_none=True),
        "model": dict(model),
        "sandbox": choose_sandbox().describe(plan.advanced.network),
        "sdk": environment.sdk,
        "environment": {"key": environment.key, "cached": environment.cached},
    }


def warn_about_limits(plan: EvaluationPlan, advertised: int | None, sink: Sink) -> None:
    """Say what holds the run back, and how to change it."""
    if advertised is not None and advertised < plan.batch_size:
        sink.log(
            "warning",
            "limits",
            f"The rollout takes {advertised} samples at once, so batch_size = {plan.batch_size} "
            f"is cut to {advertised}. To raise it, give LocalBackend a workflow_config with "
            f"concurrency=ConcurrencyConfig(max_concurrent={plan.batch_size}).",
            {"batch_size": plan.batch_size, "advertised_max_concurrent": advertised},
        )
    samples = plan.selected_rows * plan.n
    if plan.batch_size == 1 and samples >= MANY_SAMPLES:
        sink.log(
            "info",
            "limits",
            f"{samples} samples run one after the other because batch_size is 1. Set a higher "
            "[evaluation] batch_size to run several at once.",
            {"batch_size": 1, "samples": samples},
        )


def warn_about_short_secrets(plan: EvaluationPlan, sink: Sink) -> None:
    """Name the secrets whose values are too short to be taken out of anything."""
    short = sorted(name for name, value in plan.secrets.items() if is_too_short(value))
    if short:
        sink.log(
            "warning",
            "limits",
            f"{', '.join(short)}: a value of fewer than {MIN_SECRET_CHARS} characters cannot be "
            "told from ordinary text, and is not redacted from what the run prints and returns.",
            {"secrets": short},
        )
