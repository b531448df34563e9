"""Notices a fault that all samples share: a key that is rejected, a quota spent, a model gone.

One failed sample proves nothing, so those that fail in a way that may be everybody's are *held*
instead of recorded, until it is plain which it is:

- a sample asks after the first of them and gets through to the model: single refusals, and the held
  ones are recorded as failed;
- several fail in a row: the engine asks the model itself. When that fails too, the run is halted
  and the held samples stay pending, for nothing was wrong with them. When it answers again after
  an outage, they run once more; when it answers at once, they are recorded after all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from osmosis.evaluation.classification import Classified
from osmosis.evaluation.recorder import TryFacts
from osmosis.evaluation.sample import Sample
from osmosis.wire.failure_policy import HALT_AFTER_IN_A_ROW, policy_of_call
from osmosis.wire.samples import ModelCall, Route

REACHED_KINDS = frozenset({"invalid_request", "context_length"})
"""The model's answer to what it was asked, whoever is to blame for that."""

ROUTES: tuple[Route, ...] = ("policy", "judge")


@dataclass(slots=True)
class Ended:
    """A try that has its verdict."""

    sample: Sample
    verdict: Classified
    facts: TryFacts


@dataclass(slots=True)
class _Suspicion:
    in_a_row: int = 0
    threshold: int = HALT_AFTER_IN_A_ROW
    kind: str = ""
    since: float = 0.0
    """When the first of them was refused, in unix time."""
    held: list[Ended] = field(default_factory=list)


class FaultWatch:
    """Looks at each try that ends, in the order in which they end."""

    def __init__(self) -> None:
        self._routes = {route: _Suspicion() for route in ROUTES}
        self.halted = False
        """From then on a sample that the fault hits is neither recorded nor held."""

    def look(self, ended: Ended) -> list[Ended]:
        """What is to be recorded now: this try, unless it is held; and those let go by it."""
        recorded: list[Ended] = []
        for route in ROUTES:
            suspicion = self._routes[route]
            call = _last_word(ended.facts.calls, route)
            if call is None:
                continue
            kind = _shared_fault(call)
            if kind is None:
                # One that was on its way already knows nothing of a key rejected since then.
                if not suspicion.in_a_row or _asked_at(call) >= suspicion.since:
                    recorded += [] if self.halted else suspicion.held
                    self._routes[route] = _Suspicion()
                continue
            if not suspicion.in_a_row:
                suspicion.since = _asked_at(call) + call.latency_s
            suspicion.in_a_row += 1
            suspicion.kind = kind
            if self._is_hit(ended, kind):
                if not self.halted:
                    suspicion.held.append(ended)
                return recorded
        return [*recorded, ended]

    def suspect(self) -> tuple[Route, str] | None:
        """The route on which enough tries failed in a row, and how the last one did."""
        if self.halted:
            return None
        for route in ROUTES:
            suspicion = self._routes[route]
            if suspicion.in_a_row >= suspicion.threshold:
                return route, suspicion.kind
        return None

    def undecided(self) -> tuple[Route, str] | None:
        """A route with held tries that nothing has come after."""
        for route in ROUTES:
            suspicion = self._routes[route]
            if suspicion.held and not self.halted:
                return route, suspicion.kind
        return None

    def clear(self, route: Route) -> list[Ended]:
        """The model answers: take the held tries; the next alarm needs twice as many."""
        suspicion = self._routes[route]
        self._routes[route] = _Suspicion(threshold=2 * suspicion.threshold)
        return suspicion.held

    def halt(self) -> list[Ended]:
        """The fault is everybody's: take the held tries, whose samples stay pending."""
        self.halted = True
        held = [ended for suspicion in self._routes.values() for ended in suspicion.held]
        for suspicion in self._routes.values():
            suspicion.held = []
        return held

    @staticmethod
    def _is_hit(ended: Ended, kind: str) -> bool:
        """Whether the sample failed by the fault itself, and was not given its second chance."""
        verdict = ended.verdict
        return verdict.status == "failed" and verdict.error_kind == kind and not ended.sample.held


def passes_by_itself(kind: str) -> bool:
    """Whether waiting may mend this fault, as it mends an outage but not a rejected key."""
    return policy_of_call(kind).retry == "call"


def _last_word(calls: Sequence[ModelCall], route: Route) -> ModelCall | None:
    """The last call that says something of the model: it reached it, or failed as all may."""
    for call in reversed(calls):
        if call.route != route or call.cached or call.replayed:
            continue
        if call.error_kind is None or call.error_kind in REACHED_KINDS:
            return call
        policy = policy_of_call(call.error_kind)
        if policy.halts is not None or policy.fault == "provider":
            return call
    return None


def _shared_fault(call: ModelCall) -> str | None:
    """The kind of a fault that may be everybody's; None when the model was reached."""
    if call.error_kind is None or policy_of_call(call.error_kind).halts is None:
        return None
    return call.error_kind


def _asked_at(call: ModelCall) -> float:
    """When the provider was asked: what came before was a wait of ours."""
    return call.started_at + call.queue_s
