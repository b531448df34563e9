"""Finished local runs as a client of imports declares and sends them."""

from __future__ import annotations

import hashlib
import json
from typing import Any

STARTED, ENDED = "2026-01-01T10:00:00+00:00", "2026-01-01T10:05:00+00:00"

Files = dict[str, bytes]


def rollout_id(row: int, run: int = 0, generation: int = 0) -> str:
    return f"{generation:08x}{row:012x}{run:012x}"


def local_run(rows: int = 3, n: int = 2, generation: int = 0, **odd: Any) -> Files:
    """The files of a finished local run: run 0 of each row passes, run 1 fails in row 0."""
    index: list[dict[str, Any]] = []
    files: Files = {}
    for row in range(rows):
        for run in range(n):
            own = rollout_id(row, run, generation)
            failed = row == 0 and run == 1
            line: dict[str, Any] = {
                "row_index": row,
                "run_index": run,
                "rollout_id": own,
                "status": "failed" if failed else "success",
                "duration_ms": 12.5,
                **({"error_type": "timeout"} if failed else {"reward": 1.0 - run, "tokens": 10}),
            }
            if not failed:
                line["trajectory_filename"] = "trajectory.json"
                place = {"row_index": row, "run_index": run}
                document = {
                    "schema_version": "ATIF-v1.7",
                    "session_id": own,
                    "agent": {"name": "a", "version": "1"},
                    "steps": [{"step_id": 1, "source": "user", "message": f"row {row}"}],
                    "extra": {"osmosis": {"rollout_id": own, "request_extra_fields": place}},
                }
                files[f"rollout_trials/{own}/trajectory.json"] = json.dumps(document).encode()
            index.append(line)
    files[f"rollout_trials/{rollout_id(1, 0, generation)}/artifacts/deep/a.txt"] = b"hello"
    files[f"rollout_trials/{rollout_id(1, 0, generation)}/artifacts/empty"] = b""
    files["index.jsonl"] = b"".join(json.dumps(line).encode() + b"\n" for line in index)
    files["progress.json"] = json.dumps(
        {"total_runs": rows * n, "sampled_rows": rows, "total_dataset_rows": 40}
    ).encode()
    files["logs.txt"] = b"2026-01-01T10:00:01.000Z WARNING [run] careful\nnot a line\n"
    return {**files, **odd}


def declared(files: Files, *, rows: str = "0-1,7", n: int = 2, **more: Any) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "local_run_id": "ab" * 16,
        "manifest_digest": "cd" * 32,
        "run": {
            "name": "calm-otter-1",
            "started_at": STARTED,
            "completed_at": ENDED,
            "experiment_config": {
                "rollout": {"name": "multiply", "source_digest": "ef" * 32},
                "entrypoint": "main.py",
                "model_path": "openai/gpt-5-mini",
                "dataset": {"name": "sums", "sha256": "01" * 32, "selected_source_rows": rows},
            },
            "evaluation_config": {"n": n, "pass_threshold": 1.0},
        },
        "schema_versions": {"rollout_protocol": "0.3"},
        "provenance": {"git_head": "12" * 20, "git_dirty": True},
        "files": [
            {"path": path, "size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
            for path, content in files.items()
        ],
        **more,
    }
