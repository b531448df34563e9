"""Bodies that arrive, checked; what is wrong is answered as FastAPI answers it."""

from __future__ import annotations

import json
from typing import Any, NamedTuple, TypeVar

import orjson
from pydantic import BaseModel, ValidationError

from osmosis.rollout.types.protocol import CancelRolloutsRequest, RolloutInitRequest

Model = TypeVar("Model", bound=BaseModel)


class Unprocessable(Exception):
    """The request is malformed; ``detail`` goes into the 422 answer."""

    def __init__(self, detail: str | list[dict[str, Any]]) -> None:
        super().__init__(detail)
        self.detail = detail


class Admission(NamedTuple):
    """A request to execute a rollout. ``leased`` is false for a driver that awaits callbacks."""

    request: RolloutInitRequest
    leased: bool


def parse_admission(content: bytes) -> Admission:
    """The body of ``POST /rollout``.

    A driver of the older callback dialect never polls, so its rollout has no lease to lose, and
    its model key may be the one for callbacks. (The callbacks themselves are not made.)
    """
    data = _load(content)
    leased = True
    if isinstance(data, dict) and isinstance(data.get("completion_callback_url"), str):
        leased = False
        if data.get("llm_api_key") is None:
            data["llm_api_key"] = data.get("controller_api_key")
    return Admission(_validate(RolloutInitRequest, data), leased)


def parse_cancel(content: bytes) -> CancelRolloutsRequest:
    """The body of ``POST /rollout/cancel``: exactly one of ``ids``, ``prefix`` and ``all``."""
    request = _validate(CancelRolloutsRequest, _load(content))
    given = (request.ids is not None) + (request.prefix is not None) + request.all
    if given != 1:
        raise Unprocessable("give exactly one of ids, prefix and all: true")
    return request


def issue(kind: str, where: list[str | int], message: str, given: Any = None) -> dict[str, Any]:
    """One entry of a 422 answer's ``detail``."""
    return {"type": kind, "loc": where, "msg": message, "input": given}


def _load(content: bytes) -> Any:
    try:
        return orjson.loads(content)
    except ValueError:
        pass
    try:
        return json.loads(content)  # takes lone surrogates, which orjson refuses
    except (ValueError, RecursionError) as error:
        position = getattr(error, "pos", 0)
        raise Unprocessable(
            [issue("json_invalid", ["body", position], f"JSON decode error: {error}", {})]
        ) from None


def _validate(model: type[Model], data: Any) -> Model:
    try:
        return model.model_validate(data)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_context=False)
        raise Unprocessable(
            [
                issue(item["type"], ["body", *item["loc"]], item["msg"], item["input"])
                for item in problems
            ]
        ) from None
