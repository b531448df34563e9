"""Workspaces, wheels and small rollout servers for the tests of environments and processes."""

from __future__ import annotations

import base64
import hashlib
import subprocess
import sys
import sysconfig
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uv

from osmosis.evaluation.environment import Environment
from osmosis.evaluation.plan import EvaluationPlan

SERVER = """
import json, os, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/health":
            body = {
                "status": "ok",
                "instance_id": os.environ["_OSMOSIS_ROLLOUT_INSTANCE_ID"],
                "concurrency": {"max_concurrent": 7},
            }
        else:
            body = {"answer": ACTIONS[self.path[1:]]()}
        raw = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *args):
        pass

def serve(**actions):
    ACTIONS.update(actions)
    port = int(os.environ["_OSMOSIS_ROLLOUT_PORT"])
    ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()

ACTIONS = {}
"""
"""A rollout server on the standard library alone; ``serve(name=function)`` answers ``/name``."""

NO_INDEX = "\n[tool.uv]\nno-index = true\n"

BACKEND = """
import base64, hashlib, os, zipfile

def get_requires_for_build_wheel(config_settings=None):
    return []

def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    name, version, files = describe()
    info = f"{name}-{version}.dist-info"
    files = dict(files)
    files[f"{info}/WHEEL"] = "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n"
    files[f"{info}/METADATA"] = f"Metadata-Version: 2.1\\nName: {name}\\nVersion: {version}\\n"
    record = ""
    for path, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=")
        record += f"{path},sha256={digest.decode()},{len(text.encode())}\\n"
    files[f"{info}/RECORD"] = record + f"{info}/RECORD,,\\n"
    wheel = f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(wheel_directory, wheel), "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return wheel
"""
"""A build backend that needs nothing from an index; ``describe()`` is the test's own code."""


@dataclass
class Recorder:
    """A sink that remembers."""

    logs: list[tuple[str, str, str]] = field(default_factory=list)

    def log(
        self, level: str, step: str, message: str, details: dict[str, Any] | None = None
    ) -> None:
        self.logs.append((level, step, message))

    @property
    def text(self) -> str:
        return "\n".join(message for _, _, message in self.logs)

    async def stage(self, stage: str) -> None: ...

    async def record(self, record: object) -> None: ...

    async def artifact(self, rollout_id: str, relative_path: str, source: Path) -> None: ...

    async def effective(self, values: dict[str, Any]) -> None: ...

    async def flush(self) -> None: ...


@dataclass
class Lab:
    """One workspace with one rollout called ``demo``."""

    root: Path
    cache: Path

    def __post_init__(self) -> None:
        self.rollout.mkdir(parents=True, exist_ok=True)
        self.private.mkdir(exist_ok=True)
        self.main("print('hello')\n")

    @property
    def code(self) -> Path:
        return self.root / "code"

    @property
    def rollout(self) -> Path:
        return self.code / "rollouts/demo"

    @property
    def private(self) -> Path:
        return self.root / "private"

    def main(self, text: str) -> None:
        (self.rollout / "main.py").write_text(text)

    def pyproject(self, *dependencies: str, more: str = "", directory: str = ".") -> None:
        path = self.rollout / directory
        path.mkdir(parents=True, exist_ok=True)
        listed = ", ".join(f'"{item}"' for item in dependencies)
        (path / "pyproject.toml").write_text(
            f'[project]\nname = "demo"\nversion = "0.1"\ndependencies = [{listed}]\n{more}'
        )

    def library(self, describe: str, name: str = "helper") -> str:
        """A package in the workspace with its own build backend; returns its uv source."""
        directory = self.code / "libs" / name
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "pyproject.toml").write_text(
            f'[project]\nname = "{name}"\nversion = "1.0"\n'
            '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
        )
        (directory / "backend.py").write_text(BACKEND + describe)
        return f'[tool.uv.sources]\n{name} = {{ path = "../../libs/{name}" }}\n'

    def lock(self) -> None:
        """What the author does: ``uv lock``."""
        subprocess.run(
            [uv.find_uv_bin(), "lock", "--offline", "--quiet", "--cache-dir", self.root / "uv"],
            cwd=self.rollout,
            check=True,
        )

    def plan(self, **changes: Any) -> EvaluationPlan:
        fields: dict[str, Any] = {
            "run_id": "run",
            "name": "run",
            "code_dir": self.code,
            "work_dir": self.root / "work",
            "cache_dir": self.cache,
            "rollout": "demo",
            "entrypoint": "main.py",
            "model_path": "scripted/rules.toml",
            "private_dirs": (self.private,),
        }
        return EvaluationPlan(**(fields | changes))


def this_python() -> Environment:
    """An environment without packages: the interpreter that runs the tests."""
    python = Path(sys._base_executable).resolve()  # pyright: ignore
    prefix = Path(sys.base_prefix)
    return Environment(
        python=python,
        directory=prefix,
        key="none",
        cached=True,
        sdk=None,
        python_version=sysconfig.get_python_version(),
        python_prefix=prefix,
    )


def write_wheel(directory: Path, name: str, version: str) -> None:
    """A wheel with one empty module."""
    directory.mkdir(parents=True, exist_ok=True)
    info = f"{name}-{version}.dist-info"
    files = {
        f"{name}.py": b"",
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode(),
    }
    record = "".join(
        f"{path},sha256={base64.urlsafe_b64encode(hashlib.sha256(raw).digest()).rstrip(b'=').decode()},"
        f"{len(raw)}\n"
        for path, raw in files.items()
    )
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    with zipfile.ZipFile(directory / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        for path, raw in files.items():
            archive.writestr(path, raw)
