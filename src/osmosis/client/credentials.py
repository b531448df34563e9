"""Saved logins: ``credentials.json`` version 2, the same file that the vendor's CLI keeps."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from osmosis.wire.errors import AuthRequired, OsmosisError

FILE_VERSION = 2
DEFAULT_LIFETIME = timedelta(days=90)


@dataclass(frozen=True)
class Login:
    """One saved login. ``token`` is None when the vendor's CLI keeps it in the system keyring."""

    token: str | None
    email: str | None
    name: str | None
    token_id: str | None
    expires_at: str | None
    token_store: str

    @property
    def expired(self) -> bool:
        if not self.expires_at:
            return False
        try:
            return datetime.fromisoformat(self.expires_at) <= datetime.now(UTC)
        except (ValueError, TypeError):
            return True


def credentials_path() -> Path:
    base = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(base).expanduser() / "osmosis" / "credentials.json"


def load_login(url: str) -> Login | None:
    """The saved login for a platform, expired or not."""
    entry = _read()["platforms"].get(url)
    if not isinstance(entry, dict):
        return None
    user = entry.get("user")
    user = user if isinstance(user, dict) else {}
    store = str(entry.get("token_store") or "file")
    token = entry.get("access_token") if store == "file" else None
    return Login(
        token=token or None,
        email=user.get("email"),
        name=user.get("name"),
        token_id=entry.get("token_id"),
        expires_at=entry.get("expires_at"),
        token_store=store,
    )


def save_login(url: str, token: str, answer: dict[str, Any]) -> Login:
    """Keep a token with what ``verify`` or the device login answered about it."""
    now = datetime.now(UTC)
    expires_at = answer.get("expires_at") or (now + DEFAULT_LIFETIME).isoformat()
    document = _read()
    document["platforms"][url] = {
        "token_type": "Bearer",
        "access_token": token,
        "expires_at": expires_at,
        "created_at": now.isoformat(),
        "user": answer.get("user") or {},
        "token_id": answer.get("token_id"),
        "token_store": "file",
    }
    _write(document)
    saved = load_login(url)
    if saved is None:
        raise OsmosisError("The login was not saved.")
    if saved.expired:
        raise AuthRequired("The platform answered with a login that has expired already.")
    return saved


def forget_login(url: str) -> bool:
    """Remove the saved login for a platform; False when there was none."""
    document = _read()
    if document["platforms"].pop(url, None) is None:
        return False
    _write(document)
    return True


def _read() -> dict[str, Any]:
    path = credentials_path()
    try:
        document = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {"version": FILE_VERSION, "platforms": {}}
    except OSError as error:
        raise _unusable(
            "CREDENTIALS_UNAVAILABLE", f"Cannot read {path}: {error.strerror}."
        ) from None
    except ValueError:
        raise _unusable("CREDENTIALS_PARSE_FAILED", f"{path} is not valid JSON.") from None
    if not isinstance(document, dict) or not isinstance(document.get("platforms"), dict):
        raise _unusable("CREDENTIALS_PARSE_FAILED", f"{path} does not hold saved logins.")
    if document.get("version") != FILE_VERSION:
        raise _unusable("CREDENTIALS_VERSION_CHANGED", f"{path} is of another version.")
    return document


def _write(document: dict[str, Any]) -> None:
    path = credentials_path()
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".credentials-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:  # mkstemp made it 0600
            json.dump(document, file, indent=2)
        Path(temporary).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(temporary).unlink()
        raise


def _unusable(code: str, message: str) -> OsmosisError:
    error = OsmosisError(message, hint="Remove the file and run `osmosis auth login` again.")
    error.code = code
    return error
