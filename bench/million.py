"""A dataset of a million rows: how long until it is checked, and until its first row is asked."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from pathlib import Path

from bench.job import CONFIG, multiplication
from bench.report import report
from lab.ports import http_json
from lab.workspace import Workspace

ROWS = 1_000_000
ROW_GROUP = 100_000
SYSTEM = "Give the product on a line #### <answer>."
LIMIT_S = 120.0
LOOK_EVERY_S = 0.02


def million(workspace: Workspace, model: str) -> None:
    """Prints, for Parquet and JSONL: checked after, first call after; whole and a tenth of it."""
    for kind, write in (("parquet", _write_parquet), ("jsonl", _write_jsonl)):
        name = f"million-{kind}"
        write(workspace.directory / "data" / f"{name}.{kind}")
        began = time.monotonic()
        workspace.upload(f"data/{name}.{kind}")
        report(f"{kind}_million_ready_s", time.monotonic() - began, "s", rows=ROWS)
        for limit in (ROWS, None):
            taken = _first_call_s(workspace, model, name, limit)
            rows = limit or ROWS // 10
            report(f"{kind}_million_start_s", taken, "s", rows=rows)


def _first_call_s(workspace: Workspace, model: str, dataset: str, limit: int | None) -> float:
    """From submit's own start to the first row's call; the run is stopped then."""
    text = CONFIG.format(
        entrypoint="main.py",
        model_path="mock",
        dataset=dataset,
        rows=limit,
        batch_size=32,
        env="",
    )
    if limit is None:
        text = text.replace("limit = None\n", "")
    config = f"configs/eval/{dataset}.toml"
    workspace.write(config, text)
    http_json(f"{model}/reset", body=b"{}")
    began = time.time()
    run = workspace.submit(config)
    while (first := http_json(f"{model}/stats")["first_row_unix"]) is None:
        if time.time() - began > LIMIT_S:
            raise AssertionError("no row was asked")
        time.sleep(LOOK_EVERY_S)
    workspace.osmosis("eval", "stop", run, "--yes")
    workspace.wait(run)
    return float(first) - began


def _rows() -> Iterable[tuple[str, str]]:
    for row in range(ROWS):
        a, b = multiplication(row)
        yield f"What is {a} x {b}?", str(a * b)


def _write_parquet(path: Path) -> None:
    # Only this figure needs it, and it takes a third of a second to load.
    import pyarrow as pa
    import pyarrow.parquet as pq

    questions, answers = zip(*_rows(), strict=True)
    table = pa.table(
        {"system_prompt": [SYSTEM] * ROWS, "user_prompt": questions, "ground_truth": answers}
    )
    pq.write_table(table, path, row_group_size=ROW_GROUP)


def _write_jsonl(path: Path) -> None:
    with path.open("w") as out:
        for question, answer in _rows():
            row = {"system_prompt": SYSTEM, "user_prompt": question, "ground_truth": answer}
            out.write(json.dumps(row) + "\n")
