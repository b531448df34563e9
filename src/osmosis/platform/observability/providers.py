"""The provider of a model name, in the words of OpenTelemetry's GenAI conventions.

A short list: labels of metrics are bounded, and names that people give to endpoints are nobody
else's business.
"""

from __future__ import annotations

ENDPOINT = "endpoint"
"""A named endpoint of a workspace, and whatever is not in the list."""

PROVIDERS = {
    "anthropic": "anthropic",
    "azure": "azure.ai.openai",
    "azure_ai": "azure.ai.inference",
    "bedrock": "aws.bedrock",
    "cerebras": "cerebras",
    "cohere": "cohere",
    "deepseek": "deepseek",
    "fireworks_ai": "fireworks_ai",
    "gemini": "gcp.gemini",
    "groq": "groq",
    "hosted_vllm": "vllm",
    "mistral": "mistral_ai",
    "ollama": "ollama",
    "ollama_chat": "ollama",
    "openai": "openai",
    "openrouter": "openrouter",
    "perplexity": "perplexity",
    "replay": "osmosis.replay",
    "scripted": "osmosis.scripted",
    "together_ai": "together_ai",
    "vertex_ai": "gcp.vertex_ai",
    "watsonx": "ibm.watsonx.ai",
    "xai": "x_ai",
}


def provider_name(model_path: str) -> str:
    """The provider of a ``model_path`` such as ``openai/gpt-5-mini``."""
    prefix, slash, _ = model_path.partition("/")
    return PROVIDERS.get(prefix, ENDPOINT) if slash else ENDPOINT
