"""Whether a run calls models through LiteLLM, which its worker prepares for."""

from __future__ import annotations

from osmosis.evaluation.gateway.providers import needs_litellm
from osmosis.wire.runner import EvaluationSpec


def uses_litellm(spec: EvaluationSpec) -> bool:
    """By the names of its models: of the policy, unless it only grades anew, and of the judge."""
    judge = spec.advanced.get("judge_model")
    paths = [judge] if spec.regrade else [spec.model_path, judge]
    names = [endpoint.name for endpoint in spec.endpoints]
    return any(needs_litellm(path, names) for path in paths if isinstance(path, str))
