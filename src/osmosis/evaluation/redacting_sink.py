"""The sink as the engine sees it: what is said through it holds no secret value.

Records and artifacts are redacted where they are made (``recorder.py``), since only that place
knows their parts. Everything else passes here, whoever says it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from osmosis.evaluation.plan import Sink
from osmosis.evaluation.redaction import Redactor
from osmosis.wire.runner import LogLevel, Stage
from osmosis.wire.samples import SampleRecord


class RedactingSink:
    """Passes everything on to another sink."""

    def __init__(self, sink: Sink, redactor: Redactor) -> None:
        self._sink = sink
        self._redactor = redactor

    async def stage(self, stage: Stage) -> None:
        await self._sink.stage(stage)

    def log(
        self, level: LogLevel, step: str, message: str, details: dict[str, Any] | None = None
    ) -> None:
        self._sink.log(level, step, self._redactor.text(message), self._redactor.json(details))

    async def record(self, record: SampleRecord) -> None:
        await self._sink.record(record)

    async def artifact(self, rollout_id: str, relative_path: str, source: Path) -> None:
        await self._sink.artifact(rollout_id, relative_path, source)

    async def effective(self, values: dict[str, Any]) -> None:
        await self._sink.effective(self._redactor.json(values))

    async def flush(self) -> None:
        await self._sink.flush()
