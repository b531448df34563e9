"""A budget on a real platform: stopped, said everywhere, and gone on with under a higher one."""

from __future__ import annotations

import json
from typing import Any

from lab.workspace import Workspace

CONFIG = "configs/eval/multiply-scripted.toml"
ALLOWED = 100


def test_a_run_that_spent_its_budget_is_no_full_run_and_goes_on_under_a_higher_one(
    workspace: Workspace,
) -> None:
    flags = ("--limit", "30", "--n", "1", "--batch-size", "2", "--max-total-tokens", str(ALLOWED))
    words = ("--json", "eval", "submit", CONFIG, "-y", "--watch", *flags)
    done = workspace.osmosis(*words, rc=4)
    stopped: dict[str, Any] = json.loads(done.stdout)["result"]
    name, results = stopped["eval_run"]["name"], stopped["results"]
    assert (stopped["eval_run"]["status"], results["partial"]) == ("stopped", True)
    assert 0 < results["graded"] < 30
    assert results["pending"] == 30 - results["total_runs"]
    spent = stopped["budget"]["max_total_tokens"]["spent"]
    assert spent >= ALLOWED
    shown = workspace.osmosis("eval", "info", name).stdout
    assert f"max_total_tokens = {ALLOWED} are spent" in shown
    assert "partial" in shown
    assert f"osmosis eval retry {name} --max-total-tokens N" in shown
    log = workspace.osmosis("eval", "logs", name).stdout
    assert "No new sample starts" in log

    refused = workspace.osmosis("--json", "eval", "retry", name, "-y", rc=1)
    assert "BUDGET_SPENT" in refused.stdout + refused.stderr
    again = workspace.json("eval", "retry", name, "-y", "--watch", "--max-total-tokens", "1000000")
    assert again["result"]["results"]["graded"] == 30
    assert "partial" not in again["result"]["results"]
    assert again["result"]["budget"]["max_total_tokens"]["spent"] > spent
