"""Eval configs as tests write them."""

from __future__ import annotations

import json
from typing import Any


def eval_config(
    rollout: str = "multiply",
    *,
    model: str = "scripted/models/multiply.toml",
    dataset: str | None = None,
    entrypoint: str = "main.py",
    env: dict[str, str] | None = None,
    secrets: list[str] | None = None,
    advanced: dict[str, Any] | None = None,
    commit_sha: str | None = None,
    **evaluation: Any,
) -> str:
    lines = [
        "[experiment]",
        f'rollout = "{rollout}"',
        f'entrypoint = "{entrypoint}"',
        f'model_path = "{model}"',
        f'dataset = "{dataset or rollout}"',
    ]
    if commit_sha:
        lines.append(f'commit_sha = "{commit_sha}"')
    lines += ["", "[evaluation]", *(f"{k} = {v}" for k, v in evaluation.items())]
    if advanced:
        lines += ["", "[advanced]", *(f"{k} = {json.dumps(v)}" for k, v in advanced.items())]
    if env:
        lines += ["", "[env]", *(f'{k} = "{v}"' for k, v in env.items())]
    names = ", ".join(f'"{name}"' for name in secrets or [])
    lines += ["", "[secrets]", f"required = [{names}]", ""]
    return "\n".join(lines)
