"""Every table, by noun. Import the models from here."""

from osmosis.platform.db.models.accounts import DeviceLogin, LoginLink, Token, User
from osmosis.platform.db.models.datasets import Dataset, DatasetLog
from osmosis.platform.db.models.jobs import Job
from osmosis.platform.db.models.runs import Run, RunLog, RunTally, Sample, ShardLoss
from osmosis.platform.db.models.workspaces import (
    Branch,
    Endpoint,
    Membership,
    Repository,
    Rollout,
    Secret,
    Workspace,
)

__all__ = [
    "Branch",
    "Dataset",
    "DatasetLog",
    "DeviceLogin",
    "Endpoint",
    "Job",
    "LoginLink",
    "Membership",
    "Repository",
    "Rollout",
    "Run",
    "RunLog",
    "RunTally",
    "Sample",
    "Secret",
    "ShardLoss",
    "Token",
    "User",
    "Workspace",
]
