"""Whose fault a sample's failure is, by its ``error_type``.

An error is not a zero. What the model provider, the platform or a clock did says nothing about
the agent, so the rate over samples without infrastructure failures leaves these samples out. An
unknown type counts as the agent's own: leaving out too much would flatter the number.
"""

from __future__ import annotations

from typing import Literal

Category = Literal["agent", "provider", "platform", "timeout"]

CATEGORY_BY_TYPE: dict[str, Category] = {
    # The author's code, or what it returned.
    "agent_error": "agent",
    "validation_error": "agent",
    "workflow_failed": "agent",
    "grader_failed": "agent",
    "missing_grader_callback": "agent",
    "rollout_failed": "agent",
    "rollout_crashed": "agent",
    "rollout_protocol_error": "agent",
    "cancelled": "agent",
    # The model provider, or a service that the rollout depends on.
    "http_error": "provider",
    "provider_error": "provider",
    "rate_limited": "provider",
    "judge_error": "provider",
    # Ours.
    "internal_error": "platform",
    "lease_expired": "platform",
    "supervisor_error": "platform",
    "worker_lost": "platform",
    # A clock.
    "timeout": "timeout",
    "callback_timeout": "timeout",
    "deadline_exceeded": "timeout",
}

# Families of kinds that the gateway names after the failing call.
CATEGORY_BY_PREFIX: dict[str, Category] = {
    "provider_": "provider",
    "model_": "provider",
    "judge_": "provider",
    "platform_": "platform",
    "timeout_": "timeout",
}


def category_of(error_type: str | None) -> Category | None:
    """The party behind ``error_type``; None when there was no error."""
    if error_type is None:
        return None
    if known := CATEGORY_BY_TYPE.get(error_type):
        return known
    for prefix, category in CATEGORY_BY_PREFIX.items():
        if error_type.startswith(prefix):
            return category
    return "agent"


def is_infrastructure(error_type: str | None) -> bool:
    """True when the failure was the provider's, the platform's or a clock's."""
    return category_of(error_type) not in (None, "agent")
