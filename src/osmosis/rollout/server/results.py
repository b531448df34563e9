"""A rollout's result as it travels: strict JSON, whatever user code put into the sample."""

from __future__ import annotations

import json
from typing import Any

import orjson

from osmosis.rollout.json_values import json_safe, readable_json
from osmosis.rollout.types.sample import RolloutSample
from osmosis.rollout.types.status import RolloutErrorCategory, RolloutStatus

JSON_OPTIONS = orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY


def result_body(
    rollout_id: str,
    status: RolloutStatus,
    sample: RolloutSample | None = None,
    err_message: str | None = None,
    err_category: RolloutErrorCategory | None = None,
    *,
    trajectory: str | None = None,
    workflow_metrics: dict[str, Any] | None = None,
) -> bytes:
    """The body of ``GET /rollout/{id}/result``.

    The reward travels only with a success that is not removed. A sample that cannot be expressed
    in JSON shrinks to its reward, label and removal, so that the grade is never lost.
    """
    body: dict[str, Any] = {
        "rollout_id": rollout_id,
        "status": status.value,
        "sample": None,
        "err_message": err_message,
        "err_category": None if err_category is None else err_category.value,
    }
    if trajectory is not None:
        body["trajectory"] = trajectory
    if workflow_metrics:
        body["workflow_metrics"] = json_safe(workflow_metrics)
    if sample is None:
        return dumps(body)
    removed = bool(sample.remove_sample)
    earned = status is RolloutStatus.SUCCESS and not removed
    grade = {
        "label": sample.label,
        "reward": sample.reward if earned else None,
        "remove_sample": removed,
    }
    body["sample"] = {
        "messages": sample.messages,
        **grade,
        "metrics": json_safe(sample.metrics),
        "extra_fields": json_safe(sample.extra_fields),
    }
    try:
        return dumps(body)
    except (TypeError, ValueError, RecursionError):
        body["sample"] = {"messages": [], **grade, "metrics": {}, "extra_fields": {}}
        return dumps(body)


def dumps(value: Any) -> bytes:
    """Strict JSON text; an object that JSON does not know raises ``TypeError``."""
    try:
        return orjson.dumps(value, option=JSON_OPTIONS)
    except TypeError:
        # Integers beyond 64 bits and lone surrogates are the ones that orjson cannot write.
        return json.dumps(readable_json(value), allow_nan=False).encode()
