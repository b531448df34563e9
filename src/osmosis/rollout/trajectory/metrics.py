"""Numbers of model calls on agent steps, and their totals."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

CallMetrics = Mapping[str, Any]

_COUNTS = ("prompt_tokens", "completion_tokens", "cached_tokens")
_ALIASES = {"input_tokens": "prompt_tokens", "output_tokens": "completion_tokens"}
_DETAILS = ("prompt_token_ids", "completion_token_ids", "logprobs", "extra")


def usage_metrics(usage: object) -> dict[str, Any]:
    """The metrics inside a message's own ``usage`` object, whichever dialect it speaks."""
    if not isinstance(usage, Mapping):
        return {}
    found: dict[str, Any] = {}
    for key, value in usage.items():
        name = _ALIASES.get(key, key)
        if name in _COUNTS and (count := _count(value)) is not None:
            found.setdefault(name, count)
        elif name == "cost_usd" and (cost := _finite(value)) is not None:
            found[name] = cost
    return found


def apply_calls(steps: list[dict[str, Any]], calls: Sequence[CallMetrics]) -> list[dict[str, Any]]:
    """Put each call on its agent step; answers the calls when they cannot be matched."""
    agent_steps = [step for step in steps if step["source"] == "agent"]
    if len(agent_steps) != len(calls):
        return [_present(call) for call in calls]
    for step, call in zip(agent_steps, calls, strict=True):
        numbers = _present(call)
        name = numbers.pop("model_name", None)
        if name is not None:
            step["model_name"] = name
        if numbers:
            step["metrics"] = {**step.get("metrics", {}), **numbers}
        step["llm_call_count"] = 1
    return []


def totals(steps: Iterable[Mapping[str, Any]], calls: Sequence[CallMetrics]) -> dict[str, Any]:
    """Sums over the calls, or over what the steps say themselves when no call is known."""
    steps = list(steps)
    sources = calls or [step["metrics"] for step in steps if "metrics" in step]
    sums: dict[str, Any] = {}
    for name in (*_COUNTS, "cost_usd"):
        values = [source[name] for source in sources if source.get(name) is not None]
        if values:
            sums[f"total_{name}"] = sum(values)
    return {**sums, "total_steps": len(steps)}


def _present(call: CallMetrics) -> dict[str, Any]:
    known = (*_COUNTS, "cost_usd", "model_name", *_DETAILS)
    return {name: call[name] for name in known if call.get(name) is not None}


def _count(value: object) -> int | None:
    number = _finite(value)
    return int(number) if number is not None and number >= 0 and number == int(number) else None


def _finite(value: object) -> float | int | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return value
