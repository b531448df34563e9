"""The session that keeps a rollout's conversation and becomes its sample."""

# The framework is installed in rollouts, not where this is checked.
# pyright: reportMissingImports=false, reportUntypedBaseClass=false

from __future__ import annotations

import uuid
from typing import Any

from agents.memory.session import SessionABC

from osmosis.rollout.context import RolloutContext, SampleSource, get_rollout_context
from osmosis.rollout.trajectory.response_items import chat_messages_of_items
from osmosis.rollout.types.sample import RolloutSample


class OsmosisMemorySession(SessionABC):
    """A session in memory; made inside a rollout it registers itself as the sample's source.

    A rollout has one sample, so exactly one is made in each ``AgentWorkflow.run``. Outside a
    rollout it is a session like any other.
    """

    def __init__(self) -> None:
        self.session_id: str = uuid.uuid4().hex
        self.items: list[Any] = []
        self._context: RolloutContext | None = get_rollout_context()
        if self._context is not None:
            self._context.set_sample_source(SessionSampleSource(self))

    async def get_items(self, limit: int | None = None) -> list[Any]:
        self._check_rollout()
        if limit is None:
            return list(self.items)
        return self.items[-limit:] if limit > 0 else []

    async def add_items(self, items: list[Any]) -> None:
        self._check_rollout()
        self.items.extend(items)

    async def pop_item(self) -> Any:
        return self.items.pop() if self.items else None

    async def clear_session(self) -> None:
        self.items.clear()

    def _check_rollout(self) -> None:
        active = get_rollout_context()
        if active is not None and active is not self._context:
            raise RuntimeError(
                "this OsmosisMemorySession belongs to another rollout or to none: make one "
                "inside AgentWorkflow.run() for each rollout"
            )


class SessionSampleSource(SampleSource):
    """The sample of any session: its items as they are, and a chat-shaped copy to keep."""

    def __init__(self, session: SessionABC) -> None:
        self.session = session

    async def get_sample(self) -> RolloutSample:
        return _sample(await self.session.get_items())

    async def get_preview(self, max_messages: int) -> RolloutSample | None:
        if max_messages <= 0:
            return None
        return _sample(await self.session.get_items(limit=max_messages))


def _sample(items: list[Any]) -> RolloutSample:
    return RolloutSample(messages=items, trajectory_messages=chat_messages_of_items(items))
