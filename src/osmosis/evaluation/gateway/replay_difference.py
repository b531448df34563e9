"""Why a request is not in a replayed run: the first thing that differs from the nearest call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from osmosis.evaluation.gateway.asked import Asked
from osmosis.evaluation.gateway.fingerprint import Fingerprint, MessageMark
from osmosis.evaluation.gateway.kept_calls import KeptCall
from osmosis.wire.samples import Route

SHOWN_CHARS = 100


def difference(calls: Sequence[KeptCall], asked: Asked, route: Route) -> str:
    """A clause that goes on from "…: ". ``calls`` are the sample's kept ones on this route."""
    same = [call for call in calls if call.fingerprint.digest == asked.fingerprint.digest]
    if same:
        return _why_unanswered(same, asked)
    if not calls:
        return f"this sample made no {route} call there"
    nearest = max(calls, key=lambda call: _nearness(call, asked))
    where = f"the nearest is {route} call {nearest.number + 1} of this sample, and"
    return f"{where} {_first_difference(nearest.fingerprint, asked.fingerprint)}"


def _why_unanswered(same: Sequence[KeptCall], asked: Asked) -> str:
    answered = sum(call.answer is not None for call in same)
    if answered:
        times = "once" if answered == 1 else f"{answered} times"
        return f"it was answered {times} there, and is asked for the {_ordinal(asked.nth + 1)} time"
    if any(call.withheld for call in same):
        return "its answer held a secret value and was not kept"
    return f"the call was given up there before it had an answer ({same[0].error_kind})"


def _nearness(call: KeptCall, asked: Asked) -> tuple[int, bool, int]:
    shared = _shared(call.fingerprint.messages, asked.fingerprint.messages)
    return shared, call.number == asked.number, -call.number


def _first_difference(there: Fingerprint, here: Fingerprint) -> str:
    index = _shared(there.messages, here.messages)
    if index < len(there.messages) and index < len(here.messages):
        return _of_messages(index, there.messages[index], here.messages[index])
    if index < len(here.messages):
        extra = here.messages[index]
        return f"messages[{index}] ({extra.role}) is new: {_shown(extra.preview)}"
    if index < len(there.messages):
        lacking = there.messages[index]
        return f"messages[{index}] ({lacking.role}) is missing: {_shown(lacking.preview)}"
    return _of_fields(there.fields, here.fields)


def _of_messages(index: int, there: MessageMark, here: MessageMark) -> str:
    where = f"messages[{index}]"
    if there.role != here.role:
        return f"{where}.role differs: {there.role} there, {here.role} here"
    if there.preview != here.preview:
        start = _start_of_difference(there.preview, here.preview)
        old, new = there.preview[start:], here.preview[start:]
        return f"{where} ({here.role}) differs: {_shown(old)} there, {_shown(new)} here"
    return (
        f"{where} ({here.role}) differs, though both begin with {_shown(here.preview)}: further "
        "on, or in tool calls, names or pictures"
    )


def _of_fields(there: Mapping[str, str], here: Mapping[str, str]) -> str:
    names = [name for name in _all(there, here) if there.get(name) != here.get(name)]
    if not names:
        return "it differs in nothing that was kept of it"
    name = names[0]
    more = f" (and {', '.join(names[1:])})" if names[1:] else ""
    return f"{name} differs{more}: {_value(there, name)} there, {_value(here, name)} here"


def _all(*fields: Iterable[str]) -> list[str]:
    return sorted({name for one in fields for name in one})


def _value(fields: Mapping[str, str], name: str) -> str:
    value = fields.get(name)
    if value is None:
        return "not set"
    return "another long value" if value.startswith("#") else value


def _start_of_difference(there: str, here: str) -> int:
    """Where to begin to show two texts: a little before they part."""
    common = next(
        (at for at, (a, b) in enumerate(zip(there, here, strict=False)) if a != b),
        min(len(there), len(here)),
    )
    return max(0, common - SHOWN_CHARS // 4)


def _shown(text: str) -> str:
    line = " ".join(text.split())
    return f"'{line[:SHOWN_CHARS]}{'…' if len(line) > SHOWN_CHARS else ''}'"


def _shared(there: Sequence[MessageMark], here: Sequence[MessageMark]) -> int:
    count = 0
    for old, new in zip(there, here, strict=False):
        if old != new:
            break
        count += 1
    return count


def _ordinal(number: int) -> str:
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{'th' if 10 < number % 100 < 14 else ending}"
