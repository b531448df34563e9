"""Which local run ``replay/RUN`` means, and what is said when it cannot be replayed."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from osmosis.evaluation.local.replays import find_replays
from osmosis.wire.errors import NotFound, ValidationFailed
from osmosis.workspace.config import EvalConfig, parse_eval_config


def config(model: str, judge: str | None = None) -> EvalConfig:
    experiment = {"rollout": "r", "entrypoint": "main.py", "model_path": model, "dataset": "d"}
    advanced = {"judge_model": judge} if judge else {}
    return parse_eval_config(
        {"experiment": experiment, "advanced": advanced, "secrets": {"required": []}}
    )


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A local run 'one' with the kept calls of one sample, and 'bare' with none."""
    root = tmp_path / ".osmosis" / "evals"
    for name in ("one", "bare"):
        (root / name / "rollout_trials").mkdir(parents=True)
        inputs = {"model_path": "box/mock", "advanced": {"judge_model": "box/judge"}}
        manifest = {"local_run_id": f"id of {name}", "inputs": inputs}
        (root / name / "manifest.json").write_text(json.dumps(manifest))
    line = {"row_index": 0, "run_index": 0, "source_row_index": 7, "rollout_id": "ab"}
    line |= {"status": "success", "duration_ms": 1.0, "reward": 1.0}
    (root / "one" / "events.jsonl").write_text(json.dumps(line) + "\n")
    trial = root / "one" / "rollout_trials" / "ab"
    trial.mkdir()
    (trial / "model_calls.jsonl.gz").write_bytes(gzip.compress(b"kept"))
    return root


async def test_a_run_is_named_or_given_by_its_directory(runs: Path, tmp_path: Path) -> None:
    for ref in ("one", str(runs / "one"), ".osmosis/evals/one"):
        [source] = find_replays(config(f"replay/{ref}"), runs, tmp_path)
        assert (source.name, source.run_name, source.model_path) == (ref, "one", "box/mock")
        assert source.run_id == "id of one"
        [sample] = await source.fetch()
        assert (sample.source_row, sample.run_index) == (7, 0)
        assert gzip.decompress(sample.packed) == b"kept"


def test_the_judge_may_be_a_replay_and_no_replay_names_no_run(runs: Path, tmp_path: Path) -> None:
    [source] = find_replays(config("box/mock", "replay/one"), runs, tmp_path)
    assert source.model_path == "box/judge"
    assert find_replays(config("box/mock"), runs, tmp_path) == ()


def test_an_unknown_run_suggests_the_near_one_and_one_without_calls_says_so(
    runs: Path, tmp_path: Path
) -> None:
    with pytest.raises(NotFound, match="Did you mean 'one'"):
        find_replays(config("replay/onne"), runs, tmp_path)
    with pytest.raises(ValidationFailed, match="no kept calls"):
        find_replays(config("replay/bare"), runs, tmp_path)
