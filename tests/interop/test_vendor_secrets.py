"""`osmosis secret …` of the published package, and which value a run gets."""

from __future__ import annotations

from typing import Any

import pytest

from tests.interop.vendor import Vendor

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]


def names(vendor: Vendor, scope: str) -> set[str]:
    return {item["name"] for item in vendor("secret", "list", "--scope", scope)["items"]}


def scopes_of_a_run(vendor: Vendor, **env: str) -> dict[str, Any]:
    """Submit, look, and stop it again: nothing needs to run for this."""
    submitted = vendor("eval", "submit", "configs/eval/keys.toml", "--yes", **env)
    run = submitted["resource"]["name"]
    vendor.api(f"/api/cli/eval-runs/{run}/stop", body=b"{}")
    return vendor("eval", "info", run)["data"]["resolved_secret_scopes"]


def test_secrets_of_both_scopes_override_and_are_deleted(vendor: Vendor, sums: str) -> None:
    missing = vendor.fails("eval", "submit", "configs/eval/keys.toml", "--yes")
    assert missing["code"] == "INTERACTIVE_REQUIRED"
    assert missing["details"]["missing"] == ["ONE", "TWO"]

    made = vendor("secret", "set", "ONE", "--env", "V", V="mine")["resource"]
    assert made["name"] == "ONE" and made["scope"] == "personal" and "value" not in made
    vendor("secret", "set", "TWO", "--scope", "workspace", "--env", "V", V="ours")
    assert scopes_of_a_run(vendor) == {"ONE": "user", "TWO": "workspace"}

    vendor("secret", "set", "ONE", "--scope", "workspace", "--env", "V", V="ours")
    assert {"ONE", "TWO"} <= names(vendor, "workspace")
    assert "ONE" in names(vendor, "personal") and "TWO" not in names(vendor, "personal")
    scopes = scopes_of_a_run(vendor, TWO="for this run alone")
    assert scopes == {"ONE": "user_override", "TWO": "provided"}

    vendor("secret", "delete", "ONE", "--yes")
    assert "ONE" not in names(vendor, "personal") and "ONE" in names(vendor, "workspace")
    vendor("secret", "delete", "ONE", "--scope", "workspace", "--yes")
    vendor("secret", "delete", "TWO", "--scope", "workspace", "--yes")
    assert vendor.fails("secret", "delete", "TWO", "--yes")["code"] == "NOT_FOUND"


def test_a_name_that_cannot_be_a_secret_is_a_typed_error(vendor: Vendor) -> None:
    error = vendor.fails("secret", "set", "lower-case", "--env", "V", V="hidden-value")
    assert error["code"] == "VALIDATION" and "hidden-value" not in str(error)
