"""Two numbers that outlive a kill: requests sent, requests recorded."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from osmosis.wire.spending import Spending
from osmosis.worker.call_ledger import CallLedger, dead_ledgers

KILLED = """
import os, signal, sys
from pathlib import Path
from osmosis.worker.call_ledger import CallLedger
ledger = CallLedger.create(Path(sys.argv[1]), "run1")
for _ in range(5):
    ledger.sent(1)
ledger.recorded(2)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_ledger_of_a_killed_process_tells_what_it_sent_and_never_recorded(tmp_path: Path):
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False)
    (dead,) = dead_ledgers(tmp_path)
    assert (dead.run_id, dead.lost) == ("run1", 3)
    assert len(dead.shard_id) == 16


def test_a_living_ledger_is_nobody_elses(tmp_path: Path):
    ledger = CallLedger.create(tmp_path, "run1")
    ledger.sent(1)
    assert list(dead_ledgers(tmp_path)) == []
    ledger.close(settled=False)
    assert [dead.lost for dead in dead_ledgers(tmp_path)] == [1]


def test_a_settled_ledger_leaves_nothing(tmp_path: Path):
    ledger = CallLedger.create(tmp_path, "run1")
    ledger.sent(2)
    ledger.sent(-1)
    ledger.recorded(1)
    assert ledger.lost == 0
    ledger.close(settled=True)
    assert list(tmp_path.iterdir()) == []


def test_a_ledger_killed_before_its_first_count_lost_nothing(tmp_path: Path):
    (tmp_path / "run1.0123456789abcdef.calls").touch()
    (dead,) = dead_ledgers(tmp_path)
    assert dead.lost == 0


def test_more_recorded_than_sent_is_no_negative_loss(tmp_path: Path):
    ledger = CallLedger.create(tmp_path, "run1")
    ledger.recorded(3)
    assert ledger.lost == 0
    ledger.close(settled=True)


def test_what_was_spent_and_never_recorded_outlives_a_kill_too(tmp_path: Path):
    ledger = CallLedger.create(tmp_path, "run1")
    ledger.sent(2)
    ledger.unrecorded(Spending(tokens=7, usd=0.25))
    ledger.close(settled=False)
    (dead,) = dead_ledgers(tmp_path)
    assert (dead.lost, dead.spent) == (2, Spending(tokens=7, usd=0.25))
