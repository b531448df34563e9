"""Sends traces to an OTLP collector, beside everything else: a run never waits for it.

Stories (:mod:`.story`) wait in a bounded queue; a thread makes spans of them and posts those in
batches. When the collector is away, the exporter tries for a few seconds, then the batch is
dropped and counted; so is what does not fit the queue.
"""

from __future__ import annotations

import asyncio
import logging
import os
import queue
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import osmosis
from osmosis.platform.db import models
from osmosis.platform.observability.metrics import Metrics
from osmosis.platform.observability.story import EndedRun, Run, TracedSample
from osmosis.platform.settings import Settings
from osmosis.wire.samples import SampleRecord

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
QUEUED_STORIES = 10_000
BATCH_STORIES = 200
BATCH_WAIT_S = 1.0
CLOSE_WAIT_S = 2.0

log = logging.getLogger("osmosis.platform.traces")

Story = EndedRun | TracedSample


class Traces:
    """Does nothing, and imports nothing, unless an endpoint is configured."""

    def __init__(
        self, settings: Settings, metrics: Metrics, environ: Mapping[str, str] = os.environ
    ) -> None:
        self._metrics = metrics
        self._content = settings.trace_content
        self._endpoint = _endpoint(settings, environ)
        self._queue: queue.Queue[Story] = queue.Queue(QUEUED_STORIES)
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        self._exporter: Any = None
        self._delivering = True

    @property
    def enabled(self) -> bool:
        return self._endpoint is not None

    def start(self) -> None:
        if self.enabled:
            self._thread = threading.Thread(target=self._send_all, name="traces", daemon=True)
            self._thread.start()

    async def close(self) -> None:
        """Send what waits, for a moment at most."""
        if self._thread is None:
            return
        self._closing.set()
        await asyncio.to_thread(self._thread.join, CLOSE_WAIT_S)
        if self._exporter is not None:
            self._exporter.shutdown()

    def recorded(self, run: Run, records: Iterable[SampleRecord]) -> None:
        """Samples were recorded for the first time."""
        if self.enabled:
            for record in records:
                self._put(TracedSample.of(run, record, content=self._content))

    def ended(self, run: models.Run) -> None:
        """A run came to its end."""
        if self.enabled:
            self._put(EndedRun.of(run))

    def _put(self, story: Story) -> None:
        try:
            self._queue.put_nowait(story)
        except queue.Full:
            self._metrics.spans_dropped.inc(_span_count([story]))

    # --- in the thread -----------------------------------------------------------------------

    def _send_all(self) -> None:
        # Start-up weight: 0.3 s and 20 MB that only those with a collector need.
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415
            OTLPSpanExporter,
        )
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415

        from osmosis.platform.observability.spans import all_spans  # noqa: PLC0415

        # With None it follows the variables itself; headers always come from there.
        self._exporter = OTLPSpanExporter(endpoint=self._endpoint or None)
        resource = Resource.create(_resource(os.environ))
        while stories := self._next_batch():
            try:
                result = self._exporter.export(list(all_spans(stories, resource)))
                delivered = result.value == 0
            except Exception:
                log.exception("A batch of traces could not be made.")
                delivered = False
            self._note(delivered, stories)

    def _next_batch(self) -> list[Story]:
        """The next stories, some at a time; empty when the server closes and none is left."""
        batch: list[Story] = []
        while not batch:
            with suppress(queue.Empty):
                batch.append(self._queue.get(timeout=0.1 if self._closing.is_set() else 0.5))
            if not batch and self._closing.is_set():
                return []
        if len(batch) < BATCH_STORIES and not self._closing.is_set():
            self._closing.wait(BATCH_WAIT_S)
        with suppress(queue.Empty):
            while len(batch) < BATCH_STORIES:
                batch.append(self._queue.get_nowait())
        return batch

    def _note(self, delivered: bool, stories: list[Story]) -> None:
        if not delivered:
            self._metrics.spans_dropped.inc(_span_count(stories))
        if delivered != self._delivering:
            self._delivering = delivered
            if delivered:
                log.info("Traces are delivered again.")
            else:
                log.warning(
                    "Traces cannot be delivered to %s; runs go on without them.",
                    urlsplit(self._endpoint or "").hostname or "the configured collector",
                )


def _endpoint(settings: Settings, environ: Mapping[str, str]) -> str | None:
    """Where traces go: the setting's address, or "" for what OpenTelemetry's variables say."""
    disabled = environ.get("OTEL_SDK_DISABLED", "").lower() == "true"
    if disabled or environ.get("OTEL_TRACES_EXPORTER", "otlp") == "none":
        return None
    if settings.otlp_endpoint:
        return settings.otlp_endpoint.rstrip("/") + "/v1/traces"
    return "" if any(environ.get(name) for name in ENDPOINTS) else None


def _resource(environ: Mapping[str, str]) -> dict[str, str]:
    named = "OTEL_SERVICE_NAME" in environ or "service.name" in environ.get(
        "OTEL_RESOURCE_ATTRIBUTES", ""
    )
    name = {} if named else {"service.name": "osmosis"}
    return {**name, "service.version": osmosis.__version__}


def _span_count(stories: Iterable[Story]) -> int:
    return sum(
        1 + len(story.record.calls) if isinstance(story, TracedSample) else 1 for story in stories
    )
