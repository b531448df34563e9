"""Encryption at rest: AES-256-GCM under one master key, each value bound to its place.

The context (``"secret:<workspace>:<user>:<name>"``) is authenticated with the value, so a
ciphertext that is moved to another row does not open.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import secrets
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from osmosis.platform.settings import Settings
from osmosis.wire.errors import OsmosisError

KEY_BYTES = 32
NONCE_BYTES = 12
VERSION = b"\x01"


class VaultError(OsmosisError):
    code, http_status = "VAULT_ERROR", 500


class Vault:
    """Encrypts and decrypts under a master key, and derives further keys from it."""

    def __init__(self, master_key: bytes) -> None:
        if len(master_key) != KEY_BYTES:
            raise VaultError(f"The master key must be {KEY_BYTES} bytes, encoded as base64.")
        self._master = master_key
        self._cipher = AESGCM(self.derive("vault"))

    @classmethod
    def open(cls, settings: Settings) -> Vault:
        """The vault of a data directory; its key file is made when there is none."""
        if settings.master_key is not None:
            source, text = "OSMOSIS_MASTER_KEY", settings.master_key.get_secret_value()
        else:
            source, text = str(settings.master_key_file), _key_file(settings.master_key_file)
        try:
            return cls(base64.b64decode(text.strip(), validate=True))
        except (binascii.Error, ValueError):
            raise VaultError(
                f"The master key in {source} is not base64.",
                hint="Restore it from a backup; without it stored secrets cannot be read.",
            ) from None

    def derive(self, purpose: str) -> bytes:
        """A key of its own for a purpose; knowing one tells nothing about the others."""
        return hmac.new(self._master, f"osmosis:{purpose}".encode(), hashlib.sha256).digest()

    def encrypt(self, value: bytes, context: str) -> bytes:
        nonce = os.urandom(NONCE_BYTES)
        return VERSION + nonce + self._cipher.encrypt(nonce, value, context.encode())

    def decrypt(self, cipher: bytes, context: str) -> bytes:
        """The value; raises :class:`VaultError`, which never holds any part of it."""
        nonce, sealed = cipher[1 : 1 + NONCE_BYTES], cipher[1 + NONCE_BYTES :]
        try:
            if cipher[:1] != VERSION:
                raise InvalidTag
            return self._cipher.decrypt(nonce, sealed, context.encode())
        except (InvalidTag, ValueError):
            raise VaultError(
                "A stored secret cannot be decrypted: the master key is not the one it was "
                "stored with, or the database was altered.",
                hint="Restore master.key (or OSMOSIS_MASTER_KEY), or set the secret again.",
            ) from None


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner may read, complete or not at all."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def _key_file(path: Path) -> str:
    if not path.exists():
        write_private(path, base64.b64encode(os.urandom(KEY_BYTES)).decode() + "\n")
    return path.read_text()
