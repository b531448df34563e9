"""What is said when a framework is not installed."""

from __future__ import annotations


def missing_extra(error: ModuleNotFoundError, extra: str, framework: str) -> ModuleNotFoundError:
    """The error that names the extra to install."""
    return ModuleNotFoundError(
        f"{framework} is not installed (no module named {error.name!r}): add "
        f'"osmosis-platform[{extra}]" to the dependencies in the rollout\'s pyproject.toml',
        name=error.name,
    )
