"""One run for people: the documented order of fields, then configuration, then results."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from osmosis.cli.evals.certainty_view import certainty_rows, curve_text, spread_sections
from osmosis.cli.evals.histogram_view import histogram_section
from osmosis.cli.output import Detail, NextStep, Section
from osmosis.cli.output.format import (
    NOTHING,
    count,
    moment,
    money,
    name_of,
    number,
    parse_time,
    percent,
    plural,
    seconds,
    text,
)
from osmosis.workspace.advanced_keys import ADVANCED_KEYS

TERMINAL = ("finished", "failed", "stopped")
CONFIG_ORDER = (
    "limit",
    "n",
    "batch_size",
    "pass_threshold",
    "agent_workflow_timeout_s",
    "grader_timeout_s",
)
SCOPE_LABELS = {
    "user": "personal",
    "user_override": "personal, overrides workspace",
    "provided": "this run only",
}

Document = Mapping[str, Any]
Rows = list[tuple[str, str]]


def run_detail(
    document: Document,
    metrics: Document | None,
    metrics_error: str | None,
    context: Mapping[str, Any],
) -> Detail:
    """``eval info``: the JSON payload and what people see."""
    run = part(document, "eval_run")
    data = {
        "eval_run": run,
        "summary": summary(run, document.get("results"), document.get("config")),
        "config": document.get("config"),
        "results": document.get("results"),
        "model": part(document, "config").get("model_path"),
        "dataset": _name_or_none(document.get("dataset")),
        "rollout": _name_or_none(document.get("rollout")),
        "entrypoint": document.get("entrypoint"),
        "commit_sha": document.get("commit_sha"),
        "branch": document.get("branch"),
        "env_config": document.get("env_config"),
        "resolved_secret_scopes": document.get("resolved_secret_scopes"),
        "dataset_df_stats": document.get("dataset_df_stats"),
        "metrics": metrics,
        "metrics_available": metrics is not None,
        "metrics_error": metrics_error,
        "output_path": None,
        "save_warning": None,
        "selection": document.get("selection"),
        "effective": document.get("effective"),
        **({"replays": document["replays"]} if document.get("replays") else {}),
        "budget": document.get("budget"),
        **({"regrade": document["regrade"]} if document.get("regrade") else {}),
        "error": document.get("error"),
        **context,
    }
    sections = [Section("Configuration", rows=_configuration(document)), *_results(document)]
    return Detail(
        data=data,
        rows=_facts(document),
        sections=sections,
        hints=hints(document),
    )


def hints(document: Document) -> list[NextStep]:
    """What to do next, by the state of the run."""
    run = part(document, "eval_run")
    name = text(run.get("name"))
    steps: list[NextStep] = []
    if run.get("platform_url"):
        steps.append(NextStep("View:", str(run["platform_url"])))
    budget = part(document, "budget")
    if run.get("stop_reason") == "budget" and budget:
        flag = ADVANCED_KEYS[next(iter(budget))].flag
        command = f"osmosis eval retry {name}{_regrading(document)} {flag} N"
        steps.append(NextStep("Go on with a higher one:", command))
    elif run.get("status") == "failed":
        steps.append(NextStep("See what happened:", f"osmosis eval logs {name}"))
    elif run.get("status") not in TERMINAL:
        steps.append(NextStep("Follow it:", f"osmosis eval watch {name}"))
        steps.append(NextStep("Stop it:", f"osmosis eval stop {name}"))
    return steps


def summary(run: Document, results: Any, config: Any) -> dict[str, Any]:
    """The score and the progress as list and detail show them."""
    answer: dict[str, Any] = {}
    results = results if isinstance(results, Mapping) else {}
    if isinstance(results.get("score"), int | float):
        answer["reward"] = results["score"]
    done, total = progress(results, config)
    if total:
        answer["progress"] = {"completed": min(done, total), "total": total, "unit": "samples"}
    return answer


def progress(results: Any, config: Any) -> tuple[int, int | None]:
    """Samples done and planned; planned is None while nobody knows."""
    results = results if isinstance(results, Mapping) else {}
    done = int(results.get("total_runs") or 0)
    rows = results.get("sampled_rows")
    if not rows:
        return done, None
    runs = config.get("n") if isinstance(config, Mapping) else None
    return done, max(int(rows) * int(runs or 1), done)


def status_text(run: Document) -> str:
    """The status, with the stage while it is under way."""
    status = text(run.get("status"))
    if run.get("stop_requested") and status not in TERMINAL:
        return f"{status} (stopping)"
    stage = run.get("stage")
    return (
        f"{status} ({stage})" if status == "running" and stage not in (None, "running") else status
    )


def run_seconds(run: Document) -> float | None:
    """From the start to the end, or to now."""
    started = parse_time(run.get("started_at"))
    if started is None:
        return None
    ended = parse_time(run.get("completed_at")) or datetime.now(UTC)
    return max((ended - started).total_seconds(), 0.0)


def error_text(document: Document) -> tuple[str | None, str | None]:
    """Why a run ended early, and the remedy."""
    error = document.get("error") or part(document, "eval_run").get("error")
    if isinstance(error, Mapping):
        return text(error.get("message")), error.get("hint")
    return (error, None) if isinstance(error, str) else (None, None)


def part(document: Document, key: str) -> Document:
    value = document.get(key)
    return value if isinstance(value, Mapping) else {}


def _facts(document: Document) -> Rows:
    run, results = part(document, "eval_run"), part(document, "results")
    done, total = progress(results, document.get("config"))
    shown_progress = f"{done:,} / {total:,} samples" if total else plural(done, "sample")
    if run.get("status") == "pending" and not done:
        shown_progress = "Waiting to start..."
    if results.get("partial"):
        shown_progress += " (partial: the numbers cover only these)"
    rows: Rows = [
        ("Name", text(run.get("name"))),
        ("Status", status_text(run)),
    ]
    message, hint = error_text(document)
    if message:
        rows.append(("Error", message))
    if hint:
        rows.append(("Remedy", hint))
    if run.get("origin") == "local":
        rows.append(("Origin", "a local run, imported"))
    if run.get("stop_reason"):
        rows.append(("Stopped because", text(run.get("stop_message") or run["stop_reason"])))
    model = text(part(document, "config").get("model_path"))
    if model.startswith("scripted/"):
        model += " (scripted)"
    if model.startswith("replay/") and (replays := document.get("replays")):
        model += f" (replay: answers of {replays[0]['model_path']})"
    return [
        *rows,
        ("Progress", shown_progress),
        ("Duration", seconds(run_seconds(run))),
        ("Pass rate", percent(results.get("pass_rate")) if done else "-"),
        ("Tokens used", count(results.get("total_tokens"))),
        ("Submitted", moment(run.get("created_at"))),
        ("Submitted by", text(run.get("creator_name"))),
        ("Started", moment(run.get("started_at"))),
        ("Completed", moment(run.get("completed_at"))),
        ("Dataset", name_of(document.get("dataset"))),
        ("Model", model),
        ("Rollout", name_of(document.get("rollout"))),
    ]


def _configuration(document: Document) -> Rows:
    config, effective = part(document, "config"), part(document, "effective")
    rows: Rows = [
        ("Entrypoint", text(document.get("entrypoint"))),
        ("Config", _config_text(config)),
    ]
    selection = part(document, "selection")
    if selection:
        rows.append(("Rows", _selection_text(selection)))
    if effective.get("in_flight"):
        rows.append(("Samples in flight", _in_flight(effective)))
    if limits := part(effective, "call_limits"):
        rows.append(("Limits", _limits(limits)))
    if budget := part(document, "budget"):
        rows.append(("Budget", _budget(budget)))
    rows += [
        ("Branch", text(document.get("branch"))),
        ("Commit", text(document.get("commit_sha"))[:7]),
        *_graded_by(document),
        ("Secrets", _secrets_text(part(document, "resolved_secret_scopes"))),
        ("Env vars", _pairs(part(document, "env_config"))),
    ]
    if effective.get("sdk"):
        rows.append(("SDK", text(effective["sdk"])))
    if effective.get("sandbox"):
        rows.append(("Sandbox", text(effective["sandbox"])))
    if limits := part(effective, "limits"):
        rows.append(("Time limits", ", ".join(_limit(*item) for item in limits.items())))
    return rows


def _graded_by(document: Document) -> Rows:
    """The grader that stored samples were graded again by."""
    regrade = part(document, "regrade")
    if not regrade:
        return []
    commit, branch = text(regrade.get("commit_sha"))[:7], regrade.get("branch")
    where = f" of {branch}" if branch else ""
    samples = plural(int(regrade.get("samples") or 0), "stored sample")
    return [("Graded again", f"{samples}, by {commit}{where}")]


def _regrading(document: Document) -> str:
    """The options that go on with the grading that the run was stopped in, and not with its
    samples."""
    regrade = part(document, "regrade")
    if not regrade:
        return ""
    commit = regrade.get("commit_sha")
    other = commit and commit != document.get("commit_sha")
    return " --regrade" + (f" --commit-sha {commit}" if other else "")


def _exactly(threshold: Any) -> str:
    return f"{threshold:.10g}" if isinstance(threshold, int | float) else NOTHING


def _limit(name: str, limit_s: Any) -> str:
    return f"{name.removesuffix('_s')} {limit_s:g} s"


def _results(document: Document) -> list[Section]:
    results = part(document, "results")
    if not results.get("total_runs"):
        return []
    rows: Rows = [
        ("Samples", _counts(results)),
        ("Pass threshold", _exactly(results.get("pass_threshold"))),
    ]
    if results.get("infrastructure_failures"):
        clean = percent(results.get("clean_pass_rate"))
        failures = plural(int(results["infrastructure_failures"]), "infrastructure failure")
        rows.append(("Pass rate without", f"{failures}: {clean}"))
    stats = part(results, "reward_stats")
    if stats:
        names = ("mean", "std", "min", "median", "max")
        rows.append(("Reward", "  ".join(f"{n} {number(stats.get(n))}" for n in names)))
        points = part(stats, "pass_at_k")
        if points:
            rows.append(("Pass@k", curve_text(points)))
    rows += certainty_rows(results)
    if results.keys() & {"cost_usd", "samples_with_unknown_cost"}:  # a local run keeps no costs
        rows.append(("Cost", _cost(results)))
    if results.get("saved_calls"):
        rows.append(("Saved", _saved(results)))
    if results.get("lost_calls"):
        lost = plural(int(results["lost_calls"]), "model call")
        rows.append(("Beside it", f"up to {lost} may be charged that no sample shows"))
    sections = [Section("Results", rows=rows)]
    if part(results, "histogram"):
        bars = histogram_section(part(results, "histogram"), int(results.get("passed") or 0))
        sections += [bars] if bars else []
    errors = part(results, "errors")
    if errors:
        counted = [(str(kind), plural(int(amount), "sample")) for kind, amount in errors.items()]
        sections.append(Section("Errors", rows=counted))
    return [*sections, *spread_sections(results)]


def _counts(results: Document) -> str:
    names = ("graded", "passed", "failed", "skipped")
    return ", ".join(f"{count(results.get(n) or 0)} {n}" for n in names)


def _cost(results: Document) -> str:
    unknown = int(results.get("samples_with_unknown_cost") or 0)
    if results.get("cost_usd") is None:
        return "unknown"
    shown = money(results["cost_usd"])
    return f"{shown} and {plural(unknown, 'sample')} of unknown cost" if unknown else shown


def _saved(results: Document) -> str:
    calls = plural(int(results["saved_calls"]), "call")
    known = results.get("saved_usd")
    amount = "an unknown amount" if known is None else money(known)
    if known is not None and results.get("samples_with_unknown_saving"):
        amount = f"more than {amount}"
    return f"{amount}: {calls} answered without a model"


def _config_text(config: Document) -> str:
    known = [key for key in CONFIG_ORDER if config.get(key) is not None]
    others = [key for key in config if key not in CONFIG_ORDER and key != "model_path"]
    pairs: list[str] = []
    for key in [*known, *others]:
        value = config[key]
        if isinstance(value, Mapping):
            pairs += [f"{name}={_plain(v)}" for name, v in value.items() if v is not None]
        elif value is not None:
            pairs.append(f"{key}={_plain(value)}")
    return ", ".join(pairs) or "-"


def _plain(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _selection_text(selection: Document) -> str:
    selected, total = selection.get("selected_rows"), selection.get("total_rows")
    if selected == total:
        return f"all {count(total)}"
    if selection.get("kind") == "first":
        return f"the first {count(selected)} of {count(total)}"
    if selection.get("kind") == "chosen":
        return f"{count(selected)} chosen ones of {count(total)}"
    seed = selection.get("seed")
    drawn = f", seed {seed}" if seed is not None else ""
    return f"{count(selected)} of {count(total)} at random{drawn}"


def _limits(limits: Document) -> str:
    return (
        f"{limits.get('calls_at_once')} calls at once, {limits.get('max_retries')} retries in "
        f"{_plain(limits.get('max_retry_s'))} s"
    )


def _budget(budget: Document) -> str:
    """What is spent of what is allowed, each budget by its key."""
    shown: list[str] = []
    for key, amounts in budget.items():
        form = money if key == "max_cost_usd" else count
        if isinstance(amounts, Mapping):
            spent, allowed = form(amounts.get("spent")), form(amounts.get("allowed"))
            shown.append(f"{key}: {spent} of {allowed} spent")
    return ", ".join(shown)


def _in_flight(effective: Document) -> str:
    batch, capacity = effective.get("batch_size"), effective.get("advertised_max_concurrent")
    shards = effective.get("shards")
    shown = text(effective.get("in_flight"))
    if isinstance(shards, int) and shards > 1:
        shown += f", in {shards} shards"
    if isinstance(capacity, int) and isinstance(batch, int) and capacity < batch:
        return f"{shown} (batch_size {batch}, but the rollout takes {capacity} at once)"
    return shown


def _secrets_text(scopes: Document) -> str:
    pairs = [f"{name} ({SCOPE_LABELS.get(scope, scope)})" for name, scope in scopes.items()]
    return ", ".join(pairs) or "-"


def _pairs(values: Document) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items()) or "-"


def _name_or_none(reference: Any) -> str | None:
    name = name_of(reference)
    return None if name == "-" else name
