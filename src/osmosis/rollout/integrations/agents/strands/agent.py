"""The agent whose messages become the rollout's sample."""

# The framework is installed in rollouts, not where this is checked.
# pyright: reportMissingImports=false, reportUntypedBaseClass=false

from __future__ import annotations

from typing import Any

from strands import Agent

from osmosis.rollout.context import RolloutContext, SampleSource, get_rollout_context
from osmosis.rollout.integrations.agents.strands.model import OsmosisRolloutModel
from osmosis.rollout.links import active_link
from osmosis.rollout.trajectory.content_blocks import chat_messages_of_blocks, content_blocks
from osmosis.rollout.types.sample import RolloutSample


class OsmosisStrandsAgent(Agent):
    """An ``Agent``; with an ``OsmosisRolloutModel`` it registers itself as the sample's source.

    Then it must be made inside ``AgentWorkflow.run``, once in each rollout. ``messages`` may be
    chat messages with plain text.
    """

    def __init__(
        self,
        *args: Any,
        messages: list[dict[str, Any]] | None = None,
        model: Any = None,
        **kwargs: Any,
    ) -> None:
        context: RolloutContext | None = None
        if isinstance(model, OsmosisRolloutModel):
            active_link("OsmosisStrandsAgent")
            context = get_rollout_context()
            # The platform retries model calls, once for all; None means no second layer here.
            kwargs.setdefault("retry_strategy", None)
        given: Any = content_blocks(messages) if messages else messages
        super().__init__(*args, messages=given, model=model, **kwargs)
        if context is not None:
            context.set_sample_source(StrandsAgentSampleSource(self))


class StrandsAgentSampleSource(SampleSource):
    """The sample of an agent: its messages as they are, and a chat-shaped copy to keep."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent

    async def get_sample(self) -> RolloutSample:
        messages: list[Any] = list(self.agent.messages)
        return RolloutSample(
            messages=messages,
            trajectory_messages=chat_messages_of_blocks(messages, self.agent.system_prompt),
        )

    async def get_preview(self, max_messages: int) -> RolloutSample | None:
        if max_messages <= 0:
            return None
        messages: list[Any] = self.agent.messages[-max_messages:]
        return RolloutSample(
            messages=messages, trajectory_messages=chat_messages_of_blocks(messages)
        )
