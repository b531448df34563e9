"""What the engine does about a fault that many samples share: ask the model, wait, or halt."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from osmosis.evaluation.admission import MODEL_IN_DOUBT, Admission
from osmosis.evaluation.deadlines import Deadlines
from osmosis.evaluation.fault_watch import Ended, FaultWatch, passes_by_itself
from osmosis.evaluation.parts import GatewayPart
from osmosis.evaluation.plan import Sink
from osmosis.wire.errors import RunFailed
from osmosis.wire.samples import Route

FIRST_WAIT_S, LONGEST_WAIT_S = 1.0, 10.0

Record = Callable[[Ended], Awaitable[None]]


class Halted(RunFailed):
    """No sample can get through: no new one starts, those in flight may end."""


class FaultResponse:
    """Every try that ends passes here on its way to its record."""

    def __init__(
        self,
        *,
        gateway: GatewayPart,
        admission: Admission,
        deadlines: Deadlines,
        record: Record,
        discard: Record,
        sink: Sink,
    ) -> None:
        self._gateway = gateway
        self._admission = admission
        self._deadlines = deadlines
        self._record = record
        self._discard = discard
        self._sink = sink
        self._watch = FaultWatch()
        self._examining = False
        self.waiting_for: str | None = None
        """For people, while an outage is waited out."""

    async def ended(self, ended: Ended) -> None:
        """Record what can be recorded; RunFailed when the run must be halted."""
        to_record = self._watch.look(ended)
        suspect = None if self._examining else self._watch.suspect()
        if suspect is not None:
            # Before anything is awaited, or the run might seem over.
            self._examining = True
            self._admission.pause(MODEL_IN_DOUBT)
        for each in to_record:
            await self._record(each)
        if suspect is not None:
            try:
                await self._examine(*suspect)
            finally:
                self._examining = False
                self._admission.resume(MODEL_IN_DOUBT)

    async def finish(self) -> None:
        """No sample is left: decide on those that are still held."""
        while (undecided := self._watch.undecided()) is not None:
            route, kind = undecided
            if not passes_by_itself(kind) and (fault := await self._gateway.probe(route, kind)):
                await self._halt(route, kind, fault)
            for held in self._watch.clear(route):
                await self._record(held)

    async def _examine(self, route: Route, kind: str) -> None:
        fault = await self._gateway.probe(route, kind)
        outage = fault is not None and passes_by_itself(kind)
        if fault is not None and outage:
            fault = await self._wait_out(route, kind, fault)
        if fault is not None:
            await self._halt(route, kind, fault)
        for held in self._watch.clear(route):
            if outage:
                held.sample.held = True
                held.sample.interrupted(held.facts.calls)
                self._admission.retry([held.sample])
                await self._discard(held)
            else:
                await self._record(held)

    async def _wait_out(self, route: Route, kind: str, fault: RunFailed) -> RunFailed | None:
        """Ask again for a while; None as soon as the model answers."""
        limit_s = self._deadlines.outage_s
        self.waiting_for = f"the {route} model, which does not answer (for {limit_s:g} s at most)"
        self._sink.log(
            "warning",
            "model",
            f"{fault.message} No new sample starts; the model is asked again for {limit_s:g} s.",
        )
        loop = asyncio.get_running_loop()
        deadline, wait_s = loop.time() + limit_s, FIRST_WAIT_S
        try:
            while loop.time() < deadline:
                await asyncio.sleep(min(wait_s, max(0.0, deadline - loop.time())))
                wait_s = min(2 * wait_s, LONGEST_WAIT_S)
                again = await self._gateway.probe(route, kind)
                if again is None:
                    self._sink.log("info", "model", f"The {route} model answers again.")
                    return None
                fault = again
            return fault
        finally:
            self.waiting_for = None

    async def _halt(self, route: Route, kind: str, fault: RunFailed) -> None:
        held = self._watch.halt()
        for each in held:
            await self._discard(each)
        raise Halted(
            fault.kind,
            f"The run is halted, for the {route} model fails every sample ({kind}). "
            f"{fault.message}",
            hint=f"{fault.hint or 'See to the model.'} Then retry the run: the samples that are "
            "left are still pending.",
        )
