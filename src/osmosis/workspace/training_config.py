"""The training config: the sections it shares with an evaluation, and three of its own.

The values of its own sections go to the platform as they are, which knows their bounds.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from osmosis.wire.errors import Issue, ValidationFailed, did_you_mean
from osmosis.workspace.config import EvalConfig, parse_eval_config, submission_body
from osmosis.workspace.toml_file import line_of, read_toml

TIMEOUTS = ("agent_workflow_timeout_s", "grader_timeout_s")
TRAINING_SECTIONS: dict[str, tuple[str, ...]] = {
    "training": (
        "lr",
        "total_epochs",
        "n_samples_per_prompt",
        "rollout_batch_size",
        "max_prompt_length",
        "max_response_length",
        *TIMEOUTS,
    ),
    "sampling": ("rollout_temperature", "rollout_top_p"),
    "checkpoints": ("eval_interval", "checkpoint_save_freq"),
}


def load_training_config(path: Path, *, shown: str | None = None) -> tuple[EvalConfig, Any]:
    """A TOML file of ``configs/training``: its shared sections, checked, and the body to submit
    without provided secrets. Every mistake is reported at once, with its key and line."""
    name = shown or str(path)
    data, text = read_toml(path, shown=name)
    own = {section: data.pop(section) for section in TRAINING_SECTIONS if section in data}
    issues = [issue for section, value in own.items() for issue in _issues(section, value)]
    advanced = data.pop("advanced", None)
    if advanced is not None and not isinstance(advanced, Mapping):
        issues.append(Issue(key="advanced", message="must be a section: write [advanced]"))
    if "evaluation" in data:
        del data["evaluation"]
        issues.append(
            Issue(
                key="evaluation", message="unrecognized section; a training config has [training]"
            )
        )
    config = None
    try:
        config = parse_eval_config({"secrets": {"required": []}, **data}, source=name)
    except ValidationFailed as failed:
        issues = [*failed.issues, *issues]
    if config is None or issues:
        for issue in issues:
            issue.line = line_of(text, issue.key)
        count = f"{len(issues)} mistake{'s' if len(issues) != 1 else ''}"
        raise ValidationFailed(f"{name} has {count}.", issues=issues, details={"file": name})
    body = submission_body(config)
    body |= {f"{section}_config": dict(value) for section, value in own.items() if value}
    if advanced:
        body["advanced_config"] = dict(advanced)
    return config, body


def _issues(section: str, value: Any) -> list[Issue]:
    if not isinstance(value, Mapping):
        return [Issue(key=section, message=f"must be a section: write [{section}]")]
    known = TRAINING_SECTIONS[section]
    return [
        Issue(key=f"{section}.{key}", message=f"unknown key.{did_you_mean(key, known)}".rstrip("."))
        for key in value
        if key not in known
    ]
