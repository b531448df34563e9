"""What a call of the runner API may end with, other than its answer.

RunnerError
├── LeaseLost      409 LEASE_LOST: the run is somebody else's; drop it at once
├── Unavailable    no answer, or 5xx or 429: try again, as long as the lease lasts
│   └── Broken     an answer of 200 that ended before its time
└── Refused        any other status: trying again would not help
"""

from __future__ import annotations


class RunnerError(Exception):
    """``str(error)`` is a sentence."""


class LeaseLost(RunnerError):
    pass


class Unavailable(RunnerError):
    pass


class Broken(Unavailable):
    pass


class Refused(RunnerError):
    def __init__(self, status: int, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.hint = hint
