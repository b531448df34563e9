"""The grader of a rollout."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from osmosis.rollout.context import GraderContext
from osmosis.rollout.types.config import GraderConfig


class Grader(ABC):
    """Subclass this and write :meth:`grade`. A new instance is made for every rollout."""

    def __init__(self, config: GraderConfig | None = None) -> None:
        self.config = config

    @abstractmethod
    async def grade(self, ctx: GraderContext) -> Any:
        """Judge ``ctx.sample`` and call ``ctx.set_reward``. What is returned is ignored."""
