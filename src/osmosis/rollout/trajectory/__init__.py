"""Trajectories: one rollout's conversation as an ATIF document."""

from osmosis.rollout.trajectory.document import (
    attach_call_metrics,
    build_trajectory,
    sample_trajectory,
)
from osmosis.rollout.trajectory.messages import messages_of

__all__ = ["attach_call_metrics", "build_trajectory", "messages_of", "sample_trajectory"]
