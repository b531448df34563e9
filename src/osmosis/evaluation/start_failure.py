"""Saying in one sentence why a rollout process ended before it answered."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from osmosis.evaluation.sdk_wheel import DISTRIBUTION
from osmosis.wire.errors import RunFailed

SHOWN_LINES = 12

_FRAME = re.compile(r'^\s+File "([^"]+)", line (\d+)')
_EXCEPTION = re.compile(r"^([A-Za-z_][\w.]*(?:Error|Exception|Exit|Interrupt|Warning|Group))\b:? ?")
_MISSING_MODULE = re.compile(r"No module named '([\w.]+)'")
_PORT_TAKEN = re.compile(r"address already in use|Errno 98|Errno 48", re.IGNORECASE)


def port_was_taken(lines: Sequence[str]) -> bool:
    """Whether the last words of the process blame the port."""
    return any(_PORT_TAKEN.search(line) for line in lines)


def exited_early(
    rollout: str, entrypoint: str, directory: Path, exit_description: str, lines: Sequence[str]
) -> RunFailed:
    """``lines`` are the last ones that the process printed."""
    shown = "\n".join([line for line in lines if line.strip()][-SHOWN_LINES:])
    details = {"output": "\n".join(lines)}
    file = f"rollouts/{rollout}/{entrypoint}"
    exception = _last_exception(lines)
    if exception is None:
        said = f" Its last lines:\n{shown}" if shown else " It printed nothing."
        return RunFailed(
            "rollout_start_failed",
            f"{file} ended ({exit_description}) before it answered on its port.{said}",
            hint="The entrypoint must serve create_rollout_server(...) on the port in "
            "_OSMOSIS_ROLLOUT_PORT and keep running.",
            details=details,
        )
    place = _place(lines, directory)
    where = f" ({place})" if place else ""
    imports = exception.startswith(("ImportError", "ModuleNotFoundError", "SyntaxError"))
    what = "does not import" if imports else f"fails at start ({exit_description})"
    return RunFailed(
        "rollout_start_failed",
        f"{file} {what}: {exception}{where}\n{shown}",
        hint=_hint(exception, rollout),
        details=details,
    )


def _last_exception(lines: Sequence[str]) -> str | None:
    for line in reversed(lines):
        if _EXCEPTION.match(line):
            return line.strip()
    return None


def _place(lines: Sequence[str], directory: Path) -> str | None:
    """``main.py line 3``: the deepest frame in the rollout's own files."""
    for line in reversed(lines):
        match = _FRAME.match(line)
        if match and Path(match[1]).is_relative_to(directory):
            return f"{Path(match[1]).relative_to(directory)} line {match[2]}"
    return None


def _hint(exception: str, rollout: str) -> str:
    missing = _MISSING_MODULE.search(exception)
    if missing:
        module = missing[1].partition(".")[0]
        package = {"osmosis": DISTRIBUTION, "osmosis_ai": "osmosis-ai"}.get(module, module)
        return (
            f"If {module!r} is a package, add {package!r} to the dependencies in "
            f"rollouts/{rollout}/pyproject.toml; if it is your own file, commit it. "
            "Then push and submit again."
        )
    return f"Run `python main.py` in rollouts/{rollout} to see the same, correct it and push."
