"""The file of a scripted model: read, checked as a whole, every mistake named with its key.

The format is documented in ``docs/scripted-models.md``; these models are its definition.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from osmosis.evaluation.gateway.script_template import Template, TemplateError
from osmosis.wire.errors import Issue, RunFailed, did_you_mean
from osmosis.wire.samples import Route

MAX_FILE_BYTES = 1024 * 1024
Probability = Field(default=0.0, ge=0, le=1)


class ScriptModel(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, arbitrary_types_allowed=True)


class ScriptedError(ScriptModel):
    """An HTTP error instead of an answer, like a provider's own."""

    status: int = Field(ge=400, le=599)
    message: str = "scripted error"
    times: int | None = Field(default=None, ge=1)
    """Only the first so many times that this very conversation is asked; always when absent."""
    retry_after_s: float | None = Field(default=None, ge=0)


class ScriptedToolCall(ScriptModel):
    """``arguments``: values may hold templates; a lone ``{{ }}`` keeps its type."""

    name: str = Field(min_length=1)
    arguments: dict[str, Any] = Field(default_factory=dict)

    @field_validator("arguments")
    @classmethod
    def _readable(cls, value: dict[str, Any]) -> dict[str, Any]:
        return _with_templates(value)


class Rule(ScriptModel):
    """The first rule whose conditions all hold answers the call."""

    match: re.Pattern[str] | None = None
    turn: int | None = Field(default=None, ge=0)
    after_tool: str | None = None
    route: Route | None = None
    reply: Template | None = None
    mistake: Template | None = None
    mistake_rate: float | None = Field(default=None, ge=0, le=1)
    tool_calls: list[ScriptedToolCall] = Field(default_factory=list)
    error: ScriptedError | None = None
    latency_ms: float | None = Field(default=None, ge=0, le=3_600_000)

    @field_validator("match", mode="before")
    @classmethod
    def _pattern(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return re.compile(value, re.DOTALL)
        except re.error as error:
            raise ValueError(f"not a regular expression: {error}") from None

    @field_validator("reply", "mistake", mode="before")
    @classmethod
    def _template(cls, value: Any) -> Any:
        if not isinstance(value, str):
            raise ValueError("must be text")
        return _template(value)


class Script(ScriptModel):
    """A whole file."""

    seed: int = 0
    latency_ms: float = Field(default=0.0, ge=0, le=3_600_000)
    jitter_ms: float = Field(default=0.0, ge=0, le=3_600_000)
    error_rate: float = Probability
    error_status: int = Field(default=500, ge=400, le=599)
    mistake_rate: float = Probability
    rules: list[Rule] = Field(min_length=1)


def read_script(path: Path, shown: str) -> Script:
    """Read the file, or RunFailed that lists every mistake with its key. ``shown`` names it."""
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise RunFailed("model_refused", f"The scripted model {shown} is larger than 1 MB.")
        data = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise RunFailed(
            "model_not_found",
            f"The scripted model {shown} cannot be read: {error.strerror}.",
            hint="Commit the file, or correct model_path.",
        ) from None
    except UnicodeDecodeError:
        raise RunFailed("model_refused", f"The scripted model {shown} is not UTF-8.") from None
    except tomllib.TOMLDecodeError as error:
        raise RunFailed("model_refused", f"The scripted model {shown}: {error}") from None
    try:
        script = Script.model_validate(data)
    except ValidationError as error:
        issues = [_issue(detail) for detail in error.errors(include_url=False)]
        raise _mistakes(shown, issues) from None
    issues = _contradictions(script)
    if issues:
        raise _mistakes(shown, issues)
    return script


def _mistakes(shown: str, issues: list[Issue]) -> RunFailed:
    lines = "; ".join(f"{issue.key}: {issue.message}" for issue in issues)
    return RunFailed(
        "model_refused",
        f"The scripted model {shown} has mistakes: {lines}",
        hint="The format is described in docs/scripted-models.md.",
        issues=issues,
    )


def _contradictions(script: Script) -> list[Issue]:
    issues: list[Issue] = []
    for index, rule in enumerate(script.rules):
        where = f"rules[{index}]"
        if rule.reply is None and rule.error is None and not rule.tool_calls:
            issues.append(Issue(key=where, message="needs 'reply', 'tool_calls' or 'error'"))
        if rule.mistake is not None and rule.reply is None:
            issues.append(Issue(key=f"{where}.mistake", message="needs a 'reply' to replace"))
        known = set(rule.match.groupindex) if rule.match else set()
        known |= {"tool_result", "tool_name", "turn", "text"}
        templates = [rule.reply, rule.mistake]
        for template in filter(None, templates):
            for name in sorted(template.names() - known):
                message = f"there is no '{name}' in {template.source!r}"
                message += did_you_mean(name, known)
                issues.append(Issue(key=where, message=message))
    return issues


def _issue(detail: Any) -> Issue:
    location: tuple[str | int, ...] = detail["loc"]
    key = ""
    for part in location:
        key += f"[{part}]" if isinstance(part, int) else f".{part}" if key else part
    message = detail["msg"].removeprefix("Value error, ")
    if detail["type"] == "extra_forbidden":
        name = str(location[-1])
        message = f"unknown key.{did_you_mean(name, _known_keys(location))}"
    return Issue(key=key, message=message)


def _known_keys(location: tuple[str | int, ...]) -> list[str]:
    names = [part for part in location[:-1] if isinstance(part, str)]
    owner: type[BaseModel] = Script
    if names:
        owner = {"error": ScriptedError, "tool_calls": ScriptedToolCall}.get(names[-1], Rule)
    return list(owner.model_fields)


def _template(source: str) -> Template:
    try:
        return Template.parse(source)
    except TemplateError as error:
        raise ValueError(str(error)) from None


def _with_templates(value: Any) -> Any:
    """Texts inside a JSON-like value become templates."""
    if isinstance(value, str):
        return _template(value)
    if isinstance(value, dict):
        return {key: _with_templates(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_templates(item) for item in value]
    return value
