from __future__ import annotations

import json
import subprocess
import sys

import osmosis.rollout
import osmosis.rollout.types

HEAVY = "aiohttp fastapi starlette uvicorn httpx requests sqlalchemy litellm openai asyncio"
VENDOR_EXPORTS = """
    AgentWorkflow AgentWorkflowConfig AgentWorkflowContext AgentWorkflowOutput BaseConfig
    ConcurrencyConfig ExecutionBackend ExecutionOutcome ExecutionRequest ExecutionResult Grader
    GraderConfig GraderContext LocalBackend MessageDict RolloutContext RolloutErrorCategory
    RolloutInitRequest RolloutInitResponse RolloutResultResponse RolloutSample RolloutStatus
    SampleSource get_rollout_context
"""
IMPORT_LIMIT_S = 0.2

PROBE = f"""
import json, sys, time
started = time.perf_counter()
import osmosis.rollout
took = time.perf_counter() - started
print(json.dumps([took, [name for name in {HEAVY.split()!r} if name in sys.modules]]))
"""


def test_importing_the_package_is_quick_and_loads_nothing_heavy():
    runs = []
    for _ in range(3):
        printed = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, check=True)
        took, heavy = json.loads(printed.stdout)
        assert heavy == []
        runs.append(took)
    assert min(runs) < IMPORT_LIMIT_S


def test_the_base_classes_load_no_http_client_and_no_web_framework():
    code = (
        "from osmosis.rollout import AgentWorkflow, Grader, RolloutSample, LocalBackend\n"
        "import sys\n"
        f"print([n for n in {HEAVY.split()!r} if n in sys.modules and n != 'asyncio'])"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert printed.stdout.strip() == b"[]"


def test_the_vendors_names_are_all_there_and_each_export_resolves():
    assert set(VENDOR_EXPORTS.split()) <= set(osmosis.rollout.__all__)
    for name in osmosis.rollout.__all__:
        assert getattr(osmosis.rollout, name) is not None
    for name in osmosis.rollout.types.__all__:
        assert getattr(osmosis.rollout.types, name) is not None


def test_the_modules_that_users_import_from_exist():
    code = """
from osmosis.rollout.agent_workflow import AgentWorkflow
from osmosis.rollout.backend.local import LocalBackend
from osmosis.rollout.context import GraderContext, get_rollout_context
from osmosis.rollout.grader import Grader
from osmosis.rollout.server import create_rollout_server
from osmosis.rollout.types import RolloutSample
from osmosis.rollout.trajectory import build_trajectory
"""
    subprocess.run([sys.executable, "-c", code], check=True)
