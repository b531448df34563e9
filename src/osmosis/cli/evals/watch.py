"""Following a run until it ends: one changing line on a terminal, a few plain lines elsewhere."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Generator, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from osmosis.cli.evals.run_view import part, progress, run_seconds, status_text
from osmosis.cli.output.format import number, percent, seconds
from osmosis.cli.output.messages import note
from osmosis.cli.output.mode import output
from osmosis.client.following import GIVE_UP_S, POLL_S, TERMINAL, follow, status_of
from osmosis.wire.errors import OsmosisError, Unreachable

if TYPE_CHECKING:
    from osmosis.client.api import Api

LOG_POLL_S = 2.0
PLAIN_EVERY_S = 10.0
MAX_TOLD = 20

Document = dict[str, Any]


class Screen(Protocol):
    """Where progress is drawn."""

    def update(self, document: Mapping[str, Any]) -> None: ...

    def say(self, line: str) -> None: ...


def watch(api: Api, ref: str, told: Iterable[str] = (), timeout_s: float | None = None) -> Document:
    """The run's document once it has ended, or as it is after ``timeout_s``.

    A server that is away for a moment is waited for. Warnings of the run's log are told as they
    come, but for those ``told`` already.
    """
    give_up_at = math.inf if timeout_s is None else time.monotonic() + timeout_s
    with _screen() as screen:
        news = _News(api, ref, told)
        document: Document = {}
        for document in follow(api, ref, every_s=POLL_S, give_up_s=GIVE_UP_S):
            screen.update(document)
            for line in news.lines(last=status_of(document) in TERMINAL):
                screen.say(line)
            if time.monotonic() >= give_up_at:
                break
        return document


class _News:
    """Warnings of the run's log, each told once, and not too many: the log holds them all.

    Errors are not told here: the end of the run shows its own, and counts those of its samples.
    """

    def __init__(self, api: Api, ref: str, told: Iterable[str]) -> None:
        self._api, self._ref, self._told = api, ref, frozenset(told)
        self._cursor: str | None = None
        self._next = 0.0
        self._works = True
        self._left = MAX_TOLD

    def lines(self, *, last: bool) -> list[str]:
        if not self._works or (time.monotonic() < self._next and not last):
            return []
        self._next = time.monotonic() + LOG_POLL_S
        try:
            page = self._api.eval_logs(self._ref, direction="newer", cursor=self._cursor, limit=200)
        except Unreachable:
            return []
        except OsmosisError:
            self._works = False  # another platform may not follow logs in this direction
            return []
        self._cursor = page.next_cursor or self._cursor
        found = [str(e.get("message")) for e in page.entries if e.get("level") == "warning"]
        new = [message for message in found if message not in self._told][: self._left]
        self._left -= len(new)
        lines = [f"Warning: {message}" for message in new]
        if new and self._left == 0:
            lines.append(f"More warnings are in the log: osmosis eval logs {self._ref}")
        return lines


@contextlib.contextmanager
def _screen() -> Generator[Screen]:
    if output.live:
        # Only a person at a terminal pays for this import.
        from osmosis.cli.evals.live import LiveScreen

        with LiveScreen() as screen:
            yield screen
    else:
        yield PlainScreen()


class PlainScreen:
    """A line when the state changes, and one every few seconds while samples come in."""

    def __init__(self) -> None:
        self._state = ""
        self._shown_at = 0.0
        self._shown_done = -1

    def update(self, document: Mapping[str, Any]) -> None:
        run, results = part(document, "eval_run"), part(document, "results")
        state = status_text(run)
        done, total = progress(results, document.get("config"))
        ended = run.get("status") in TERMINAL
        due = time.monotonic() - self._shown_at >= PLAIN_EVERY_S and done != self._shown_done
        if state == self._state and not due:
            return
        self._state, self._shown_at, self._shown_done = state, time.monotonic(), done
        line = f"{state}"
        if done or ended:
            line += f": {done} of {total if total else '?'} samples"
        if done:
            line += f", {numbers(results)}"
        note(f"{line} [{seconds(run_seconds(run))}]" if run.get("started_at") else line)

    def say(self, line: str) -> None:
        note(line)


def numbers(results: Mapping[str, Any]) -> str:
    """The running numbers in one phrase."""
    parts = [f"pass rate {percent(results.get('pass_rate'))}"]
    if results.get("score") is not None:
        parts.append(f"reward {number(results['score'], 3)}")
    if results.get("failed"):
        parts.append(f"{results['failed']} failed")
    if results.get("skipped"):
        parts.append(f"{results['skipped']} skipped")
    return ", ".join(parts)
