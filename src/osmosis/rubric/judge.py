"""One judge: ask, read, ask once more, and otherwise say that there is no score."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypedDict

from osmosis.rubric.links import Answer, CallFailed, JudgeLink
from osmosis.rubric.prompt import Material, Task, build_messages
from osmosis.rubric.request_shape import MAX_CHANGES, RequestShape
from osmosis.rubric.verdict import CUT_OFF, Unreadable, Verdict, read_verdict

ASKS = 2
"""How often one judgement asks for an answer: once, and once more after an unreadable one."""
RAW_KEPT_CHARS = 20_000

Status = Literal["scored", "unscored", "failed"]
"""``unscored``: it answered, but stated no score. ``failed``: it could not be asked."""


@dataclass(frozen=True)
class Judgement:
    """How one judgement ended. Only a scored one has a score; the others have a reason."""

    status: Status
    score: float | None = None
    explanation: str | None = None
    reason: str | None = None
    kind: str | None = None
    """Of a failed one: the kind of failure, such as ``auth``, ``rate_limit`` or ``timeout``."""
    http_status: int | None = None
    raw: tuple[str, ...] = field(default=())
    """The answers that could not be read, each up to 20,000 characters."""
    asks: int = 0
    latency_s: float = 0.0
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class Judge:
    """A judge model behind a link. What it takes in a request is learned and kept here."""

    def __init__(self, link: JudgeLink, shape: RequestShape | None = None) -> None:
        self.link = link
        self.shape = shape or RequestShape()

    async def judge(self, task: Task, material: Material) -> Judgement:
        """Grade one text. Never raises for what the judge or its provider does."""
        began = time.monotonic()
        judged = material.text()
        answers: list[Answer] = []
        correction: str | None = None
        brief = False
        while True:
            messages = build_messages(task, material, correction)
            try:
                answer = await self._ask(messages, brief=brief)
            except CallFailed as failure:
                return Judgement(
                    status="failed",
                    reason=failure.message,
                    kind=failure.kind,
                    http_status=failure.status,
                    **_spent(answers, len(answers) + 1, began),
                )
            answers.append(answer)
            try:
                verdict = _read(answer, task, judged)
            except Unreadable as unreadable:
                if len(answers) < ASKS:
                    correction = unreadable.told
                    brief = answer.finish_reason in CUT_OFF
                    continue
                return Judgement(
                    status="unscored",
                    reason=str(unreadable),
                    **_spent(answers, len(answers), began),
                )
            return Judgement(
                status="scored",
                score=verdict.score,
                explanation=verdict.explanation,
                **_spent(answers[:-1], len(answers), began, answers[-1]),
            )

    async def _ask(self, messages: list[dict[str, str]], *, brief: bool) -> Answer:
        """One answer, in the best form of request that the model takes."""
        shape = replace(self.shape, brief=brief)
        for _ in range(MAX_CHANGES):
            try:
                answer = await self.link.ask({"messages": messages, **shape.parameters()})
            except CallFailed as failure:
                plainer = shape.after_refusal(failure.status, failure.message)
                if plainer is None:
                    raise
                shape = plainer
            else:
                # Only a form that brought an answer is worth remembering.
                self.shape = replace(shape, brief=False)
                return answer
        return await self.link.ask({"messages": messages, **shape.parameters()})


def _read(answer: Answer, task: Task, judged: str) -> Verdict:
    if answer.refusal is not None and not answer.text.strip():
        raise Unreadable(f"the judge refused: {answer.refusal[:200]}", "it was a refusal.")
    return read_verdict(
        answer.text,
        score_min=task.score_min,
        score_max=task.score_max,
        finish_reason=answer.finish_reason,
        judged=judged,
    )


class _Spent(TypedDict):
    raw: tuple[str, ...]
    asks: int
    latency_s: float
    prompt_tokens: int | None
    completion_tokens: int | None


def _spent(unread: Sequence[Answer], asks: int, began: float, read: Answer | None = None) -> _Spent:
    answers = [*unread, read] if read else unread
    return {
        "raw": tuple((answer.text or answer.refusal or "")[:RAW_KEPT_CHARS] for answer in unread),
        "asks": asks,
        "latency_s": time.monotonic() - began,
        "prompt_tokens": _total([answer.prompt_tokens for answer in answers]),
        "completion_tokens": _total([answer.completion_tokens for answer in answers]),
    }


def _total(counts: Sequence[int | None]) -> int | None:
    """The sum, or None when a provider was silent: unknown is not zero."""
    known = [count for count in counts if count is not None]
    return sum(known) if counts and len(known) == len(counts) else None
