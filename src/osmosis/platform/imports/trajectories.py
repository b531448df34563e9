"""Whether a document is an ATIF trajectory (platform-api.md §4.4), as far as it is read here."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

SCHEMA = re.compile(r"ATIF-v1\.[0-7]")
SOURCES = ("system", "user", "agent")
AGENTS_OWN = ("model_name", "reasoning_effort", "reasoning_content", "tool_calls", "metrics")


def problem_of(document: Any) -> str | None:
    """What is wrong with it, with its place; None when nothing is."""
    return next(_problems(document), None)


def _problems(document: Any) -> Iterator[str]:
    if not isinstance(document, dict):
        yield "is not a JSON object"
        return
    version = document.get("schema_version")
    if not isinstance(version, str) or not SCHEMA.fullmatch(version):
        yield "schema_version must be ATIF-v1.0 to ATIF-v1.7"
    agent = document.get("agent")
    if not isinstance(agent, dict) or not _are_texts(agent, "name", "version"):
        yield "agent must have a name and a version"
    steps = document.get("steps")
    if not isinstance(steps, list) or not steps:
        yield "it has no steps"
        return
    for number, step in enumerate(steps, start=1):
        for problem in _problems_of_step(number, step):
            yield f"step {number}: {problem}"


def _problems_of_step(number: int, step: Any) -> Iterator[str]:
    if not isinstance(step, dict):
        yield "is not a JSON object"
        return
    if step.get("step_id") != number:
        yield f"step_id must be {number}"
    source = step.get("source")
    if source not in SOURCES:
        yield f"source must be one of {', '.join(SOURCES)}"
    if not isinstance(step.get("message"), str | list):
        yield "message must be text or a list of parts"
    if source != "agent":
        yield from (f"only an agent's step has {key}" for key in AGENTS_OWN if key in step)
    calls = step.get("tool_calls") or []
    if not isinstance(calls, list) or not all(
        isinstance(call, dict) and _are_texts(call, "tool_call_id", "function_name")
        for call in calls
    ):
        yield "tool_calls must be objects with tool_call_id and function_name"
        return
    yield from _problems_of_observation(
        step.get("observation"), {call["tool_call_id"] for call in calls}
    )


def _problems_of_observation(observation: Any, call_ids: set[str]) -> Iterator[str]:
    if observation is None:
        return
    results = observation.get("results") if isinstance(observation, dict) else None
    if not isinstance(results, list) or not all(isinstance(result, dict) for result in results):
        yield "observation must have a list of results"
        return
    for result in results:
        source = result.get("source_call_id")
        if source is not None and source not in call_ids:
            yield "an observation answers a call that the step does not make"


def _are_texts(value: dict[str, Any], *keys: str) -> bool:
    return all(isinstance(value.get(key), str) for key in keys)
