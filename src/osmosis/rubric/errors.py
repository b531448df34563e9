"""What goes wrong when a judge is asked.

Exception
├── MissingAPIKeyError (ValueError)    the judge's provider needs a key, and none is there
└── ModelCallError                     (osmosis.rollout: a failed rollout's category is http_error)
    └── ProviderRequestError           the judge could not be asked, or gave no usable answer
        ├── ModelNotFoundError         no such model, or no such provider
        └── UnscoredError              it answered twice, and neither answer states a score

A rollout whose grader lets one of the last three through has failed for a reason that is not the
agent's: it gets no reward, which is not the same as a reward of zero.
"""

from __future__ import annotations

from osmosis.rollout.errors import ModelCallError


class MissingAPIKeyError(ValueError):
    """The provider needs an API key. ``variable`` is where it is looked for."""

    def __init__(self, provider: str, variable: str) -> None:
        super().__init__(
            f"The judge's provider '{provider}' needs an API key: set {variable} in the "
            "environment, or pass api_key."
        )
        self.provider = provider
        self.variable = variable


class ProviderRequestError(ModelCallError):
    """The judge was asked in vain. ``status`` is the HTTP status, 0 when there was none."""

    def __init__(self, provider: str, model: str, detail: str, *, status: int = 0) -> None:
        super().__init__(status, f"The judge {model} gave no score: {detail}")
        self.provider = provider
        self.model = model
        self.detail = detail


class ModelNotFoundError(ProviderRequestError):
    """The provider knows no such model, or no provider of that name is known."""


class UnscoredError(ProviderRequestError):
    """Two answers, neither of which states a score in the range. ``raw`` is the last answer."""

    def __init__(self, provider: str, model: str, detail: str, raw: str) -> None:
        super().__init__(provider, model, detail)
        self.raw = raw
