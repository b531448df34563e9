"""Which model calls are paid for but recorded nowhere: numbers in a file that outlive a kill.

A shard counts each request that it sends to a provider, and each one that stands in a record the
platform has acknowledged. What is left when the shard is gone, was in flight, or belonged to a try
that was lost: it may have been charged, and no sample shows it. The file is locked while its shard
lives, so that whoever gets the lock knows that the counts are final. Beside them stands what the
ended ones of those calls used, for the budgets of the run.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import secrets
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from osmosis.wire.spending import Spending

COUNTS = struct.Struct(">QQQd")
SUFFIX = ".calls"


class CallLedger:
    """The ledger of one living shard; its file is ``<run id>.<shard id>.calls``."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self.shard_id = path.name.removesuffix(SUFFIX).rpartition(".")[2]
        self._file = descriptor
        # Written by a store to memory, not by a call for each request; a kill loses neither.
        self._counts = mmap.mmap(descriptor, COUNTS.size)
        self._sent = 0
        self._recorded = 0
        self._spent = Spending()

    @classmethod
    def create(cls, directory: Path, run_id: str) -> CallLedger:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = directory / f"{run_id}.{secrets.token_hex(8)}{SUFFIX}"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        # Takes its place on the disk now: later counts need no more room.
        os.pwrite(descriptor, COUNTS.pack(0, 0, 0, 0.0), 0)
        return cls(path, descriptor)

    @property
    def lost(self) -> int:
        """Requests sent that no acknowledged record shows."""
        return _lost(self._sent, self._recorded)

    def sent(self, count: int) -> None:
        """Count requests about to be sent; a negative count takes back what never arrived."""
        self._sent += count
        self._write()

    def recorded(self, count: int) -> None:
        """Count requests whose record is durable."""
        self._recorded += count
        self._write()

    def unrecorded(self, spent: Spending) -> None:
        """Note what calls have used that stand in no durable record."""
        self._spent = spent
        self._write()

    @property
    def spent(self) -> Spending:
        return self._spent

    def close(self, *, settled: bool) -> None:
        """Let the ledger go; a settled one has nothing more to report."""
        if settled:
            self.path.unlink(missing_ok=True)
        self._counts.close()
        os.close(self._file)

    def _write(self) -> None:
        spent = self._spent
        COUNTS.pack_into(self._counts, 0, self._sent, self._recorded, spent.tokens, spent.usd)


@dataclass(frozen=True)
class DeadLedger:
    """What a shard that is gone left to report."""

    path: Path
    run_id: str
    shard_id: str
    lost: int
    spent: Spending


def dead_ledgers(directory: Path) -> Iterator[DeadLedger]:
    """The ledgers whose shards are gone. Each stays until its file is removed."""
    for path in sorted(directory.glob(f"*{SUFFIX}")):
        counts = _final_counts(path)
        if counts is not None:
            run_id, _, shard_id = path.name.removesuffix(SUFFIX).rpartition(".")
            sent, recorded, tokens, usd = counts
            spent = Spending(tokens=tokens, usd=usd)
            yield DeadLedger(path, run_id, shard_id, _lost(sent, recorded), spent)


def _final_counts(path: Path) -> tuple[int, int, int, float] | None:
    """As written; None while the shard lives, or when somebody else was faster."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        raw = os.pread(descriptor, COUNTS.size, 0)
    except BlockingIOError:
        return None
    finally:
        os.close(descriptor)
    # Killed between making the file and writing it: no request was sent yet.
    return COUNTS.unpack(raw) if len(raw) == COUNTS.size else (0, 0, 0, 0.0)


def _lost(sent: int, recorded: int) -> int:
    return max(0, sent - recorded)
