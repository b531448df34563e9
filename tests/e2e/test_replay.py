"""Running again without paying again, from outside: another grader, another prompt, a secret."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.mock_model import mock_model
from lab.platform import Lab
from lab.ports import free_port, http_json
from lab.workspace import Workspace
from tests.e2e.configs import eval_config

ROWS = 6
MAIN = "rollouts/multiply/main.py"
LOUDER = "[{**m, 'content': m['content'] + '!'} for m in ctx.prompt]"
SECRET = "canary-5f1c9e-value"


@pytest.fixture(scope="module")
def model() -> Iterator[str]:
    with mock_model(free_port(), latency_ms=30) as url:
        yield url


@pytest.fixture(scope="module")
def beta(lab: Lab, model: str, environments: Path) -> Workspace:
    """A workspace of its own, since these tests push other graders and prompts."""
    made = lab.workspace("replayed", environments=environments)
    made.upload("data/multiply.jsonl")
    made.osmosis("model", "endpoint", "add", "box", "--base-url", f"{model}/v1", "--model", "mock")
    return made


@pytest.fixture
def original(beta: Workspace) -> Iterator[tuple[Path, str]]:
    """The rollout's file and its text, which is put back afterwards."""
    main = beta.directory / MAIN
    text = main.read_text()
    yield main, text
    main.write_text(text)
    beta.push("As it was")


def hits(model: str) -> int:
    return int(http_json(f"{model}/stats")["requests"])


def ended(workspace: Workspace, name: str, **config: Any) -> dict[str, Any]:
    workspace.write(f"configs/eval/{name}.toml", eval_config(limit=ROWS, batch_size=ROWS, **config))
    info = workspace.wait(workspace.start(f"configs/eval/{name}.toml"))
    assert info["eval_run"]["status"] == "finished", info
    return info


def samples_of(workspace: Workspace, run: str) -> list[dict[str, Any]]:
    return workspace.api(f"/api/cli/eval-runs/{run}/samples")["samples"]


def test_the_same_config_again_asks_no_model(beta: Workspace, model: str) -> None:
    config: dict[str, Any] = {"model": "box", "advanced": {"cache": True}, "n": 2}
    before = hits(model)
    first = ended(beta, "cached", **config)
    assert hits(model) - before == 2 * ROWS + 1, "every sample, and the check before them"
    assert "saved_calls" not in first["results"]
    second = ended(beta, "cached", **config)
    assert hits(model) - before == 2 * ROWS + 1
    assert second["results"]["score"] == first["results"]["score"] == 1.0
    assert second["results"]["saved_calls"] == 2 * ROWS
    assert second["results"]["cost_usd"] == 0.0
    run = second["eval_run"]["name"]
    shown = beta.osmosis("eval", "show", run, "0").stdout
    assert "$0.00, from the cache, saved unknown" in shown
    detail = beta.api(f"/api/cli/eval-runs/{run}/samples/0/0")
    (call,) = detail["calls"]
    assert call["cached"] is True
    assert call["upstream_requests"] == 0
    assert call["latency_s"] >= 0.03, "as long as the first took"
    assert detail["saved_calls"] == 1
    assert "without a model" in beta.osmosis("eval", "info", run).stdout


def test_another_grader_and_another_prompt_on_the_answers_of_an_earlier_run(
    beta: Workspace, model: str, original: tuple[Path, str]
) -> None:
    first = ended(beta, "first", model="box")
    name = first["eval_run"]["name"]
    before = hits(model)
    main, text = original
    main.write_text(text.replace("1.0 if right else 0.0", "0.25 if right else 0.0"))
    beta.push("Another grader")
    again = ended(beta, "again", model=f"replay/{name}")
    assert again["results"]["graded"] == ROWS
    assert again["results"]["score"] == 0.25
    assert again["results"]["saved_calls"] == ROWS
    assert again["results"]["cost_usd"] == 0.0
    shown = beta.osmosis("eval", "info", again["eval_run"]["name"]).stdout
    assert "replay: answers of box" in " ".join(shown.split())

    main.write_text(text.replace("call_model(ctx.prompt)", f"call_model({LOUDER})"))
    beta.push("Another prompt")
    missed = ended(beta, "missed", model=f"replay/{name}")
    assert missed["results"]["failed"] == ROWS
    assert missed["results"]["errors"] == {"replay_miss": ROWS}
    message = samples_of(beta, missed["eval_run"]["name"])[0]["error_message"]
    assert "source row 0, run 0" in message
    assert "messages[0]" in message
    assert hits(model) == before


def test_a_local_run_is_cached_and_replayed_by_name(beta: Workspace, model: str) -> None:
    endpoint = ["--endpoint", f"box={model}/v1", "--yes"]

    def run(name: str, config: str) -> dict[str, Any]:
        words = ["eval", "run", f"configs/eval/{config}.toml", "--name", name, *endpoint]
        return beta.json(*words)["resource"]["results"]

    beta.write("configs/eval/here.toml", eval_config(
        model="box/mock", limit=3, batch_size=3, advanced={"cache": True}
    ))  # fmt: skip
    before = hits(model)
    run("one", "here")
    assert hits(model) - before == 4
    assert run("two", "here")["score"] == 1.0
    assert hits(model) - before == 4
    beta.write("configs/eval/back.toml", eval_config(model="replay/one", limit=3, batch_size=3))
    assert run("three", "back")["graded"] == 3
    beta.write("configs/eval/none.toml", eval_config(model="replay/onne", limit=3))
    done = beta.osmosis("eval", "run", "configs/eval/none.toml", *endpoint, rc=1)
    assert "Did you mean 'one'?" in done.stderr
    assert hits(model) - before == 4


def test_a_secret_value_reaches_neither_cache_nor_kept_calls(
    lab: Lab, beta: Workspace, original: tuple[Path, str]
) -> None:
    main, text = original
    leak = "[{**m, 'content': m['content'] + os.environ['CANARY']} for m in ctx.prompt]"
    main.write_text(text.replace("call_model(ctx.prompt)", f"call_model({leak})"))
    beta.push("Tell the model a secret")
    beta.osmosis("secret", "set", "CANARY", stdin=SECRET)
    info = ended(beta, "leak", model="box", secrets=["CANARY"], advanced={"cache": True})
    again = ended(beta, "leaks", model=f"replay/{info['eval_run']['name']}", secrets=["CANARY"])
    assert again["results"]["score"] == 1.0, "compared with secret values taken out"
    assert not list(_files_with(lab.data / "responses", SECRET.encode()))
    assert not list(_files_with(lab.data / "runs", SECRET.encode()))


def _files_with(folder: Path, needle: bytes) -> Iterator[Path]:
    """Files that hold ``needle`` as it is or in one of their compressed parts."""
    for path in folder.rglob("*"):
        if not path.is_file():
            continue
        raw = path.read_bytes()
        if needle in raw:
            yield path
        for start in _starts(raw):
            try:
                if needle in zlib.decompressobj(wbits=47).decompress(raw[start:]):
                    yield path
            except zlib.error:
                continue


def _starts(raw: bytes) -> Iterator[int]:
    for magic in (b"\x1f\x8b\x08", b"\x78\x01"):
        at = raw.find(magic)
        while at >= 0:
            yield at
            at = raw.find(magic, at + 1)
