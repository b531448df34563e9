"""Signed, expiring strings: presigned addresses, page sessions, form tokens."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

from fastapi import Request
from itsdangerous import BadSignature, SignatureExpired, URLSafeTimedSerializer

from osmosis.platform.addresses import public_url
from osmosis.platform.security.vault import Vault
from osmosis.wire.errors import Forbidden

SIGNATURE = "signature"


class Signer:
    """Signs JSON values for a purpose; a value signed for one purpose is no use for another."""

    def __init__(self, vault: Vault) -> None:
        self._key = vault.derive("signing")

    def sign(self, purpose: str, value: Any) -> str:
        return self._serializer(purpose).dumps(value)

    def read(self, purpose: str, signed: str, *, max_age_s: int) -> Any | None:
        """The signed value, or None when the signature is wrong or too old."""
        try:
            return self._serializer(purpose).loads(signed, max_age=max_age_s)
        except (BadSignature, SignatureExpired):
            return None

    def _serializer(self, purpose: str) -> URLSafeTimedSerializer:
        return URLSafeTimedSerializer(self._key, salt=f"osmosis:{purpose}")


def presigned_url(
    request: Request, method: str, path: str, claims: dict[str, Any] | None = None
) -> str:
    """An absolute address that lets its holder do one ``method`` on one ``path`` for a while.

    The address is built from the one that the client used, because a client refuses plain http
    to anything but loopback. ``claims`` travel with it, signed but readable.
    """
    signer: Signer = request.app.state.platform.signer
    signed = signer.sign("presigned", [method.upper(), unquote(path), claims or {}])
    return f"{public_url(request, path)}?{SIGNATURE}={signed}"


def presigned_claims(request: Request, *, max_age_s: int | None = None) -> dict[str, Any]:
    """The claims of a presigned request; raises :class:`Forbidden` when it is not good.

    It is good for ``max_age_s``, by default the setting ``presigned_url_s``.
    """
    platform = request.app.state.platform
    value = platform.signer.read(
        "presigned",
        request.query_params.get(SIGNATURE, ""),
        max_age_s=max_age_s or platform.settings.presigned_url_s,
    )
    method = "GET" if request.method == "HEAD" else request.method
    if not value or value[0] != method or value[1] != request.scope["path"]:
        raise Forbidden(
            "This address is not valid, or no longer.",
            hint="Ask for a new one and try again.",
            platform_code="PRESIGNED_URL_INVALID",
        )
    return value[2]


async def require_presigned(request: Request) -> dict[str, Any]:
    """The claims of a presigned request, for a route; nothing of it is the client's to choose."""
    return presigned_claims(request)
