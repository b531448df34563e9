"""``evaluate_rubric``: the score of one answer, from Python."""

from __future__ import annotations

import asyncio
import hashlib
import math
import os
from collections.abc import AsyncGenerator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

from osmosis.rollout.links import active_judge_link
from osmosis.rubric.errors import ModelNotFoundError, ProviderRequestError, UnscoredError
from osmosis.rubric.judge import Judge, Judgement
from osmosis.rubric.prompt import Material, Task
from osmosis.rubric.request_shape import RequestShape
from osmosis.rubric.run_link import RunLink

if TYPE_CHECKING:
    from osmosis.rubric.own_link import OwnLink

HTTP_NOT_FOUND = 404
CONCURRENCY = 64
"""Calls in flight to one judge, for all the graders of a process together."""


class RubricResult(NamedTuple):
    """A judge's score and its reason."""

    score: float
    explanation: str


class _Judges:
    """The judges of one event loop: one client, one limiter, one learned form for each."""

    def __init__(self) -> None:
        self.known: dict[str, Judge] = {}
        self.links: list[OwnLink] = []
        self.route_shape = RequestShape()
        self.ending = _close_with_loop(self)


_of_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, _Judges] = WeakKeyDictionary()


async def evaluate_rubric(
    *,
    solution_str: str,
    rubric: str,
    model: str | None = None,
    ground_truth: str | None = None,
    original_input: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    score_min: float = 0.0,
    score_max: float = 1.0,
    api_key: str | None = None,
    timeout: float | None = None,
    system_prompt: str | None = None,
    base_url: str | None = None,
) -> RubricResult:
    """Let a judge grade ``solution_str`` by ``rubric``; the score lies in the range, or it raises.

    Inside ``Grader.grade`` leave ``model`` out: the run's ``[advanced] judge_model`` is asked, with
    the run's key and limits. Otherwise ``model`` is a name such as ``openai/gpt-5-mini``, its key
    the provider's usual variable or ``api_key``, and ``base_url`` the address of a server of your
    own. ``timeout`` is in seconds for one answer: 30 to 60 by provider; on the run's route none,
    where the grader's own time limit holds.

    Raises RuntimeError (no model named, and no run's judge here), TypeError (an empty text or
    rubric), ValueError (the range), MissingAPIKeyError, ModelNotFoundError, UnscoredError (two
    answers without a score) or ProviderRequestError.
    """
    _require_text("solution_str", solution_str)
    _require_text("rubric", rubric)
    if not (math.isfinite(score_min) and math.isfinite(score_max) and score_max > score_min):
        raise ValueError(
            f"score_max ({score_max:g}) must be greater than score_min ({score_min:g})"
        )
    if timeout is not None and not (math.isfinite(timeout) and timeout > 0):
        raise ValueError(f"timeout must be a positive number of seconds, not {timeout!r}")
    task = Task(rubric.strip(), float(score_min), float(score_max), system_prompt)
    material = Material(solution_str, ground_truth, original_input, metadata)
    judges = await _here()
    if model is None:
        _require_run()
        judge = Judge(RunLink(timeout), judges.route_shape)
        judgement = await judge.judge(task, material)
        judges.route_shape = judge.shape
    else:
        judge = await _own_judge(judges, model, base_url, api_key, timeout)
        judgement = await judge.judge(task, material)
    return _result(judge, judgement)


def _require_run() -> None:
    try:
        active_judge_link("evaluate_rubric")
    except RuntimeError as missing:
        raise RuntimeError(f"{missing}. A judge of your own is named by model=...") from None


def _result(judge: Judge, judgement: Judgement) -> RubricResult:
    if judgement.score is not None:
        return RubricResult(judgement.score, judgement.explanation or "")
    provider, name = judge.link.provider, judge.link.model
    reason = judgement.reason or "no answer"
    if judgement.status == "unscored":
        raise UnscoredError(provider, name, reason, judgement.raw[-1] if judgement.raw else "")
    if judgement.http_status == HTTP_NOT_FOUND:
        raise ModelNotFoundError(provider, name, reason, status=HTTP_NOT_FOUND)
    raise ProviderRequestError(provider, name, reason, status=judgement.http_status or 0)


async def _own_judge(
    judges: _Judges, model: str, base_url: str | None, api_key: str | None, timeout: float | None
) -> Judge:
    variables = dict(os.environ)
    named = repr((model, base_url, api_key, timeout, sorted(variables.items())))
    key = hashlib.sha256(named.encode("utf-8", "surrogateescape")).hexdigest()
    judge = judges.known.get(key)
    if judge is None:
        # The gateway's adapters take half a second to import, and the run's own judge needs none.
        from osmosis.rubric.models import open_link  # noqa: PLC0415

        link = await open_link(
            model,
            variables=variables,
            base_url=base_url,
            api_key=api_key,
            timeout_s=timeout,
            concurrency=CONCURRENCY,
        )
        judges.links.append(link)
        # Another grader may have been faster; a link has no connection before its first call.
        judge = judges.known.setdefault(key, Judge(link))
    return judge


async def _here() -> _Judges:
    loop = asyncio.get_running_loop()
    judges = _of_loop.get(loop)
    if judges is None:
        judges = _of_loop[loop] = _Judges()
        # A loop that ends runs its open generators to their end, and with it goes the client.
        await anext(judges.ending)
    return judges


async def _close_with_loop(judges: _Judges) -> AsyncGenerator[None]:
    try:
        yield
    finally:
        for link in judges.links:
            await link.close()


def _require_text(name: str, value: object) -> None:
    if not isinstance(value, str) or not value.strip():
        raise TypeError(f"{name} must be a text that is not empty")
