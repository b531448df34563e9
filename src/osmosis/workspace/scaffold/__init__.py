"""New workspaces and rollouts, from the templates beside this file."""

from osmosis.workspace.scaffold.rollout import create_rollout
from osmosis.workspace.scaffold.workspace import Scaffolded, create_workspace

__all__ = ["Scaffolded", "create_rollout", "create_workspace"]
