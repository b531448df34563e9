"""What a submit will do, for the person who is about to agree to it."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Mapping
from typing import Any

from osmosis.cli.evals.secret_values import scope_label
from osmosis.cli.output import Detail, Section
from osmosis.cli.output.format import count, money, plural
from osmosis.workspace.config import EvalConfig

CHARS_PER_TOKEN = 4
SCRIPTED_PREFIX = "scripted/"
PRICELESS = (SCRIPTED_PREFIX, "replay/", "openrouter/")
"""They cost nothing, or tell the cost of each call themselves."""
REPLAY_PREFIX = "replay/"

Rows = list[tuple[str, str]]


def plan_detail(
    config: EvalConfig, plan: Mapping[str, Any] | None, scopes: Mapping[str, str]
) -> Detail:
    """The plan as tables. Without one (the platform gave none) the config speaks alone."""
    experiment = config.experiment
    rows: Rows = [
        ("Rollout", experiment.rollout),
        ("Entrypoint", experiment.entrypoint),
        ("Model", model_text(experiment.model_path, _replayed(plan))),
        ("Dataset", experiment.dataset),
        ("Code", _code(config, plan)),
        ("Rows", _rows(config, plan)),
        ("Samples", _samples(config, plan)),
        ("Limits", _limits(config)),
    ]
    if advanced := config.advanced.model_dump(exclude_unset=True, exclude_none=True):
        rows.append(("Advanced", ", ".join(f"{key}={value}" for key, value in advanced.items())))
    rows += cache_rows(config)
    rows.append(("Cost", cost_text(config, plan)))
    sections: list[Section] = []
    if config.env:
        sections.append(Section(f"Env vars ({len(config.env)})", rows=list(config.env.items())))
    if scopes:
        shown = [(name, scope_label(scope)) for name, scope in scopes.items()]
        sections.append(Section(f"Secrets ({len(scopes)})", rows=shown))
    return Detail(data={}, rows=rows, title="Evaluation run", sections=sections)


def cost_text(config: EvalConfig, plan: Mapping[str, Any] | None) -> str:
    """A rough cost. Answers cannot be foreseen, so their price stands beside the prompts' sum."""
    model = config.experiment.model_path
    if model.startswith(SCRIPTED_PREFIX):
        return "none (a scripted model)"
    if model.startswith(REPLAY_PREFIX):
        judge = config.advanced.judge_model or REPLAY_PREFIX
        return "none (a replay)" if judge.startswith(REPLAY_PREFIX) else "the judge's calls alone"
    rates = _rates(model)
    if rates is None or plan is None:
        return "unknown (no price is known for this model)"
    per_answer = f"answers {money(rates['output_usd_per_million_tokens'])} per million tokens"
    chars = plan.get("prompt_chars_estimate")
    if not isinstance(chars, int | float):
        return f"unknown; {per_answer}"
    prompts = chars / CHARS_PER_TOKEN * rates["input_usd_per_million_tokens"] / 1e6
    return f"roughly {money(prompts)} for one prompt a sample; {per_answer}"


def budget_warnings(config: EvalConfig) -> list[str]:
    """A cost budget that will be refused, for nobody knows what a model costs."""
    if config.advanced.max_cost_usd is None or importlib.util.find_spec("litellm") is None:
        return []
    models = {config.experiment.model_path, config.advanced.judge_model or SCRIPTED_PREFIX}
    unknown = [m for m in sorted(models) if not m.startswith(PRICELESS) and _rates(m) is None]
    return [
        f"max_cost_usd is set, but no price is known for {model}: the run will be refused. Set "
        "max_total_tokens instead."
        for model in unknown
    ]


def _rates(model: str) -> dict[str, float] | None:
    # The price list comes with the extra [server]; without it the price is unknown.
    try:
        from osmosis.evaluation.gateway.prices import price_of
    except ImportError:
        return None
    price = asyncio.run(price_of(model))
    return price.describe() if price else None


def model_text(path: str, replayed: str | None = None) -> str:
    """A model's name with what people must know of it; ``replayed``: the replayed run's model."""
    if path.startswith(SCRIPTED_PREFIX):
        return f"{path} (scripted: answers from a file)"
    if path.startswith(REPLAY_PREFIX):
        of = f" of {replayed}" if replayed else ""
        return f"{path} (replay: answers{of} as kept by that run; no model is asked)"
    return path


def cache_rows(config: EvalConfig) -> Rows:
    """A line about the response cache, when the config asks for it."""
    return [("Cache", "on: calls that were answered before cost nothing")] * config.advanced.cache


def _replayed(plan: Mapping[str, Any] | None) -> str | None:
    replays = (plan or {}).get("replays") or []
    return str(replays[0]["model_path"]) if replays else None


def _code(config: EvalConfig, plan: Mapping[str, Any] | None) -> str:
    experiment = config.experiment
    if plan and plan.get("commit_sha"):
        commit = str(plan["commit_sha"])[:7]
        return f"{commit} of {plan['branch']}" if plan.get("branch") else commit
    return experiment.commit_sha or experiment.branch or "the default branch"


def _rows(config: EvalConfig, plan: Mapping[str, Any] | None) -> str:
    limit = config.evaluation.limit
    if plan is None:
        return f"the first {limit:,}" if limit else "a random 10 %, at least one"
    selected, total = int(plan.get("selected_rows", 0)), int(plan.get("total_rows", 0))
    if selected == total:
        return f"all {total:,}"
    if limit:
        return f"the first {selected:,} of {total:,}"
    seed = config.advanced.sample_seed
    how = "random 10 %" if seed is None else f"random 10 %, seed {seed}"
    return f"{selected:,} of {total:,} ({how})"


def _samples(config: EvalConfig, plan: Mapping[str, Any] | None) -> str:
    n, batch = config.evaluation.n, config.evaluation.batch_size
    at_once = f"{batch} at once" if batch > 1 else "one after the other"
    if plan is None:
        return f"{plural(n, 'run')} of each row, {at_once}"
    samples = int(plan.get("samples", 0))
    if n == 1:
        return f"{count(samples)}, {at_once}"
    return f"{count(samples)} ({plan.get('selected_rows'):,} rows × {n} runs), {at_once}"


def _limits(config: EvalConfig) -> str:
    evaluation = config.evaluation
    return (
        f"workflow {evaluation.agent_workflow_timeout_s:g} s, "
        f"grader {evaluation.grader_timeout_s:g} s, "
        f"passes at reward ≥ {evaluation.pass_threshold:g}"
    )
