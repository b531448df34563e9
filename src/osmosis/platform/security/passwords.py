"""Passwords: scrypt, each with its own salt, and its cost written beside it."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os

from osmosis.wire.errors import ValidationFailed

MIN_PASSWORD_CHARS = 12
MAX_PASSWORD_CHARS = 1024
COST_N, COST_R, COST_P = 2**15, 8, 1
MEMORY_BYTES = 64 * 2**20
SALT_BYTES = 16


def hash_password(password: str) -> str:
    """What is stored of a password; refuses one that is too short."""
    if not MIN_PASSWORD_CHARS <= len(password) <= MAX_PASSWORD_CHARS:
        raise ValidationFailed(
            f"A password has {MIN_PASSWORD_CHARS} to {MAX_PASSWORD_CHARS} characters.",
            field="password",
        )
    salt = os.urandom(SALT_BYTES)
    key = _scrypt(password, salt, COST_N, COST_R, COST_P)
    encoded = (base64.b64encode(part).decode() for part in (salt, key))
    return "$".join(("scrypt", str(COST_N), str(COST_R), str(COST_P), *encoded))


def check_password(password: str, stored: str | None) -> bool:
    """Whether the password fits. An account without one takes as long to refuse as any other."""
    if len(password) > MAX_PASSWORD_CHARS:
        return False
    if stored is None:
        _scrypt(password, b"\0" * SALT_BYTES, COST_N, COST_R, COST_P)
        return False
    _, n, r, p, salt, key = stored.split("$")
    found = _scrypt(password, base64.b64decode(salt), int(n), int(r), int(p))
    return hmac.compare_digest(found, base64.b64decode(key))


def _scrypt(password: str, salt: bytes, n: int, r: int, p: int) -> bytes:
    return hashlib.scrypt(password.encode(), salt=salt, n=n, r=r, p=p, maxmem=MEMORY_BYTES)
