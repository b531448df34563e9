"""One sample for people: what it scored, the conversation, the grading, its model calls."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from osmosis.cli.evals.run_view import part
from osmosis.cli.output import Detail, NextStep, Section
from osmosis.cli.output.format import count, milliseconds, money, number, text

Item = Mapping[str, Any]
ROLES = {"agent": "assistant"}


def sample_detail(run: str, sample: Item, pass_threshold: float, context: Item) -> Detail:
    """``eval show``: the JSON payload and what people see."""
    place = f"{sample['row_index']}/{sample['run_index']}"
    hints: list[NextStep] = []
    if sample.get("next_from") is not None:
        command = f"osmosis eval show {run} {place} --from {sample['next_from']}"
        hints.append(NextStep("Further steps:", command))
    sections = [_section(step) for step in _items(sample.get("steps"))]
    if not sections:
        sections.append(Section("Conversation", lines=["The rollout returned none."]))
    for title, rows in (("Grading", _grading(sample)), ("Model calls", _calls(sample))):
        if rows:
            sections.append(Section(title, rows=rows))
    if sample.get("output"):
        sections.append(Section("Printed", lines=str(sample["output"]).splitlines()))
    return Detail(
        data={**sample, "run": run, **context},
        rows=_facts(run, sample, pass_threshold),
        sections=sections,
        hints=hints,
    )


def _facts(run: str, sample: Item, pass_threshold: float) -> list[tuple[str, str]]:
    reward = sample.get("reward")
    rows = [
        ("Run", run),
        ("Sample", f"row {sample['row_index']}, run {sample['run_index']}"),
        ("Source row", text(sample.get("source_row"))),
        ("Status", text(sample.get("status"))),
    ]
    if reward is not None:
        passed = "passed" if reward >= pass_threshold else "not passed"
        rows.append(("Reward", f"{number(reward)} ({passed})"))
    if sample.get("error_type"):
        rows.append(("Error", f"{sample['error_type']}: {text(sample.get('error_message'))}"))
    rows += [
        ("Duration", milliseconds(sample.get("duration_ms"))),
        ("Tokens", count(sample.get("tokens"))),
        ("Cost", money(sample.get("cost_usd"))),
    ]
    if int(sample.get("tries") or 1) > 1:
        rows.append(("Tries", text(sample["tries"])))
    if sample.get("artifacts"):
        rows.append(("Artifacts", ", ".join(map(str, sample["artifacts"]))))
    return rows


def _section(step: Item) -> Section:
    """A step of the trajectory: who speaks, thinks, calls which tools, and what they answer."""
    role = str(step.get("source", "user"))
    title = f"[{step.get('step_id', '?')}] {ROLES.get(role, role)}"
    tokens = part(step, "metrics").get("completion_tokens")
    if isinstance(tokens, int):
        title += f", {tokens:,} tokens"
    lines: list[str] = []
    if step.get("reasoning_content"):
        lines += [f"(thinks) {line}" for line in _lines(step["reasoning_content"])]
    lines += _lines(step.get("message"))
    for call in _items(step.get("tool_calls")):
        arguments = json.dumps(call.get("arguments"), ensure_ascii=False)
        lines.append(f"-> {call.get('function_name', '?')}({arguments})")
    for result in _items(part(step, "observation").get("results")):
        lines += [f"<- {line}" for line in _lines(result.get("content"))]
    return Section(title, lines=lines)


def _grading(sample: Item) -> list[tuple[str, str]]:
    """What the grader went by and what it noted."""
    about = part(part(part(sample, "trajectory"), "extra"), "osmosis")
    rows: list[tuple[str, str]] = []
    if about.get("label") is not None:
        rows.append(("Label", text(about["label"])))
    metrics = part(sample, "metrics") or part(about, "sample_metrics")
    rows += [(str(name), number(value)) for name, value in metrics.items()]
    notes = part(about, "sample_extra_fields")
    rows += [(str(name), _shown(value)) for name, value in notes.items()]
    return rows


def _calls(sample: Item) -> list[tuple[str, str]]:
    calls = _items(sample.get("calls"))
    rows = [(f"{i} {call.get('route', 'policy')}", _call(call)) for i, call in enumerate(calls, 1)]
    hidden = int(sample.get("call_count") or 0) - len(rows)
    return [*rows, ("", f"and {hidden:,} more")] if hidden > 0 and rows else rows


def _call(call: Item) -> str:
    latency_s, queue_s = call.get("latency_s"), float(call.get("queue_s") or 0)
    took = milliseconds(None if latency_s is None else latency_s * 1000)
    parts = [text(call.get("model")), took]
    if call.get("prompt_tokens") is not None or call.get("completion_tokens") is not None:
        spent = (count(call.get(key)) for key in ("prompt_tokens", "completion_tokens"))
        parts.append(" + ".join(spent) + " tokens")
    parts.append(money(call.get("cost_usd")))
    if call.get("cached") or call.get("replayed"):
        source = "from the cache" if call.get("cached") else "replayed"
        parts.append(f"{source}, saved {money(call.get('saved_usd'))}")
    if queue_s >= 0.05:
        parts.append(f"queued {milliseconds(queue_s * 1000)}")
    if call.get("error_kind"):
        parts.append(f"{call['error_kind']}: {text(call.get('error_message'))}")
    return ", ".join(parts)


def _lines(content: Any) -> list[str]:
    """The lines of a message: text, or parts of which only text can be shown."""
    if content is None or content == "":
        return []
    if isinstance(content, list):
        return [line for piece in content for line in _lines(_text_of(piece))]
    return (content if isinstance(content, str) else _shown(content)).splitlines() or [""]


def _text_of(piece: Any) -> str:
    if isinstance(piece, Mapping) and isinstance(piece.get("text"), str):
        return piece["text"]
    kind = piece.get("type", "part") if isinstance(piece, Mapping) else "part"
    return f"[{kind}]"


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _items(value: Any) -> Iterable[Item]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []
