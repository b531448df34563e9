"""``GET /metrics``: for Prometheus on this machine, or anywhere with the token of the settings."""

from __future__ import annotations

import hmac

from fastapi import APIRouter, FastAPI, Request
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from osmosis.platform.deps import CurrentPlatform
from osmosis.platform.observability.census import take_census
from osmosis.platform.platform import Platform
from osmosis.platform.security.hosts import host_name, is_loopback
from osmosis.platform.security.tokens import bearer
from osmosis.wire.errors import AuthRequired

FORWARDED = ("forwarded", "x-forwarded-for", "x-real-ip", "via")
"""A proxy on this machine speaks for others: who came through it is not on this machine."""

router = APIRouter()


def setup(_app: FastAPI, platform: Platform) -> None:
    platform.background("event loop lag", platform.metrics.lag.watch)


@router.get("/metrics", include_in_schema=False)
async def metrics(request: Request, platform: CurrentPlatform) -> Response:
    _check(request, platform)
    await take_census(platform)
    text = await run_in_threadpool(generate_latest, platform.metrics.registry)
    return Response(text, media_type=CONTENT_TYPE_LATEST)


def _check(request: Request, platform: Platform) -> None:
    token = platform.settings.metrics_token
    if token is None:
        if platform.settings.public_url is None and is_from_here(request):
            return
        raise AuthRequired(
            "The metrics of this server are shown on its own machine only.",
            hint="Set OSMOSIS_METRICS_TOKEN and send it as a bearer token.",
            platform_code="METRICS_TOKEN_REQUIRED",
        )
    given = bearer(request.headers.get("authorization"))
    if not hmac.compare_digest(given.encode(), token.get_secret_value().encode()):
        raise AuthRequired(
            "The metrics of this server need the value of OSMOSIS_METRICS_TOKEN as bearer token.",
            platform_code="METRICS_TOKEN_REQUIRED",
        )


def is_from_here(request: Request) -> bool:
    """Whether a request was made on this machine, by loopback and through no proxy."""
    client = request.client
    return (
        client is not None
        and is_loopback(client.host)
        and is_loopback(host_name(request.headers.get("host", "")))
        and not any(name in request.headers for name in FORWARDED)
    )
