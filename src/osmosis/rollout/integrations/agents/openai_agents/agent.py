"""The agent class of the vendor's integration."""

# The framework is installed in rollouts, not where this is checked.
# pyright: reportMissingImports=false, reportUntypedBaseClass=false

from __future__ import annotations

from typing import Any

from agents import Agent

from osmosis.rollout.integrations.agents.openai_agents.model import OsmosisRolloutModel
from osmosis.rollout.links import active_link


class OsmosisAgent(Agent[Any]):
    """An ``Agent``. With an ``OsmosisRolloutModel`` it must be made inside ``run``."""

    def __init__(self, *args: Any, model: Any = None, **kwargs: Any) -> None:
        if isinstance(model, OsmosisRolloutModel):
            active_link("OsmosisAgent")
        super().__init__(*args, model=model, **kwargs)
