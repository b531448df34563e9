"""The judge of the run, for graders."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from osmosis.rollout.errors import ModelCallError
from osmosis.rollout.model import judge_choice
from osmosis.rubric.links import Answer, CallFailed, refusal_of


class RunLink:
    """The judge of the run, asked inside ``Grader.grade``. The run sets model, key and limits."""

    provider = "run"
    model = "of the run"
    address = None

    def __init__(self, timeout_s: float | None = None) -> None:
        self._timeout_s = timeout_s

    async def ask(self, body: Mapping[str, Any]) -> Answer:
        params = dict(body)
        messages = params.pop("messages")
        try:
            async with asyncio.timeout(self._timeout_s):
                choice = await judge_choice(messages, caller="evaluate_rubric", **params)
        except ModelCallError as error:
            kind = "provider" if error.status else "connection"
            raise CallFailed(kind, error.message, error.status or None) from error
        except TimeoutError:
            raise CallFailed("timeout", f"no answer within {self._timeout_s:g} s") from None
        message = choice["message"]
        finish = choice.get("finish_reason")
        return Answer(
            text=message["content"],
            finish_reason=finish if isinstance(finish, str) else None,
            refusal=refusal_of(message),
        )
