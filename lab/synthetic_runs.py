"""Big runs made by inserting their samples, for what an evaluation would take hours to make."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from sqlalchemy import Connection, insert, update

from osmosis.platform.db.base import new_id, utc_now
from osmosis.platform.db.models import Run, Sample
from osmosis.platform.evals.run_count import RunCount
from osmosis.platform.evals.tallies import Counted, add_samples, store_tally

BATCH = 5000

Grade = Callable[[random.Random, int], float]


def add_run(
    connection: Connection,
    workspace_id: str,
    *,
    name: str,
    rows: int,
    n: int = 1,
    seed: int = 1,
    grade: Grade = lambda chance, _row: float(chance.random() < 0.7),
    status: str = "finished",
    **columns: Any,
) -> str:
    """A run of ``rows`` rows of ``n`` samples, recorded and counted; its id.

    ``grade(chance, row)`` gives the reward of a sample. Some of the samples fail.
    """
    run_id = new_id()
    values: dict[str, Any] = {
        "id": run_id,
        "workspace_id": workspace_id,
        "name": name,
        "status": status,
        "stage": "running",
        "rollout": "multiply",
        "entrypoint": "main.py",
        "model_path": "openai/gpt-5-mini",
        "commit_sha": "0" * 40,
        "dataset_name": "sums",
        "dataset_sha256": "1" * 64,
        "config": {"evaluation": {"n": n, "pass_threshold": 1.0}, "advanced": {}, "secrets": []},
        "env": {},
        "secret_scopes": {},
        "selection": {"kind": "first", "seed": None, "rows": f"0-{rows - 1}"},
        "selected_rows": rows,
        "total_rows": rows,
        "n": n,
        "pass_threshold": 1.0,
        "started_at": utc_now(),
        "completed_at": utc_now() if status == "finished" else None,
        **columns,
    }
    connection.execute(insert(Run), values)
    samples = _samples(run_id, rows, n, random.Random(seed), grade)
    count = RunCount.empty(values["pass_threshold"], n)
    passed = graded = failed = total = 0
    reward_sum = 0.0
    while batch := list(islice(samples, BATCH)):
        connection.execute(insert(Sample), batch)
        add_samples(connection, run_id, count, map(Counted.of, batch))
        total += len(batch)
        for sample in batch:
            failed += sample["status"] == "failed"
            passed += bool(sample["passed"])
            if sample["reward"] is not None:
                graded += 1
                reward_sum += sample["reward"]
    store_tally(connection, run_id, count)
    connection.execute(
        update(Run)
        .where(Run.id == run_id)
        .values(
            sample_count=total,
            success_count=total - failed,
            failed_count=failed,
            graded_count=graded,
            passed_count=passed,
            reward_sum=reward_sum,
            tokens_sum=count.whole().tokens,
        )
    )
    return run_id


def _samples(
    run_id: str, rows: int, n: int, chance: random.Random, grade: Grade
) -> Iterator[dict[str, Any]]:
    now = utc_now()
    for row in range(rows):
        for run in range(n):
            fails = chance.random() < 0.01
            reward = None if fails else grade(chance, row)
            yield {
                "run_id": run_id,
                "row_index": row,
                "run_index": run,
                "source_row": row,
                "rollout_id": f"{chance.getrandbits(128):032x}",
                "status": "failed" if fails else "success",
                "reward": reward,
                "passed": reward is not None and reward >= 1.0,
                "error_type": "timeout" if fails else None,
                "tokens": chance.randint(50, 2000),
                "cost_usd": chance.random() / 100,
                "duration_ms": chance.lognormvariate(6, 1),
                "record": {
                    "queue_ms": chance.random(),
                    "latencies_ms": [round(chance.lognormvariate(5, 1), 1)],
                },
                "created_at": now,
            }
