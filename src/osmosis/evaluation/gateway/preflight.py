"""The check before any row: does the model answer one real small completion?

Every way in which it cannot has its own kind, sentence and remedy. Slowness and 5xx are warnings
only: the model may well be there when the rows come.
"""

from __future__ import annotations

import asyncio
import re
from time import monotonic

from osmosis.evaluation.budget import require_counts
from osmosis.evaluation.call_width import BACKOFF_FIRST_S
from osmosis.evaluation.gateway.chat import ChatRequest, Reply, Usage
from osmosis.evaluation.gateway.failures import TextRedactor, UpstreamFailure, shown
from osmosis.evaluation.gateway.model import Model
from osmosis.evaluation.gateway.openai_compatible import OpenAICompatible
from osmosis.evaluation.gateway.replay import ReplayModel
from osmosis.evaluation.plan import Sink
from osmosis.wire.errors import RunFailed
from osmosis.wire.failure_policy import policy_of_call
from osmosis.wire.samples import Route
from osmosis.workspace.advanced import AdvancedSection

STEP = "checking model"
PROBE_MAX_TOKENS = 256
PROBE_TIMEOUT_S = 60.0
PASSING_KINDS = ("server_error", "overloaded")
RATE_LIMIT_PATIENCE_S = 10.0
"""How long rate-limited probes are spaced out before the run ends."""

MODEL_MISSING = re.compile(
    r"model\W.*(not|n't)\W.*(exist|found|access|available|valid|support)"
    r"|(no such|unknown|invalid|unsupported) model|not a valid model|model_not_found"
    r"|model .*is not|no endpoints found",
    re.IGNORECASE | re.DOTALL,
)
MAX_TOKENS_REFUSED = re.compile(r"max_completion_tokens", re.IGNORECASE)


async def check_model(
    model: Model, route: Route, advanced: AdvancedSection, sink: Sink, redactor: TextRedactor
) -> Usage | None:
    """One completion, and what it used, or RunFailed with the reason; None, and a warning, when in
    doubt. A model that answers from here has nothing to be asked and uses nothing."""
    if isinstance(model, ReplayModel):
        sink.log("info", STEP, model.summary)
        return Usage()
    if model.scripted:
        sink.log("info", STEP, f"{model.path} is a scripted model: its answers come from rules.")
        return Usage()
    began = monotonic()
    try:
        async with asyncio.timeout(PROBE_TIMEOUT_S):
            reply = await _patiently(model, route, advanced)
    except TimeoutError:
        sink.log(
            "warning",
            STEP,
            f"{model.path} did not answer a small completion within {PROBE_TIMEOUT_S:.0f} s. "
            "The run goes on; its rows may time out.",
        )
        return None
    except UpstreamFailure as failure:
        if failure.kind in PASSING_KINDS or failure.status == 408:
            sink.log(
                "warning",
                STEP,
                f"{model.path} answered a small completion with HTTP {failure.status}: "
                f"{shown(failure.message, redactor)}. The run goes on and tries again.",
            )
            return None
        raise _redacted(await _verdict(model, failure), redactor) from None
    require_counts(advanced, model.path, told=reply.usage.prompt_tokens is not None)
    sink.log("info", STEP, f"{model.path} answers (in {monotonic() - began:.2f} s).")
    return reply.usage


async def model_fault(
    model: Model, route: Route, kind: str, advanced: AdvancedSection, redactor: TextRedactor
) -> RunFailed | None:
    """One small completion in the middle of a run: why the model cannot serve it, or None.

    Here, unlike before the first row, slowness and 5xx are faults; a rate limit is none, for the
    limiter deals with it. A scripted model cannot be asked: a refusal of its rules is believed.
    What a replay repeats is no fault of now.
    """
    if isinstance(model, ReplayModel):
        return None
    if model.scripted:
        policy = policy_of_call(kind)
        if policy.halts is None or policy.retry == "call":
            return None
        return RunFailed(policy.halts, f"The rules of {model.path} say: {policy.means}.")
    try:
        async with asyncio.timeout(PROBE_TIMEOUT_S):
            await _probe(model, route, advanced)
    except TimeoutError:
        return RunFailed(
            "model_unreachable",
            f"{model.path} did not answer a small completion within {PROBE_TIMEOUT_S:.0f} s.",
            hint="See whether the model's server is alive.",
        )
    except UpstreamFailure as failure:
        if failure.kind == "rate_limit":
            return None
        if failure.kind in PASSING_KINDS:
            return _redacted(
                RunFailed(
                    "model_unreachable",
                    f"{model.path} answered a small completion with HTTP {failure.status}: "
                    f"{failure.message}",
                    hint="See whether the model's server is alive.",
                ),
                redactor,
            )
        return _redacted(await _verdict(model, failure), redactor)
    return None


async def _patiently(model: Model, route: Route, advanced: AdvancedSection) -> Reply:
    """The probe, again after a rate limit while patience lasts and retries are allowed."""
    deadline = monotonic() + RATE_LIMIT_PATIENCE_S
    wait_s = 2 * BACKOFF_FIRST_S
    while True:
        try:
            return await _probe(model, route, advanced)
        except UpstreamFailure as failure:
            asked_s = failure.retry_after_s if failure.retry_after_s is not None else wait_s
            if (
                failure.kind != "rate_limit"
                or not (failure.retryable and advanced.max_retries)
                or monotonic() + asked_s > deadline
            ):
                raise
            await asyncio.sleep(max(asked_s, BACKOFF_FIRST_S))
            wait_s *= 2


async def _probe(model: Model, route: Route, advanced: AdvancedSection) -> Reply:
    try:
        return await model.complete(small_request(route, advanced))
    except UpstreamFailure as failure:
        if (
            isinstance(model, OpenAICompatible)
            and failure.status in (400, 422)
            and not model.renames_max_tokens
            and MAX_TOKENS_REFUSED.search(failure.message)
        ):
            # OpenAI's reasoning models and their kin; from here on for every call of the run.
            model.renames_max_tokens = True
            return await model.complete(small_request(route, advanced))
        raise


def small_request(route: Route, advanced: AdvancedSection) -> ChatRequest:
    """With the run's own inference settings, so that a refused one shows before the rows."""
    body = {
        "messages": [{"role": "user", "content": "hi"}],
        "max_tokens": min(PROBE_MAX_TOKENS, advanced.max_tokens or PROBE_MAX_TOKENS),
    }
    request = ChatRequest(body=body, requested_model="osmosis", stream=False, route=route)
    if route == "policy":
        request.apply_defaults(advanced)
    return request


async def _verdict(model: Model, failure: UpstreamFailure) -> RunFailed:
    where = f" at {model.base_url}" if model.base_url else ""
    said = f"The answer was HTTP {failure.status}: {failure.message}"
    if failure.kind == "auth":
        return RunFailed(
            "model_key_rejected",
            f"The provider of '{model.path}'{where} rejects the API key. {said}",
            hint="Check the key's value, its expiry and whether it may use this model, and store "
            "it anew with 'osmosis secret set'.",
        )
    if failure.kind == "quota":
        return RunFailed(
            "model_quota_exhausted",
            f"The provider of '{model.path}'{where} reports a spent quota. {said}",
            hint="Add credit or raise the limit of the account, then submit again.",
        )
    if failure.kind == "rate_limit":
        return RunFailed(
            "model_rate_limited",
            f"The provider of '{model.path}'{where} refuses calls for its rate limit. {said}",
            hint="Submit again later, lower batch_size, or ask the provider for a higher limit.",
        )
    if failure.kind in ("connection", "timeout") and failure.status is None:
        return RunFailed(
            "model_unreachable",
            f"The provider of '{model.path}'{where} cannot be reached. {failure.message}",
            hint="Check the address, that the server runs, and that this machine may reach it.",
        )
    if _names_a_missing_model(model, failure):
        known = await model.near_models() if isinstance(model, OpenAICompatible) else ""
        return RunFailed(
            "model_not_found",
            f"The provider{where} does not know the model of '{model.path}'. {said}",
            hint=f"{known} Correct model_path, or get access to the model.".strip(),
        )
    if failure.status in (404, 405) or failure.html or failure.kind == "bad_response":
        return await _wrong_endpoint(model, failure, where)
    return RunFailed(
        "model_refused",
        f"The provider of '{model.path}'{where} refuses a small completion. {said}",
        hint="Correct what the provider names, for example a setting in [advanced] that the model "
        "does not take.",
    )


def _names_a_missing_model(model: Model, failure: UpstreamFailure) -> bool:
    if failure.html or failure.status not in (400, 404, 422):
        return False
    text = f"{failure.code or ''} {failure.message}"
    name = model.path.rpartition("/")[2]
    return bool(MODEL_MISSING.search(text)) or (failure.status == 404 and name in text)


async def _wrong_endpoint(model: Model, failure: UpstreamFailure, where: str) -> RunFailed:
    hint = "Check the base URL: it must be the one below which /chat/completions lies."
    if isinstance(model, OpenAICompatible) and await model.serves_at_v1():
        hint = f"The base URL lacks its end: use {model.base_url}/v1"
    answered = f"HTTP {failure.status}: " if failure.status != 502 else ""
    return RunFailed(
        "model_wrong_endpoint",
        f"The address of '{model.path}'{where} is not an OpenAI-compatible chat endpoint. "
        f"{answered}{failure.message}",
        hint=hint,
    )


def _redacted(failure: RunFailed, redactor: TextRedactor) -> RunFailed:
    hint = shown(failure.hint, redactor) if failure.hint else None
    return RunFailed(failure.kind, shown(failure.message, redactor), hint=hint)
