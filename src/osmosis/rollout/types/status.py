"""The closed enumerations of the rollout protocol. Peers refuse values they do not know."""

from __future__ import annotations

from enum import StrEnum


class RolloutStatus(StrEnum):
    """Where one rollout stands."""

    QUEUED = "queued"
    RUNNING = "running"
    GRADING = "grading"
    SUCCESS = "success"
    FAILURE = "failure"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"


class RolloutErrorCategory(StrEnum):
    """Why a rollout failed."""

    TIMEOUT = "timeout"
    VALIDATION_ERROR = "validation_error"
    HTTP_ERROR = "http_error"
    AGENT_ERROR = "agent_error"
    LEASE_EXPIRED = "lease_expired"
    INTERNAL_ERROR = "internal_error"
