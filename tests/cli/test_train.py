"""`osmosis train` and trained models: refused by our server, and shown as the contract has them."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Osmosis

RUN: dict[str, Any] = {
    "id": "t1",
    "name": "keen-otter-7",
    "status": "finished",
    "created_at": "2026-01-02T03:04:05Z",
    "current_step": 20,
    "total_steps": 20,
    "reward": 0.75,
}
METRICS: dict[str, Any] = {
    "status": "finished",
    "overview": {
        "latest_step": 20,
        "metric_summaries": [
            {
                "key": "rollout/raw_reward",
                "title": "Training Reward",
                "initial": 0.25,
                "latest": 0.75,
                "delta": 0.5,
                "min": 0.25,
                "max": 0.8,
            }
        ],
    },
    "metrics": [
        {
            "metric_key": "rollout/raw_reward",
            "title": "Training Reward",
            "data_points": [{"step": 1, "value": 0.25, "timestamp": 1}],
        }
    ],
}
LORA = {"id": "m1", "model_name": "keen-otter-7-20", "base_model": "Org/Base", "reward": 0.75}
PAGE = {"total_count": 1, "has_more": False, "next_offset": None}
ANSWERS: dict[str, dict[str, Any]] = {
    "GET /api/cli/training-runs": {
        "training_runs": [
            {
                **RUN,
                "model": {"id": "b", "model_name": "Org/Base"},
                "dataset": {"id": "d", "file_name": "multiply"},
                "rollout": {"id": "r", "name": "multiply"},
            }
        ],
        **PAGE,
    },
    "GET /api/cli/training-runs/keen-otter-7": {
        "training_run": RUN,
        "model": {"id": "b", "name": "Org/Base"},
        "dataset": {"id": "d", "name": "multiply"},
        "rollout": {"id": "r", "name": "multiply"},
    },
    "GET /api/cli/training-runs/t1/metrics": METRICS,
    "GET /api/cli/training-runs/t1/checkpoints": {
        "checkpoints": [
            {"id": "c", "checkpoint_name": "step-20", "checkpoint_step": 20, "status": "uploaded"}
        ]
    },
    "GET /api/cli/training-runs/keen-otter-7/logs": {
        "logs": [{"timestamp": "2026-01-02T03:04:05Z", "level": "info", "message": "Begun."}],
        "next_cursor": None,
    },
    "POST /api/cli/training-runs/keen-otter-7/stop": {},
    "POST /api/cli/training-runs": {
        "id": "t2",
        "name": "calm-seal-1",
        "status": "pending",
        "created_at": "2026-01-02T03:04:05Z",
    },
    "GET /api/cli/models/lora": {"models": [LORA], **PAGE},
    "GET /api/cli/models/base": {"models": [], "total_count": 0},
    "GET /api/cli/models/keen-otter-7-20": {**LORA, "deployment_status": "active"},
    "POST /api/cli/models/keen-otter-7-20/deploy": {**LORA, "status": "active"},
    "POST /api/cli/models/keen-otter-7-20/undeploy": {**LORA, "status": "inactive"},
}


@dataclass
class Trainer:
    """A platform that trains; ``sent`` holds the last body of each call."""

    url: str
    sent: dict[str, Any] = field(default_factory=dict)


@pytest.fixture
def trainer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Trainer]:
    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            call = f"{self.command} {self.path.partition('?')[0]}"
            length = int(self.headers.get("Content-Length") or 0)
            made.sent[call] = json.loads(self.rfile.read(length) or "null")
            body = json.dumps(ANSWERS[call]).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = _answer

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made = Trainer(f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    for name in ("OSMOSIS_PLATFORM_URL", "OSMOSIS_TOKEN_PLATFORM_URL"):
        monkeypatch.setenv(name, made.url)
    monkeypatch.setenv("OSMOSIS_TOKEN", "token")
    yield made
    server.shutdown()
    server.server_close()
    thread.join()


def test_training_runs_are_listed_with_flat_references(osmosis: Osmosis, trainer: Trainer):
    item = osmosis("--json", "--workspace", "w", "train", "list").json["items"][0]
    assert (item["model_name"], item["dataset_name"]) == ("Org/Base", "multiply")
    assert item["summary"]["progress"] == {"completed": 20, "total": 20, "unit": "steps"}
    assert "model" not in item
    plain = osmosis("--plain", "--workspace", "w", "train", "list").out.split("\t")
    assert plain[:5] == ["keen-otter-7", "finished", "Org/Base", "multiply", "0.75"]


def test_a_training_run_is_shown_with_metrics_and_checkpoints(
    osmosis: Osmosis, trainer: Trainer, tmp_path: Path
):
    words = ("--workspace", "w", "train", "info", "keen-otter-7", "-o", tmp_path / "m.json")
    data = osmosis("--json", *words).json["data"]
    assert data["metrics_available"] and not data["in_progress"]
    assert data["metrics"]["summaries"]["training_reward"]["latest"] == 0.75
    assert data["checkpoints"][0]["checkpoint_name"] == "step-20"
    saved = json.loads((tmp_path / "m.json").read_text())
    assert saved["series"]["training_reward"]["data_points"][0]["value"] == 0.25
    shown = osmosis(*words).out
    assert "20 of 20 steps" in shown and "0.2500 → 0.7500" in shown and "step-20" in shown


def test_a_training_run_is_followed_and_stopped(osmosis: Osmosis, trainer: Trainer):
    logs = osmosis("--json", "--workspace", "w", "train", "logs", "keen-otter-7").json
    assert logs["items"][0]["message"] == "Begun."
    stopped = osmosis("--json", "--workspace", "w", "train", "stop", "keen-otter-7", "-y").json
    assert (stopped["operation"], stopped["resource"]["name"]) == ("train.stop", "keen-otter-7")


def test_a_trained_model_is_shown_and_served(osmosis: Osmosis, trainer: Trainer):
    lists = osmosis("--json", "--workspace", "w", "model", "list").json
    assert lists["lora_models"]["items"][0]["model_name"] == "keen-otter-7-20"
    assert osmosis("--workspace", "w", "model", "list", "--type", "lora").code == 0
    words = ("--json", "--workspace", "w", "model")
    shown = osmosis(*words, "info", "keen-otter-7-20").json["data"]
    assert shown["lora_model"]["deployment_status"] == "active"
    assert osmosis(*words, "deploy", "keen-otter-7-20").json["operation"] == "model.deploy"
    assert osmosis(*words, "undeploy", "keen-otter-7-20").json["resource"]["status"] == "inactive"


def test_a_training_config_is_submitted_with_its_own_sections(
    ready: Path, osmosis: Osmosis, trainer: Trainer
):
    text = (ready / "configs/training/multiply.toml").read_text()
    (ready / "configs/training/mine.toml").write_text(text + "\n[advanced]\nanything = 1\n")
    done = osmosis("--json", "train", "submit", "configs/training/mine.toml", "-y").json
    assert done["resource"]["name"] == "calm-seal-1"
    sent = trainer.sent["POST /api/cli/training-runs"]
    assert sent["experiment_config"]["rollout"] == "multiply"
    assert sent["training_config"]["n_samples_per_prompt"] == 8
    assert sent["advanced_config"] == {"anything": 1}
    assert "evaluation_config" not in sent and "secrets" not in sent


def test_all_mistakes_of_a_training_config_come_at_once(ready: Path, osmosis: Osmosis):
    text = (ready / "configs/training/multiply.toml").read_text()
    wrong = text.replace("rollout_batch_size", "rollout_batch_sise") + "\n[evaluation]\nn = 1\n"
    (ready / "configs/training/wrong.toml").write_text(wrong.replace('"main.py"', '"../x"'))
    error = osmosis("--json", "train", "submit", "configs/training/wrong.toml", "-y").error
    issues = {issue["key"]: issue for issue in error["details"]["issues"]}
    assert set(issues) == {"experiment.entrypoint", "training.rollout_batch_sise", "evaluation"}
    assert "rollout_batch_size" in issues["training.rollout_batch_sise"]["message"]
    assert all(issue["line"] for issue in issues.values())


def test_our_server_refuses_what_it_does_not_do(ready: Path, osmosis: Osmosis):
    assert osmosis("--json", "train", "list").json["items"] == []
    for words in (
        ("train", "info", "x"),
        ("train", "logs", "x"),
        ("train", "stop", "x", "-y"),
        ("train", "submit", "configs/training/multiply.toml", "-y"),
        ("model", "deploy", "x"),
        ("model", "undeploy", "x"),
    ):
        error = osmosis("--json", *words).error
        assert error["code"] == "NOT_FOUND", words
        assert error["details"]["platform_code"] == "NOT_SUPPORTED", words


def test_a_model_that_is_not_there_is_told_with_the_near_one(ready: Path, osmosis: Osmosis):
    url = "http://127.0.0.1:9/v1"
    added = osmosis("model", "endpoint", "add", "llama", "--base-url", url, "--model", "Org/L-8B")
    assert added.code == 0
    shown = osmosis("--json", "model", "info", "Org/L-8B").json["data"]["base_model"]
    assert shown["model_name"] == "llama"
    assert "Did you mean 'llama'" in osmosis("--json", "model", "info", "lama").error["message"]
