"""Strands agents on the run's own model. Needs the extra ``strands``.

    agent = OsmosisStrandsAgent(model=OsmosisRolloutModel(), tools=[...], callback_handler=None)
    await agent.invoke_async(question)

all inside ``AgentWorkflow.run``, which then returns None: the agent's messages are the sample.
"""

from __future__ import annotations

from osmosis.rollout.integrations.missing import missing_extra

try:
    from osmosis.rollout.integrations.agents.strands.agent import (
        OsmosisStrandsAgent,
        StrandsAgentSampleSource,
    )
    from osmosis.rollout.integrations.agents.strands.model import OsmosisRolloutModel
except ModuleNotFoundError as error:
    raise missing_extra(error, "strands", "Strands") from error

__all__ = ["OsmosisRolloutModel", "OsmosisStrandsAgent", "StrandsAgentSampleSource"]
