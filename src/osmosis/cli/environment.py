"""The ``.env`` file: the nearest one upward, or the one that the user names."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from osmosis.wire.errors import NotFound, OsmosisError, ValidationFailed

ENV_FILE_ENV = "OSMOSIS_ENV_FILE"
CONFLICTING = ("OSMOSIS_PLATFORM_URL", "OSMOSIS_TOKEN", "OSMOSIS_TOKEN_PLATFORM_URL")
_LINE = re.compile(r"^\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*?)\s*$")


def load_env_file(given: str | None) -> None:
    """Put the file's variables into the environment; what is set already wins.

    A platform or a token that differs between the two is refused, before anything is sent.
    """
    path = _find(given or os.environ.get(ENV_FILE_ENV))
    if path is None:
        return
    values = read_dotenv(path)
    for name in CONFLICTING:
        if os.environ.get(name) and values.get(name) and os.environ[name] != values[name]:
            error = OsmosisError(
                f"{name} is set differently in the environment and in {path}.",
                hint="Unset one of the two.",
            )
            error.code = "CONFLICT"
            raise error
    _keep_token_from(values, path)
    for name, value in values.items():
        if not os.environ.get(name):
            os.environ[name] = value


def _keep_token_from(values: Mapping[str, str], path: Path) -> None:
    """A file that came with a clone must not choose who gets the user's own token."""
    url = values.get("OSMOSIS_PLATFORM_URL")
    if not url or os.environ.get("OSMOSIS_PLATFORM_URL") or not os.environ.get("OSMOSIS_TOKEN"):
        return
    if os.environ.get("OSMOSIS_TOKEN_PLATFORM_URL"):
        return
    error = OsmosisError(
        f"{path} names the platform {url}, and OSMOSIS_TOKEN comes from your environment.",
        hint=f"Set OSMOSIS_TOKEN_PLATFORM_URL={url} in your environment to send it there.",
    )
    error.code = "ENV_TOKEN_PLATFORM_REQUIRED"
    raise error


def read_dotenv(path: Path) -> dict[str, str]:
    try:
        return parse_dotenv(path.read_text("utf-8-sig"), str(path))
    except FileNotFoundError:
        raise NotFound(f"There is no file {path}.") from None
    except (OSError, UnicodeDecodeError):
        raise ValidationFailed(f"Cannot read {path} as UTF-8 text.") from None


def parse_dotenv(text: str, shown: str) -> dict[str, str]:
    """``NAME=value`` lines: ``export`` and comments allowed, one pair of quotes removed."""
    values: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        found = _LINE.match(line)
        if found is None:
            raise ValidationFailed(
                f"{shown}, line {number}: not of the form NAME=value.",
                details={"file": shown, "line": number},
            )
        values[found.group(1)] = _unquoted(found.group(2))
    return values


def only(values: Mapping[str, str], names: list[str]) -> dict[str, str]:
    return {name: values[name] for name in names if name in values}


def _find(given: str | None) -> Path | None:
    if given:
        path = Path(given).expanduser()
        if not path.is_file():
            raise NotFound(f"There is no file {given}.", hint="Check --env-file.")
        return path
    for directory in [Path.cwd(), *Path.cwd().parents]:
        if (directory / ".env").is_file():
            return directory / ".env"
    return None


def _unquoted(value: str) -> str:
    if len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'":
        return value[1:-1]
    return value.split(" #", 1)[0].rstrip()
