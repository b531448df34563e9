"""The failure policy: what each kind of failure means, in one table, for everybody.

Vocabulary. A **call** of a model fails with a kind (``ModelCall.error_kind``). A **sample** fails
with an ``error_type``; where a model call was the cause, its kind stands beside it as
``error_kind``. A **run** is halted by a fault that its samples share: no new sample starts, those
that hit the fault stay pending, and ``RunError.kind`` says why.

Each row answers five questions:

    fault      whose doing it is: the agent, the grader, the provider, the platform, or a clock
    retry      who repeats it: nobody, the gateway (``call``), the engine (``sample``)
    grade      whether the sample's conversation can still be graded
    counts_as  ``failure``: in every rate, as a non-pass. ``infrastructure``: a non-pass in the
               documented ``pass_rate``, left out of the rate beside it. ``nothing``: no sample
               fails by it alone.
    halts      the run error that samples in a row with this failure end the run with

An error is not a zero: what the provider, the platform or a clock did says nothing about the
agent. An unknown kind counts as the agent's own, for leaving out too much flatters the number.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Fault = Literal["agent", "grader", "provider", "platform", "timeout"]
Retry = Literal["no", "call", "sample"]
Grade = Literal["workflow decides", "not graded", "can be re-graded", "no verdict"]
CountsAs = Literal["failure", "infrastructure", "nothing"]


@dataclass(frozen=True, slots=True)
class FailurePolicy:
    """What follows from one kind of failure. ``means`` is a sentence for people."""

    kind: str
    means: str
    fault: Fault
    retry: Retry
    grade: Grade
    counts_as: CountsAs
    halts: str | None = None


def _calls(
    *rows: tuple[str, str, Fault, Retry, CountsAs, str | None],
) -> dict[str, FailurePolicy]:
    """A workflow may survive a failed call: then the sample is graded as any other."""
    return {
        kind: FailurePolicy(kind, means, fault, retry, "workflow decides", counts_as, halts)
        for kind, means, fault, retry, counts_as, halts in rows
    }


CALL_POLICIES = _calls(
    ("auth", "the provider rejects the key (401, 403)",
     "provider", "no", "infrastructure", "model_key_rejected"),
    ("quota", "the account's quota or credit is spent",
     "provider", "no", "infrastructure", "model_quota_exhausted"),
    ("rate_limit", "too many requests (429)", "provider", "call", "infrastructure", None),
    ("overloaded", "the provider has no capacity just now (503, 529)",
     "provider", "call", "infrastructure", "model_unreachable"),
    ("server_error", "the provider failed (other 5xx)",
     "provider", "call", "infrastructure", "model_unreachable"),
    ("connection", "no link to the provider, or it broke",
     "provider", "call", "infrastructure", "model_unreachable"),
    ("timeout", "no connection within its limit, or the provider gave up (408)",
     "provider", "call", "infrastructure", "model_unreachable"),
    ("bad_response", "the answer is not a chat completion",
     "provider", "no", "infrastructure", None),
    ("not_found", "no such model or path any more (404)",
     "provider", "no", "infrastructure", "model_not_found"),
    ("content_filter", "the provider refuses the content of the request or of its answer",
     "provider", "no", "failure", None),
    ("context_length", "the conversation is longer than the model takes",
     "agent", "no", "failure", None),
    ("invalid_request", "the provider does not take the request (other 4xx)",
     "agent", "no", "failure", None),
    ("bad_request", "the gateway does not take the request",
     "agent", "no", "failure", None),
    ("client_disconnected", "user code hung up before the answer",
     "agent", "no", "nothing", None),
    ("session_closed", "the sample ended before the answer", "timeout", "no", "nothing", None),
    ("replay_miss", "the replayed run has no answer to the request",
     "platform", "no", "infrastructure", None),
    ("internal", "the gateway itself failed", "platform", "no", "infrastructure", None),
)  # fmt: skip
"""By ``ModelCall.error_kind``."""


def _samples(
    *rows: tuple[str, str, Fault, Retry, Grade, CountsAs],
) -> dict[str, FailurePolicy]:
    return {
        kind: FailurePolicy(kind, means, fault, retry, grade, counts_as)
        for kind, means, fault, retry, grade, counts_as in rows
    }


SAMPLE_POLICIES = _samples(
    ("agent_error", "the workflow raised, or sent requests that the model cannot take",
     "agent", "no", "not graded", "failure"),
    ("validation_error", "the workflow returned no usable sample, or the grader no usable reward",
     "agent", "no", "can be re-graded", "failure"),
    ("workflow_failed", "the workflow failed in a way that its server does not name",
     "agent", "no", "not graded", "failure"),
    ("context_length", "the conversation outgrew the model",
     "agent", "no", "not graded", "failure"),
    ("rollout_crashed", "the process ended each time this sample ran alone in it",
     "agent", "sample", "not graded", "failure"),
    ("rollout_protocol_error", "the rollout's server refused the sample or broke the protocol",
     "agent", "sample", "not graded", "failure"),
    ("rollout_failed", "as reported by imported runs", "agent", "no", "not graded", "failure"),
    ("cancelled", "as reported by imported runs", "agent", "no", "not graded", "failure"),
    ("grader_failed", "the grader raised, or nothing was graded",
     "grader", "no", "can be re-graded", "failure"),
    ("missing_grader_callback", "as reported by imported runs",
     "grader", "no", "not graded", "failure"),
    ("content_filter", "the provider refused the content, and the workflow gave up",
     "provider", "no", "not graded", "failure"),
    ("http_error", "the model provider or another service failed the sample",
     "provider", "call", "can be re-graded", "infrastructure"),
    ("provider_error", "as reported by imported runs",
     "provider", "no", "not graded", "infrastructure"),
    ("rate_limited", "as reported by imported runs",
     "provider", "no", "not graded", "infrastructure"),
    ("judge_error", "as reported by imported runs",
     "provider", "no", "can be re-graded", "infrastructure"),
    ("supervisor_error", "the rollout's server failed by itself",
     "platform", "no", "not graded", "infrastructure"),
    ("internal_error", "a fault of ours", "platform", "no", "not graded", "infrastructure"),
    ("replay_miss", "a call had no answer in the replayed run, so the sample is no replay of it",
     "platform", "no", "not graded", "infrastructure"),
    ("lease_expired", "the sample was given up because nobody asked for it",
     "platform", "sample", "not graded", "infrastructure"),
    ("worker_lost", "the worker was lost", "platform", "sample", "not graded", "infrastructure"),
    ("timeout", "the workflow, the grader or the whole sample ran out of time",
     "timeout", "no", "can be re-graded", "infrastructure"),
    ("callback_timeout", "as reported by imported runs",
     "timeout", "no", "not graded", "infrastructure"),
    ("deadline_exceeded", "as reported by imported runs",
     "timeout", "no", "not graded", "infrastructure"),
)  # fmt: skip
"""By a sample's ``error_type``."""

_FAMILIES: tuple[tuple[str, Fault], ...] = (
    ("provider_", "provider"),
    ("model_", "provider"),
    ("judge_", "provider"),
    ("platform_", "platform"),
    ("timeout_", "timeout"),
)
"""Imported runs may name kinds of their own, by these prefixes."""

HALT_AFTER_IN_A_ROW = 5
"""Single refusals happen (moderation, one forbidden tool, a broken link); a row of them is the
fault of all."""


def policy_of_sample(error_type: str) -> FailurePolicy:
    """The row for a sample's ``error_type``; one made up for a type that is not in the table."""
    if known := SAMPLE_POLICIES.get(error_type):
        return known
    for prefix, fault in _FAMILIES:
        if error_type.startswith(prefix):
            return FailurePolicy(
                error_type, "not one of ours", fault, "no", "not graded", "infrastructure"
            )
    return FailurePolicy(error_type, "not one of ours", "agent", "no", "not graded", "failure")


def policy_of_call(error_kind: str) -> FailurePolicy:
    """The row for a model call's ``error_kind``; an unknown one is the agent's own."""
    return CALL_POLICIES.get(error_kind) or FailurePolicy(
        error_kind, "not one of ours", "agent", "no", "workflow decides", "failure"
    )


def error_type_of_call(error_kind: str, route: str) -> str | None:
    """The ``error_type`` of a sample that failed by a call of this kind on this route.

    ``http_error`` is the documented type for what a provider did. What is wrong with a call of the
    judge is never the agent's doing. None: no sample fails by such a call alone.
    """
    policy = policy_of_call(error_kind)
    if policy.counts_as == "nothing":
        return None
    if error_kind == "replay_miss":
        return error_kind
    if route == "judge":
        return "grader_failed" if policy.fault == "agent" else _type_of_others(policy)
    if error_kind in ("content_filter", "context_length"):
        return error_kind
    return "agent_error" if policy.fault == "agent" else _type_of_others(policy)


def _type_of_others(policy: FailurePolicy) -> str:
    return "internal_error" if policy.fault == "platform" else "http_error"
