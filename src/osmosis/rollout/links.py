"""Where a model is reached, for the clients that user code brings along."""

from __future__ import annotations

from typing import Any, NamedTuple

from osmosis.rollout.context import ModelLink, get_rollout_context, grading, judge_link

PLACEHOLDER_MODEL = "osmosis-rollout"
"""The run's model is chosen by the run: the name in a request is only echoed."""

NO_KEY = "none"
"""Client libraries insist on a key also where none is asked for."""


class ModelSettings(NamedTuple):
    """The address, key and name that make a client talk to the run's own model (or judge)."""

    base_url: str
    api_key: str
    model: str = PLACEHOLDER_MODEL

    def for_openai(self) -> dict[str, Any]:
        """Keywords of ``openai.AsyncOpenAI`` and of a client's ``with_options``."""
        return {"base_url": self.base_url, "api_key": self.api_key}

    def for_litellm(self) -> dict[str, Any]:
        """Keywords of ``litellm.acompletion``."""
        return {
            "model": f"openai/{self.model}",
            "api_base": self.base_url,
            "api_key": self.api_key,
        }


def model_settings() -> ModelSettings:
    """The run's own model, inside ``AgentWorkflow.run``."""
    return _settings(active_link("model_settings"))


def judge_settings() -> ModelSettings:
    """The run's judge model, inside ``Grader.grade``."""
    return _settings(active_judge_link("judge_settings"))


def active_link(caller: str) -> ModelLink:
    """The address of the run's model; RuntimeError tells ``caller`` why there is none."""
    context = get_rollout_context()
    if context is None:
        raise RuntimeError(
            f"{caller}() works only while AgentWorkflow.run() is active"
            + ("; a grader asks its judge with call_judge()" if grading.get() else "")
        )
    if not context.chat_completions_url:
        raise RuntimeError("the active rollout context names no chat_completions_url")
    return ModelLink(context.chat_completions_url, context.api_key)


def active_judge_link(caller: str) -> ModelLink:
    """The address of the judge; RuntimeError tells ``caller`` why there is none."""
    if not grading.get():
        raise RuntimeError(f"{caller}() works only while Grader.grade() is active")
    link = judge_link.get()
    if link is None:
        raise RuntimeError(
            "this run has no judge model; set judge_model under [advanced] in the config, "
            'for example judge_model = "openai/gpt-5-mini"'
        )
    return link


def _settings(link: ModelLink) -> ModelSettings:
    return ModelSettings(link.completions_url.rstrip("/"), link.api_key or NO_KEY)
