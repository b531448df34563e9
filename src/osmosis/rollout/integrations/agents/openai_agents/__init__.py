"""The OpenAI Agents SDK on the run's own model. Needs the extra ``openai-agents``.

    agent = OsmosisAgent(name="solver", model=OsmosisRolloutModel(), tools=[...])
    await Runner.run(agent, ctx.prompt, session=OsmosisMemorySession())

all inside ``AgentWorkflow.run``, which then returns None: the session is the sample.
"""

from __future__ import annotations

import os

from osmosis.rollout.integrations.missing import missing_extra

# The framework sends what agents say to OpenAI's tracing service unless told otherwise. Data of
# an evaluation leave only when its config says so: OPENAI_AGENTS_DISABLE_TRACING = "0".
os.environ.setdefault("OPENAI_AGENTS_DISABLE_TRACING", "1")

try:
    from osmosis.rollout.integrations.agents.openai_agents.agent import OsmosisAgent
    from osmosis.rollout.integrations.agents.openai_agents.model import OsmosisRolloutModel
    from osmosis.rollout.integrations.agents.openai_agents.session import (
        OsmosisMemorySession,
        SessionSampleSource,
    )
except ModuleNotFoundError as error:
    raise missing_extra(error, "openai-agents", "The OpenAI Agents SDK") from error

__all__ = ["OsmosisAgent", "OsmosisMemorySession", "OsmosisRolloutModel", "SessionSampleSource"]
