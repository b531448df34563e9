"""Drives one try of a sample over the polling protocol (rollout-protocol.md §2, §3B).

drive() ──> RolloutResult
        └─> DriveError
            ├── AdmissionRefused   the server will not take this rollout, ever
            ├── ProtocolBroken     it took it, but its answers make no sense
            ├── Expired            the sample's deadline passed
            ├── TryLost            the server lives, but this try is lost; a new one may work
            └── ProcessLost        the process died or was given up; so is the try
        └─> RunFailed              the rollout speaks the older callback dialect
"""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass
from typing import Any, TypeGuard

import orjson

from osmosis.evaluation.rollout_link import LinkBroken, LinkClosed, RolloutLink
from osmosis.evaluation.strict_json import loads
from osmosis.rollout.http_connection import Answer
from osmosis.wire.errors import RunFailed

LEASE_HEADER = "X-Osmosis-Rollout-Lease"
POLL_SLACK_S = 10.0
"""How much longer than the server's own wait a poll may stay open."""
RETRY_AFTER_MIN_S, RETRY_AFTER_MAX_S, RETRY_AFTER_DEFAULT_S = 0.05, 60.0, 1.0
TRANSPORT_DELAYS_S = (0.1, 0.5, 1.0, 2.0)
GATEWAY_DELAYS_S = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
GATEWAY_STATUSES = frozenset({502, 503, 504})
CANCEL_TIMEOUT_S = 3.0
EXIT_NOTICE_S = 0.25
"""A dying process drops its connections a moment before its exit is seen."""

RUNNING_STATUSES = frozenset({"queued", "running", "grading", "unknown"})
FINAL_STATUSES = frozenset({"success", "failure", "cancelled"})


class DriveError(Exception):
    """This try has no result. The message is for people."""


class AdmissionRefused(DriveError):
    pass


class ProtocolBroken(DriveError):
    pass


class Expired(DriveError):
    """``step``: a sentence about what the server left unanswered; None when it was given the time
    that it had asked for."""

    def __init__(self, message: str, step: str | None) -> None:
        super().__init__(message)
        self.step = step


class TryLost(DriveError):
    pass


class ProcessLost(DriveError):
    pass


@dataclass(slots=True, frozen=True)
class RolloutResult:
    """The terminal answer of a rollout.

    ``trajectory`` is where our own SDK says it is: ``messages``, ``file`` or ``none``.
    ``workflow_metrics``: those that the workflow set, before the grader added its own.
    ``queued_s``: how long admission was refused with 429.
    """

    status: str
    sample: dict[str, Any] | None
    err_message: str | None
    err_category: str | None
    trajectory: str | None = None
    workflow_metrics: dict[str, Any] | None = None
    queued_s: float = 0.0


@dataclass(slots=True)
class _Waiting:
    """What a try is waiting for just now; see :class:`Expired`."""

    step: str | None = "It waited for its turn behind samples whose POST /rollout had no answer."


@dataclass(slots=True, frozen=True)
class _Lease:
    token: str
    wait_s: float
    lease_s: float
    queued_s: float


async def drive(
    link: RolloutLink, rollout_id: str, body: dict[str, Any], *, limit_s: float
) -> RolloutResult:
    """Admit the rollout described by ``body`` and wait for its result, ``limit_s`` at most."""
    waiting = _Waiting()
    try:
        async with asyncio.timeout(limit_s):
            lease = await _admit(link, rollout_id, orjson.dumps(body), waiting)
            return await _result(link, rollout_id, lease, waiting)
    except LinkClosed as error:
        raise ProcessLost(str(error)) from error
    except TimeoutError as error:
        raise Expired(f"no result within {limit_s:g} s", waiting.step) from error


async def cancel(
    link: RolloutLink, rollout_ids: list[str] | None, *, timeout_s: float = CANCEL_TIMEOUT_S
) -> bool:
    """Ask the server to cancel these rollouts, or all (None). True when it answered."""
    body = {"all": True} if rollout_ids is None else {"ids": rollout_ids}
    try:
        answer = await link.request(
            "POST", "/rollout/cancel", body=orjson.dumps(body), timeout_s=timeout_s
        )
    except (LinkClosed, LinkBroken):
        return False
    return answer.status == 200


async def _admit(link: RolloutLink, rollout_id: str, body: bytes, waiting: _Waiting) -> _Lease:
    loop = asyncio.get_running_loop()
    asked = loop.time()
    delays = iter(GATEWAY_DELAYS_S)
    queued_s = 0.0
    while True:
        try:
            async with link.starts:
                waiting.step = "The rollout's server did not answer POST /rollout."
                answer = await link.request("POST", "/rollout", body=body)
        except LinkBroken as error:
            # The server may have taken it: the same id would be a duplicate, so the try is over.
            await _notice_exit(link)
            raise TryLost(f"the admission request broke off ({error})") from error
        if answer.status == 202:
            return _lease(answer, rollout_id, queued_s)
        if answer.status == 429:
            waiting.step = "The rollout's server answered POST /rollout with 429, it is full."
            await asyncio.sleep(_retry_after_s(answer.retry_after))
            queued_s = loop.time() - asked
            continue
        if answer.status in GATEWAY_STATUSES and (delay := next(delays, None)) is not None:
            await asyncio.sleep(delay)
            continue
        text = answer.text()
        if answer.status == 422 and "completion_callback_url" in text:
            raise unsupported_dialect()
        if answer.status == 409:
            raise TryLost("the rollout server already knows this rollout id")
        raise AdmissionRefused(f"POST /rollout was answered HTTP {answer.status}: {text}")


def _lease(answer: Answer, rollout_id: str, queued_s: float) -> _Lease:
    parsed = _object(answer, "the admission")
    token = parsed.get("polling_lease_token")
    if not token:
        raise unsupported_dialect()
    wait_s, lease_s = parsed.get("result_wait_timeout_sec"), parsed.get("polling_lease_timeout_sec")
    if parsed.get("rollout_id") != rollout_id:
        raise ProtocolBroken(f"the admission names rollout {parsed.get('rollout_id')!r}")
    fits_header = isinstance(token, str) and token.isascii() and token.isprintable()
    if not (fits_header and _positive(wait_s) and _positive(lease_s)):
        raise ProtocolBroken("the admission's lease has no usable token or timeouts")
    return _Lease(token, float(wait_s), float(lease_s), queued_s)


async def _result(
    link: RolloutLink, rollout_id: str, lease: _Lease, waiting: _Waiting
) -> RolloutResult:
    # Our own server then sleeps through the changes of status in between; others ignore it.
    path = f"/rollout/{rollout_id}/result?until=finished"
    headers = {LEASE_HEADER: lease.token}
    waiting.step = None
    while True:
        answer = await _poll(link, path, headers, lease, waiting)
        waiting.step = None
        if answer.status == 404:
            raise TryLost("the rollout server does not know this rollout any more")
        if answer.status != 200:
            raise ProtocolBroken(f"GET {path} was answered HTTP {answer.status}: {answer.text()}")
        parsed = _object(answer, "the result")
        if parsed.get("rollout_id") != rollout_id:
            raise ProtocolBroken(f"the result names rollout {parsed.get('rollout_id')!r}")
        status = parsed.get("status")
        if status in RUNNING_STATUSES:
            continue
        if status not in FINAL_STATUSES:
            raise ProtocolBroken(f"the result has the unknown status {status!r}")
        sample = parsed.get("sample")
        if sample is not None and not isinstance(sample, dict):
            raise ProtocolBroken("the result's sample is not an object")
        return RolloutResult(
            status=status,
            sample=sample,
            err_message=_text_or_none(parsed.get("err_message")),
            err_category=_text_or_none(parsed.get("err_category")),
            trajectory=_text_or_none(parsed.get("trajectory")),
            workflow_metrics=_object_or_none(parsed.get("workflow_metrics")),
            queued_s=lease.queued_s,
        )


async def _poll(
    link: RolloutLink, path: str, headers: dict[str, str], lease: _Lease, waiting: _Waiting
) -> Answer:
    """One poll, with the protocol's retries; they never reach beyond what the lease allows."""
    loop = asyncio.get_running_loop()
    give_up = loop.time() + lease.lease_s
    broken, refused = iter(TRANSPORT_DELAYS_S), iter(GATEWAY_DELAYS_S)
    while True:
        try:
            answer = await link.request(
                "GET", path, headers=headers, timeout_s=lease.wait_s + POLL_SLACK_S
            )
        except LinkBroken as error:
            await _notice_exit(link)
            waiting.step = f"The rollout's server did not answer GET {path} ({error})."
            # A silent server is the watchdog's business; a refusing one is given up here.
            delay = next(broken, TRANSPORT_DELAYS_S[-1])
            if loop.time() + delay > give_up:
                raise TryLost(
                    f"GET {path}: the rollout server cannot be reached ({error})"
                ) from error
        else:
            if answer.status not in GATEWAY_STATUSES:
                return answer
            delay = next(refused, None)
            if delay is None or loop.time() + delay > give_up:
                return answer
        await asyncio.sleep(delay)


async def _notice_exit(link: RolloutLink) -> None:
    """After a transport error, let the exit of the process be seen before blaming the link."""
    await asyncio.sleep(0 if link.closed else EXIT_NOTICE_S)
    if link.close_reason is not None:
        raise LinkClosed(link.close_reason)


def unsupported_dialect() -> RunFailed:
    """The rollout runs the vendor's SDK before 0.3.3."""
    return RunFailed(
        "rollout_protocol_unsupported",
        "The rollout's server speaks the older callback protocol of osmosis-ai 0.3.0 to 0.3.2.",
        hint="Require 'osmosis-ai[server]>=0.3.3' (or 'osmosis-platform') in the rollout's "
        "pyproject.toml, commit, push and submit again.",
    )


def _object(answer: Answer, what: str) -> dict[str, Any]:
    try:
        parsed = loads(answer.body)
    except ValueError as error:
        raise ProtocolBroken(f"{what} is not JSON: {answer.text()[:200]!r}") from error
    if not isinstance(parsed, dict):
        raise ProtocolBroken(f"{what} is not a JSON object: {answer.text()[:200]!r}")
    return parsed


def _positive(value: Any) -> TypeGuard[float]:
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and math.isfinite(value)
        and value > 0
    )


def _object_or_none(value: Any) -> dict[str, Any] | None:
    return value if isinstance(value, dict) and value else None


def _text_or_none(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _retry_after_s(header: str | None) -> float:
    try:
        seconds = float(header or "")
    except ValueError:
        return RETRY_AFTER_DEFAULT_S
    if math.isnan(seconds):
        return RETRY_AFTER_DEFAULT_S
    return min(max(seconds, RETRY_AFTER_MIN_S), RETRY_AFTER_MAX_S)
