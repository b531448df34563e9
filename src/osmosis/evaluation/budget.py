"""The budgets of a run: ``max_total_tokens`` and ``max_cost_usd``, over policy and judge.

Every model call counts the moment it ends, whatever becomes of its sample. What was spent before
(by earlier generations, by a process that died) and what other shards of the run spend comes from
the platform with each acknowledgement:

    spent = what the platform has counted + own calls that it has not counted yet

Once a budget is spent no new sample starts; those in flight are finished. A run that left samples
out is *stopped*, never finished.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from osmosis.evaluation.plan import Outcome
from osmosis.wire.errors import RunFailed
from osmosis.wire.samples import ModelCall, SampleRecord
from osmosis.wire.spending import Spending
from osmosis.workspace.advanced import AdvancedSection

STOP_REASON = "budget"


class Budget:
    """What one run may spend, and what it has spent. ``on_spent`` is called once, at the limit."""

    def __init__(self, advanced: AdvancedSection, spent: Spending | None = None) -> None:
        self._max_tokens = advanced.max_total_tokens
        self._max_usd = advanced.max_cost_usd
        self._counted = spent or Spending()
        self._own = Spending()
        self._told = False
        self.unmeasured_calls = 0
        """Answered calls whose tokens nobody told."""
        self.on_spent: Callable[[], None] | None = None
        self.on_own: Callable[[Spending], None] | None = None
        """Told what own calls used that stand in no acknowledged record, whenever that changes."""

    @property
    def spent(self) -> Spending:
        return self._counted + self._own

    @property
    def is_spent(self) -> bool:
        return self.key is not None

    @property
    def key(self) -> str | None:
        """The budget that is spent, by its key in [advanced]."""
        spent = self.spent
        if self._max_usd is not None and spent.usd >= self._max_usd:
            return "max_cost_usd"
        if self._max_tokens is not None and spent.tokens >= self._max_tokens:
            return "max_total_tokens"
        return None

    def add(self, call: ModelCall) -> None:
        """Count a call that has ended."""
        used = Spending.of_calls((call,))
        if call.http_status < 400 and call.prompt_tokens is None:
            self.unmeasured_calls += 1
        if used.tokens or used.usd:
            self._keep(self._own + used)

    def acknowledged(self, total: Spending | None, records: Iterable[SampleRecord]) -> None:
        """The platform has counted these records; ``total`` is what it has for the whole run."""
        recorded = Spending.of_calls(call for record in records for call in record.calls)
        self._counted = total if total is not None else self._counted + recorded
        self._keep(self._own.without(recorded))

    def describe(self) -> dict[str, Any]:
        """Each budget that is set, allowed and spent."""
        spent, described = self.spent, {}
        if self._max_usd is not None:
            described["max_cost_usd"] = {"allowed": self._max_usd, "spent": round(spent.usd, 6)}
        if self._max_tokens is not None:
            described["max_total_tokens"] = {"allowed": self._max_tokens, "spent": spent.tokens}
        if described and self.unmeasured_calls:
            described["unmeasured_calls"] = self.unmeasured_calls
        return described

    def sentence(self) -> str:
        """Which budget is spent, and by how much."""
        spent = self.spent
        if self.key == "max_cost_usd":
            text = f"${spent.usd:.6g} of max_cost_usd = {self._max_usd:g} are spent"
        else:
            text = f"{spent.tokens:,} tokens of max_total_tokens = {self._max_tokens} are spent"
        text = f"The budget is used up: {text} (policy and judge, all generations)."
        if self.unmeasured_calls:
            text += f" {self.unmeasured_calls} answers came without token counts and are not in it."
        return text

    def outcome(self) -> Outcome:
        """How a run ends that left samples out for its budget."""
        return Outcome("stopped", stop_reason=STOP_REASON, stop_message=self.sentence())

    def _keep(self, own: Spending) -> None:
        self._own = own
        if self.on_own is not None:
            self.on_own(own)
        if not self._told and self.on_spent is not None and self.is_spent:
            self._told = True
            self.on_spent()


def require_price(advanced: AdvancedSection, path: str, *, known: bool) -> None:
    """Refuse a cost budget that could not be kept, before anything is spent."""
    if advanced.max_cost_usd is not None and not known:
        raise RunFailed(
            "budget_not_measurable",
            f"max_cost_usd is set, but no price is known for '{path}': the budget could not be "
            "kept.",
            hint="Set max_total_tokens in [advanced] instead of max_cost_usd.",
        )


def require_counts(advanced: AdvancedSection, path: str, *, told: bool) -> None:
    """Refuse a budget where the provider does not say what a call used."""
    if told:
        return
    for key in ("max_cost_usd", "max_total_tokens"):
        if getattr(advanced, key) is not None:
            raise RunFailed(
                "budget_not_measurable",
                f"{key} is set, but the provider of '{path}' reports no token counts: the budget "
                "could not be kept.",
                hint=f"Remove {key}, and bound the run by limit, n and max_tokens.",
            )
