"""How many calls a provider key takes at once, learned from what the provider answers.

    start      a moderate width; each success adds one, so it doubles with every round of calls
    refusal    429, 503, 529: halved once a round, and down to what the provider did let in
    cool-down  then no wider than three quarters of where it was refused, for a while
    growth     after that by a sixteenth a round, until the next refusal

Where a whole round is refused the provider is away or its window is spent, which says nothing of
the width: the old one is regained fast. Refusals without a success between pause everything, each
time for longer. The way is TCP's: slow start, multiplicative decrease, additive increase.
"""

from __future__ import annotations

import random
from time import monotonic

START_WIDTH = 32
REGAIN_SHARE = 0.75
COOL_DOWN_S = 10.0
GROWTH_SHARE = 1 / 16
"""Share of the width gained per round once the fast growth is over."""
DOUBLING_S = 0.25
"""Calls that last: so long without a refusal means that the provider has taken them."""
WIDEN_EVERY_S = 0.02
WIDEN_MOST = 5.0
"""Gained a step. Hundreds of calls that begin in one turn of the event loop hold everything else
up, and their answers come back as closely together."""
PAUSE_AFTER_REFUSALS = 3
"""So many refusals in a row hold new calls back too."""
BACKOFF_FIRST_S = 0.5
BACKOFF_MAX_S = 30.0


class CallWidth:
    """``value`` is the present width, between 1 and ``ceiling``."""

    def __init__(self, ceiling: int) -> None:
        self.ceiling = ceiling
        self.value = float(min(START_WIDTH, ceiling))
        self.paused_until = 0.0
        """Monotonic time until which no call starts; 0.0 when none is held back."""
        self._fast_until = float(ceiling)
        self._regain = float(ceiling)
        self._rounds = 0
        self._refusals = 0
        self._cut_at = 0.0
        self._calm_at = 0.0

    def succeeded(self, in_flight: int) -> None:
        """A call got its answer; ``in_flight`` counts it. Only a full width may grow."""
        self._refusals = self._rounds = 0
        if self.value >= self.ceiling or in_flight < int(self.value):
            return
        if self.value < self._fast_until:
            self.value += 1.0
        elif monotonic() >= self._calm_at:
            self.value += max(1.0, self.value * GROWTH_SHARE) / self.value
        self.value = min(self.value, float(self.ceiling))

    def refused(self, in_flight: int, began: float, asked_s: float | None) -> None:
        """A call that began at ``began`` was refused; ``in_flight`` still counts it.

        ``asked_s`` is the wait that the provider asked for.
        """
        now = monotonic()
        self._refusals += 1
        if began >= self._cut_at:  # later refusals of the same round are old news
            reached = min(self.value, in_flight)
            if not self._rounds:
                self._regain = max(1.0, reached * REGAIN_SHARE)
            self._rounds += 1
            self._fast_until = self._regain
            self.value = max(1.0, reached / 2)
            self._cut_at = now
        self._calm_at = now + COOL_DOWN_S
        let_in = in_flight - 1
        self.value = max(1.0, min(self.value, let_in))
        if let_in:
            self._fast_until = min(self._fast_until, max(1.0, let_in))
        else:
            self._fast_until = max(self._regain, min(START_WIDTH, self.ceiling) / 2)
        if self._refusals >= PAUSE_AFTER_REFUSALS or self._rounds > 1:
            pause_s = backoff_s(self._rounds - 1) if asked_s is None else asked_s
            self.paused_until = max(self.paused_until, now + pause_s)

    @property
    def may_widen(self) -> bool:
        """Whether calls that are not answered yet, but not refused either, widen it."""
        return self._rounds == 0 and self.value < min(self._fast_until, self.ceiling)

    def widen(self) -> None:
        """A step of :data:`WIDEN_EVERY_S`: it doubles in DOUBLING_S, as far as the steps allow."""
        gained = min(self.value * (2 ** (WIDEN_EVERY_S / DOUBLING_S) - 1), WIDEN_MOST)
        self.value = min(self.value + gained, self._fast_until, float(self.ceiling))


def backoff_s(retries: int) -> float:
    """Exponential backoff with jitter: half to whole of 0.5, 1, 2, 4 ... 30 s."""
    whole = min(BACKOFF_MAX_S, BACKOFF_FIRST_S * 2 ** min(retries, 10))
    return whole * random.uniform(0.5, 1.0)  # noqa: S311
