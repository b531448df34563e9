"""The agent of a rollout."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

from osmosis.rollout.context import AgentWorkflowContext
from osmosis.rollout.types.config import AgentWorkflowConfig
from osmosis.rollout.types.output import AgentWorkflowOutput

TConfig = TypeVar("TConfig", bound=AgentWorkflowConfig)


class AgentWorkflow(ABC, Generic[TConfig]):
    """Subclass this and write :meth:`run`. A new instance is made for every rollout."""

    def __init__(self, config: TConfig | None = None) -> None:
        self.config = config

    @abstractmethod
    async def run(
        self, ctx: AgentWorkflowContext[TConfig]
    ) -> AgentWorkflowOutput | list[dict[str, Any]] | None:
        """Work on ``ctx.prompt`` and return the conversation.

        Return an ``AgentWorkflowOutput`` or a list of messages, or None when a sample source was
        registered on the rollout context.
        """
