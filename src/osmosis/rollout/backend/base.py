"""The interface between the rollout server and whatever executes a rollout."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from osmosis.rollout.types.execution import ExecutionOutcome, ExecutionRequest


class ExecutionBackend(ABC):
    """Executes rollouts. Only :meth:`execute` must be written."""

    supports_regrade = False
    """Whether :meth:`execute` honours ``ExecutionRequest.stored_sample``."""

    @abstractmethod
    async def execute(self, request: ExecutionRequest) -> ExecutionOutcome:
        """Run one rollout to its end inside the active ``RolloutContext``."""

    def has_capacity(self) -> bool:
        """Whether one more rollout may be admitted; the server answers 429 otherwise."""
        return True

    def rollout_status(self, rollout_id: str) -> dict[str, Any] | None:
        """What the backend knows of one rollout, or None."""
        return None

    async def cancel_rollouts(
        self, ids: Sequence[str] | None = None, prefix: str | None = None, all: bool = False
    ) -> dict[str, str]:
        """Cancel work that outlives the task of :meth:`execute`; answers dispositions by id."""
        return {}

    def health(self) -> dict[str, Any]:
        """Fields for ``/health``."""
        return {}

    async def shutdown(self) -> None:  # noqa: B027  (a backend may hold nothing)
        """Release what the backend holds; called once, after the last rollout has ended."""
