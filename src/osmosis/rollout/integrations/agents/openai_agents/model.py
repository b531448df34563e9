"""The run's own model as a model of the OpenAI Agents SDK."""

# The framework is installed in rollouts, not where this is checked.
# pyright: reportMissingImports=false, reportUntypedBaseClass=false

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from agents import ModelSettings
from agents.items import ModelResponse, TResponseStreamEvent
from agents.models.interface import Model
from agents.models.openai_chatcompletions import OpenAIChatCompletionsModel
from agents.usage import Usage

from osmosis.rollout.context import get_rollout_context
from osmosis.rollout.integrations.openai_client import rollout_client
from osmosis.rollout.links import PLACEHOLDER_MODEL

MODEL_SETTINGS = 2
"""Where the settings stand among the arguments of a model call."""


class OsmosisRolloutModel(Model):
    """Calls the model of whichever rollout is active, always as a stream.

    It may be made anywhere, also in a workflow config. ``options`` go to the framework's
    ``OpenAIChatCompletionsModel``; sampling parameters belong into the agent's ``ModelSettings``.
    """

    def __init__(self, **options: Any) -> None:
        self.options = options

    async def stream_response(
        self, *args: Any, **kwargs: Any
    ) -> AsyncIterator[TResponseStreamEvent]:
        context = get_rollout_context()
        if context is not None and context.sample_source is None:
            raise RuntimeError(
                "the model was called without a session, so there would be nothing to grade: "
                "pass session=OsmosisMemorySession() to Runner.run(), made inside "
                "AgentWorkflow.run()"
            )
        model = OpenAIChatCompletionsModel(
            PLACEHOLDER_MODEL, openai_client=rollout_client(), **self.options
        )
        args, kwargs = _counting_tokens(args, kwargs)
        async for event in model.stream_response(*args, **kwargs):
            yield event

    async def get_response(self, *args: Any, **kwargs: Any) -> ModelResponse:
        """The whole answer, put together from the stream."""
        output: list[Any] = []
        usage = Usage()
        async for event in self.stream_response(*args, **kwargs):
            if event.type == "response.completed":
                output = list(event.response.output)
                usage = _usage(event.response.usage)
        return ModelResponse(output=output, usage=usage, response_id=None)


def _counting_tokens(
    args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The same call, asking for the usage at the stream's end unless it says itself."""
    default = ModelSettings(include_usage=True)
    if "model_settings" in kwargs:
        return args, {**kwargs, "model_settings": default.resolve(kwargs["model_settings"])}
    settings = default.resolve(args[MODEL_SETTINGS])
    return (*args[:MODEL_SETTINGS], settings, *args[MODEL_SETTINGS + 1 :]), kwargs


def _usage(used: Any) -> Usage:
    if used is None:
        return Usage(requests=1)
    return Usage(
        requests=1,
        input_tokens=used.input_tokens,
        output_tokens=used.output_tokens,
        total_tokens=used.total_tokens,
        input_tokens_details=used.input_tokens_details,
        output_tokens_details=used.output_tokens_details,
    )
