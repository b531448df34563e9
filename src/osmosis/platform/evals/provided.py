"""Secret values that were given for one run only: encrypted on its row until it ends."""

from __future__ import annotations

from collections.abc import Mapping

import orjson

from osmosis.platform.db.models import Run
from osmosis.platform.security.vault import Vault

PROVIDED_SCOPE = "provided"
"""How such a secret is labelled among a run's secret scopes."""


def seal_provided(vault: Vault, run_id: str, values: Mapping[str, str]) -> bytes | None:
    """What is stored of the values; None when there are none."""
    return vault.encrypt(orjson.dumps(dict(values)), _context(run_id)) if values else None


def open_provided(vault: Vault, run: Run) -> dict[str, str]:
    """The values again, while the run has not ended."""
    if run.provided_cipher is None:
        return {}
    values: dict[str, str] = orjson.loads(vault.decrypt(run.provided_cipher, _context(run.id)))
    return values


def _context(run_id: str) -> str:
    return f"run:{run_id}:provided"
