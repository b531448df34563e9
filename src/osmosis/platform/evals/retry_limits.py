"""Other limits for a run that is retried: a budget that is used up must be raised first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from osmosis.platform.db.models import Run
from osmosis.wire.errors import Conflict, Issue, ValidationFailed, did_you_mean
from osmosis.workspace.advanced import AdvancedSection
from osmosis.workspace.advanced_keys import ADVANCED_KEYS, LIMITS


def given_limits(body: Mapping[str, Any]) -> dict[str, Any]:
    """Keys of [advanced] that a retry may change: none that changes what a sample is."""
    given = body.get("advanced")
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise ValidationFailed("'advanced' must be a table of key and value.", field="advanced")
    changes: dict[str, Any] = {str(key): value for key, value in given.items()}
    if wrong := sorted(changes.keys() - set(LIMITS)):
        issues = [Issue(f"advanced.{key}", "cannot change in a retry") for key in wrong]
        raise ValidationFailed(
            f"A retry cannot change {', '.join(wrong)}.{did_you_mean(wrong[0], LIMITS)}",
            hint=f"It can change {', '.join(LIMITS)}.",
            issues=issues,
        )
    return changes


def config_with(run: Run, changes: Mapping[str, Any]) -> dict[str, Any]:
    """The run's config with other limits; a null takes one away."""
    advanced = {**run.config.get("advanced", {}), **changes}
    kept = {key: value for key, value in advanced.items() if value is not None}
    try:
        AdvancedSection.model_validate(kept, strict=True)
    except ValidationError as error:
        issues = [
            Issue(f"advanced.{'.'.join(map(str, p['loc']))}", p["msg"])
            for p in error.errors(include_url=False, include_input=False, include_context=False)
        ]
        raise ValidationFailed("The new limits are not valid.", issues=issues) from None
    return {**run.config, "advanced": kept}


def require_budget(run: Run, config: Mapping[str, Any], *, options: str = "") -> None:
    """Refuse a retry that would stop before its first sample; ``options`` of the command stay."""
    for key, spent in (("max_cost_usd", run.spent_usd), ("max_total_tokens", run.spent_tokens)):
        allowed = config["advanced"].get(key)
        if allowed is not None and spent >= allowed:
            flag = ADVANCED_KEYS[key].flag
            raise Conflict(
                f"The budget of the run '{run.name}' is used up: {spent:g} of {key} = "
                f"{allowed:g} are spent.",
                hint=f"Raise it: osmosis eval retry {run.name}{options} {flag} N, with N above "
                f"{spent:g}.",
                platform_code="BUDGET_SPENT",
                details={"budget": {key: {"allowed": allowed, "spent": spent}}},
            )


def listed(changes: Mapping[str, Any]) -> str:
    """As a line of the log says it."""
    return ", ".join(f"{key} = {value}" for key, value in changes.items())
