"""From records to spans: run → sample → model call, by OpenTelemetry's GenAI conventions.

Spans are made of what is recorded, with the times at which things happened, so that a restart of
any process cuts no trace. Ids follow from ours: the trace id is the run's id, and a span's id comes
from the id of what it stands for. Message contents stay out unless the server's settings ask for
them. Imported only where an endpoint is configured.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

import osmosis
from osmosis.platform.observability.providers import ENDPOINT, provider_name
from osmosis.platform.observability.story import EndedRun, Run, TracedSample
from osmosis.wire.samples import ModelCall

SCOPE = InstrumentationScope("osmosis", osmosis.__version__)


def run_span(ended: EndedRun, resource: Resource) -> ReadableSpan:
    """The root of one generation of a run, once it has ended."""
    run = ended.run
    attributes = {
        **_identity(run),
        "gen_ai.request.model": model_name(run.model_path),
        "gen_ai.provider.name": provider_name(run.model_path),
        "osmosis.dataset": ended.dataset,
        "osmosis.status": ended.status,
        "osmosis.stop_reason": ended.stop_reason,
        "osmosis.samples.graded": ended.graded,
        "osmosis.samples.failed": ended.failed,
        "osmosis.samples.skipped": ended.skipped,
        "osmosis.cost_usd": ended.cost_usd,
        "error.type": ended.error_kind,
    }
    return _span(
        f"evaluate {run.rollout}",
        run,
        _root_id(run),
        parent=None,
        resource=resource,
        attributes=attributes,
        times=(ended.started_at, ended.ended_at),
        failed=ended.status == "failed",
    )


def sample_spans(sample: TracedSample, resource: Resource) -> Iterator[ReadableSpan]:
    """The span of a sample's winning try, then those of its model calls."""
    run, record = sample.run, sample.record
    sample_id = _span_id(record.rollout_id)
    common = {
        **_identity(run),
        "osmosis.row_index": record.row_index,
        "osmosis.run_index": record.run_index,
        "osmosis.rollout_id": record.rollout_id,
    }
    attributes = {
        **common,
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": run.rollout,
        "gen_ai.conversation.id": record.rollout_id,
        "gen_ai.provider.name": provider_name(run.model_path),
        "gen_ai.request.model": model_name(run.model_path),
        "gen_ai.usage.input_tokens": record.prompt_tokens,
        "gen_ai.usage.output_tokens": record.completion_tokens,
        "gen_ai.input.messages": sample.input_messages,
        "gen_ai.output.messages": sample.output_messages,
        "osmosis.source_row": record.source_row,
        "osmosis.status": record.status,
        "osmosis.reward": record.reward,
        "osmosis.tries": record.tries,
        "osmosis.cost_usd": record.cost_usd,
        "error.type": record.error_type,
    }
    yield _span(
        f"invoke_agent {run.rollout}",
        run,
        sample_id,
        parent=_root_id(run),
        resource=resource,
        attributes=attributes,
        times=(record.started_at, record.finished_at),
        failed=record.status == "failed",
        message=sample.error_message,
    )
    for index, call in enumerate(record.calls):
        call_id = f"{record.rollout_id}/{index}"
        yield _call_span(run, call, call_id, common=common, parent=sample_id, resource=resource)


def model_name(model_path: str) -> str:
    """What the provider calls the model: the path without the provider's prefix."""
    known = provider_name(model_path) != ENDPOINT
    return model_path.partition("/")[2] if known else model_path


def trace_id(run_id: str) -> int:
    """The run's own id, which has the length of a trace id."""
    try:
        number = int(run_id, 16) if len(run_id) == 32 else 0
    except ValueError:
        number = 0
    return number or _number(run_id, 16)


def _call_span(
    run: Run,
    call: ModelCall,
    call_id: str,
    *,
    common: dict[str, Any],
    parent: int,
    resource: Resource,
) -> ReadableSpan:
    name = model_name(call.model)
    attributes = {
        **common,
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": provider_name(call.model),
        "gen_ai.request.model": name,
        "gen_ai.usage.input_tokens": call.prompt_tokens,
        "gen_ai.usage.output_tokens": call.completion_tokens,
        "gen_ai.usage.cache_read.input_tokens": call.cached_tokens,
        "gen_ai.usage.cache_creation.input_tokens": call.cache_write_tokens,
        "gen_ai.response.finish_reasons": [call.finish_reason] if call.finish_reason else None,
        "http.response.status_code": call.http_status,
        "osmosis.call_id": call_id,
        "osmosis.route": call.route,
        "osmosis.queue_s": call.queue_s,
        "osmosis.upstream_requests": call.upstream_requests,
        "osmosis.cost_usd": call.cost_usd,
        "error.type": call.error_kind,
    }
    return _span(
        f"chat {name}",
        run,
        _span_id(call_id),
        parent=parent,
        resource=resource,
        attributes=attributes,
        times=(call.started_at, call.started_at + call.queue_s + call.latency_s),
        failed=call.error_kind is not None,
        kind=SpanKind.CLIENT,
    )


def _span(
    name: str,
    run: Run,
    span_id: int,
    *,
    parent: int | None,
    resource: Resource,
    attributes: dict[str, Any],
    times: tuple[float, float],
    failed: bool,
    message: str | None = None,
    kind: SpanKind = SpanKind.INTERNAL,
) -> ReadableSpan:
    trace = trace_id(run.id)
    # A float holds unix time to a microsecond.
    start_ns, end_ns = (round(time * 1e6) * 1000 for time in times)
    return ReadableSpan(
        name,
        context=_context(trace, span_id),
        parent=_context(trace, parent) if parent is not None else None,
        resource=resource,
        attributes={key: value for key, value in attributes.items() if value is not None},
        kind=kind,
        status=Status(StatusCode.ERROR, message) if failed else Status(StatusCode.UNSET),
        start_time=start_ns,
        end_time=max(start_ns, end_ns),
        instrumentation_scope=SCOPE,
    )


def all_spans(
    stories: Iterable[EndedRun | TracedSample], resource: Resource
) -> Iterator[ReadableSpan]:
    for story in stories:
        if isinstance(story, EndedRun):
            yield run_span(story, resource)
        else:
            yield from sample_spans(story, resource)


def _identity(run: Run) -> dict[str, Any]:
    return {
        "osmosis.run.id": run.id,
        "osmosis.run.name": run.name,
        "osmosis.run.generation": run.generation,
    }


def _context(trace: int, span: int) -> SpanContext:
    return SpanContext(trace, span, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))


def _root_id(run: Run) -> int:
    return _span_id(f"{run.id}:{run.generation}")


def _span_id(name: str) -> int:
    return _number(name, 8)


def _number(name: str, size: int) -> int:
    """``size`` bytes that follow from ``name``; never zero, which means "none"."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:size], "big") or 1
