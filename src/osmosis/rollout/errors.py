"""What goes wrong inside a rollout, and the category each failure travels under.

Exception
├── ModelCallError     http_error       the model or judge route answered with an error
├── PhaseTimeout       timeout          a deadline of ours passed (a TimeoutError)
├── UserCodeExit       agent_error      user code called sys.exit or ended its own task
├── TimeoutError       timeout          raised by user code
├── ValueError, TypeError, AssertionError   validation_error
└── anything else      agent_error
"""

from __future__ import annotations

from osmosis.rollout.types.status import RolloutErrorCategory

MESSAGE_MAX_CHARS = 10_000


class ModelCallError(Exception):
    """A call to the run's model or judge failed. ``status`` is 0 when no answer came at all."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{message} (HTTP {status})" if status else message)
        self.status = status
        self.message = message


class PhaseTimeout(TimeoutError):
    """The workflow or the grader did not end within its time limit."""


class UserCodeExit(RuntimeError):
    """User code tried to end the process or cancelled its own task."""


def categorize(error: BaseException) -> RolloutErrorCategory:
    """The wire category of an exception that ended a workflow or a grader."""
    if isinstance(error, TimeoutError):
        return RolloutErrorCategory.TIMEOUT
    if isinstance(error, ValueError | TypeError | AssertionError):
        return RolloutErrorCategory.VALIDATION_ERROR
    if isinstance(error, ModelCallError):
        return RolloutErrorCategory.HTTP_ERROR
    return RolloutErrorCategory.AGENT_ERROR


def describe(error: BaseException) -> str:
    """The exception's text, never empty, of bounded length."""
    try:
        text = str(error) or type(error).__name__
    except Exception:
        text = type(error).__name__
    if len(text) > MESSAGE_MAX_CHARS:
        text = f"{text[:MESSAGE_MAX_CHARS]}… ({len(text)} characters)"
    return text
