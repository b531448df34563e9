"""Who calls the runner API: a worker, by its token, which is looked up once in a while."""

from __future__ import annotations

import time

from fastapi import Request

from osmosis.platform.deps import require_worker
from osmosis.platform.evals.state import run_state_of
from osmosis.platform.security.tokens import bearer, digest

# A worker makes many calls a second; a revoked token is refused after this at the latest.
TRUSTED_S = 5.0
REMEMBERED_WORKERS = 1024


async def known_worker(request: Request) -> None:
    """Refuse everybody but workers."""
    known = run_state_of(request).workers
    key = digest(bearer(request.headers.get("authorization")))
    if known.get(key, 0.0) > time.monotonic():
        return
    await require_worker(request)
    if len(known) >= REMEMBERED_WORKERS:
        known.clear()
    known[key] = time.monotonic() + TRUSTED_S
