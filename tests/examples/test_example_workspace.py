"""The example workspace is what it says: whole, reproducible, and it runs."""

from __future__ import annotations

import importlib.util
import json
import sys
import uuid
from pathlib import Path

import pytest

from osmosis.evaluation.gateway import Gateway
from osmosis.evaluation.redaction import Redactor
from osmosis.rollout.model import close_sessions
from osmosis.workspace.config import load_eval_config
from osmosis.workspace.layout import missing_paths
from osmosis.workspace.reference import config_reference
from osmosis.workspace.scaffold.templates import render
from tests.evaluation.gateway.upstream import Log, make_plan
from tests.rollout.driver import Driver

WORKSPACE = Path(__file__).resolve().parents[2] / "examples" / "workspace"
ROLLOUTS = ("multiply", "calculator", "judged")
MAX_DATA_BYTES = 300_000


def load(path: Path, monkeypatch) -> object:
    """Import a file the way an entrypoint is run: its own directory first on the path."""
    monkeypatch.syspath_prepend(str(path.parent))
    monkeypatch.delitem(sys.modules, "tools", raising=False)
    spec = importlib.util.spec_from_file_location(f"example_{path.parent.name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rows(name: str) -> list[dict[str, str]]:
    return [json.loads(line) for line in (WORKSPACE / f"data/{name}.jsonl").open()]


@pytest.fixture
async def run_rows(tmp_path, monkeypatch):
    """Run rows of a rollout on its scripted model, through the real gateway."""
    monkeypatch.setenv("_OSMOSIS_ROLLOUT_ARTIFACT_ROOT", str(tmp_path))
    opened = []

    async def run(name: str, which: slice, **changes: object) -> list[dict]:
        model = f"scripted/models/{name}.toml"
        plan = make_plan(WORKSPACE, model, advanced={"judge_model": model})
        gateway = Gateway(plan, Redactor([]), Log())
        await gateway.start()
        opened.append(gateway.close)
        await gateway.preflight()
        module = load(WORKSPACE / f"rollouts/{name}/main.py", monkeypatch)
        driver = Driver(None, None, tmp_path, backend=backend_of(module))
        opened.append(driver.close)
        bodies = []
        for row in rows(name)[which]:
            rollout = uuid.uuid4().hex
            session = gateway.open_session(rollout)
            request = {
                "rollout_id": rollout,
                "initial_messages": [
                    {"role": "system", "content": row["system_prompt"]},
                    {"role": "user", "content": row["user_prompt"]},
                ],
                "label": row["ground_truth"],
                "chat_completions_url": session.chat_completions_url,
                "llm_api_key": session.api_key,
                "judge_completions_url": session.judge_completions_url,
                "judge_api_key": session.judge_api_key,
            }
            body = await driver.run(**{**request, **changes})
            bodies.append({**body, "calls": list(session.calls)})
            session.close()
        return bodies

    yield run
    for close in reversed(opened):
        await close()
    await close_sessions()


def backend_of(module):
    from osmosis.rollout import LocalBackend

    names = {"multiply": "Multiply", "calculator": "Calculator", "judged": "Answer"}
    workflow = getattr(module, names[module.config.name])
    grader = module.Judge if module.config.name == "judged" else module.LastNumber
    return LocalBackend(workflow=workflow, workflow_config=module.config, grader=grader)


async def test_multiply_grades_the_last_number(run_rows):
    bodies = await run_rows("multiply", slice(0, 30))
    assert all(body["status"] == "success" for body in bodies), bodies
    rewards = [body["sample"]["reward"] for body in bodies]
    assert 0 < sum(rewards) < len(rewards), "the scripted model makes some mistakes"
    assert all(len(body["calls"]) == 1 for body in bodies)


async def test_the_calculator_uses_its_tools_over_several_turns(run_rows):
    bodies = await run_rows("calculator", slice(95, 110))
    assert all(body["status"] == "success" for body in bodies), bodies
    assert sum(body["sample"]["reward"] for body in bodies) > len(bodies) / 2
    for index, body in enumerate(bodies, start=95):
        steps = 2 if index < 100 else 3
        assert body["sample"]["metrics"] == {"turns": steps + 1.0, "tool_calls": float(steps)}
        assert len(body["calls"]) == steps + 1


async def test_the_judge_grades_on_its_own_route(run_rows):
    bodies = await run_rows("judged", slice(0, 12))
    assert all(body["status"] == "success" for body in bodies), bodies
    rewards = [body["sample"]["reward"] for body in bodies]
    assert {0.0, 1.0} == set(rewards)
    assert [call.route for call in bodies[0]["calls"]] == ["policy", "judge"]
    explanations = {body["sample"]["extra_fields"]["explanation"] for body in bodies}
    assert explanations == {
        "The answer states the reference.",
        "The answer does not state the reference.",
    }


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("#### 12", 12.0),
        ("#### 1\nno: #### 1,234.5.", 1234.5),
        ("####-7", -7.0),
        ("12", None),
        ("#### twelve", None),
    ],
)
@pytest.mark.parametrize("name", ["multiply", "calculator"])
def test_only_the_last_marked_number_counts(monkeypatch, name, text, number):
    module = load(WORKSPACE / f"rollouts/{name}/main.py", monkeypatch)
    assert module.last_number(text) == number


async def test_a_judge_without_a_score_is_an_error_and_not_a_zero(run_rows):
    """Without a reference, the scripted judge has only words."""
    (body,) = await run_rows("judged", slice(0, 1), label=None, metadata={"level": 1})
    assert (body["status"], body["err_category"]) == ("failure", "http_error")
    assert "There is nothing to grade" not in body["err_message"]
    assert "no verdict in the answer" in body["err_message"]
    assert body["sample"]["reward"] is None
    assert [call.route for call in body["calls"]] == ["policy", "judge", "judge"]


def test_a_tools_mistake_comes_back_to_the_model_as_text(monkeypatch):
    tools = load(WORKSPACE / "rollouts/calculator/tools.py", monkeypatch)
    assert tools.call_tool("divide", '{"a": 7, "b": 2}') == "3.5"
    for name, arguments in (("divide", '{"a": 1, "b": 0}'), ("add", "{"), ("root", "{}")):
        assert tools.call_tool(name, arguments).startswith("error: ")


def test_the_data_are_what_the_generator_writes(tmp_path, monkeypatch):
    generator = load(WORKSPACE / "data/generate.py", monkeypatch)
    generator.write(tmp_path)
    total = 0
    for name in ROLLOUTS:
        written = (tmp_path / f"{name}.jsonl").read_bytes()
        assert written == (WORKSPACE / f"data/{name}.jsonl").read_bytes(), name
        total += len(written)
    assert total < MAX_DATA_BYTES


def test_multiply_goes_from_easy_to_hard_and_every_label_is_right():
    found = [(row["user_prompt"], int(row["ground_truth"])) for row in rows("multiply")]
    assert len(found) == 1000
    factors = [tuple(map(int, text[18:-1].split(" x "))) for text, _ in found]
    assert all(a * b == label for (a, b), (_, label) in zip(factors, found, strict=True))
    assert set(factors[:25]) == {(a, b) for a in range(1, 6) for b in range(1, 6)}
    lengths = [len(str(a)) + len(str(b)) for a, b in factors]
    assert lengths == sorted(lengths)


def test_every_expression_of_the_calculator_has_its_value():
    for row in rows("calculator"):
        expression = row["user_prompt"].removeprefix("Compute ")
        assert eval(expression) == float(row["ground_truth"])


def test_the_workspace_is_complete_and_its_guidance_is_the_scaffolds():
    assert missing_paths(WORKSPACE) == []
    guidance = (WORKSPACE / "configs/AGENTS.md").read_text()
    assert guidance == render("workspace/configs/AGENTS.md", reference=config_reference())
    assert (WORKSPACE / "AGENTS.md").read_text() == render("workspace/AGENTS.md")


@pytest.mark.parametrize(
    "path", sorted(WORKSPACE.glob("configs/eval/*.toml")), ids=lambda p: p.name
)
def test_every_eval_config_is_valid_and_names_what_exists(path):
    experiment = load_eval_config(path).experiment
    assert (WORKSPACE / "rollouts" / experiment.rollout / experiment.entrypoint).is_file()
    assert (WORKSPACE / "data" / f"{experiment.dataset}.jsonl").is_file()
    provider, _, file = experiment.model_path.partition("/")
    assert provider != "scripted" or (WORKSPACE / file).is_file()
