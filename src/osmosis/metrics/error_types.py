"""Whose fault a sample's failure is, by its ``error_type``: :mod:`osmosis.wire.failure_policy`."""

from __future__ import annotations

from osmosis.wire.failure_policy import Fault, policy_of_sample


def category_of(error_type: str | None) -> Fault | None:
    """The party behind ``error_type``; None when there was no error."""
    return None if error_type is None else policy_of_sample(error_type).fault


def is_infrastructure(error_type: str | None) -> bool:
    """True when the failure says nothing about the agent: not in the rate beside ``pass_rate``."""
    return error_type is not None and policy_of_sample(error_type).counts_as == "infrastructure"
