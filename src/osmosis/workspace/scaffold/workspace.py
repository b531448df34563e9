"""``osmosis init``: a git repository with the layout, one working rollout and its data."""

from __future__ import annotations

import json
import random
import re
from dataclasses import dataclass, field
from pathlib import Path

from osmosis.wire.errors import Conflict, ValidationFailed
from osmosis.workspace.git import run_git
from osmosis.workspace.layout import EVAL_CONFIGS, REQUIRED_DIRS, ROLLOUTS
from osmosis.workspace.reference import config_reference
from osmosis.workspace.scaffold.rollout import create_rollout, write_new
from osmosis.workspace.scaffold.templates import render, sdk_version

EXAMPLE = "multiply"
EXAMPLE_ROWS = 200
EXAMPLE_SEED = 7
SYSTEM_PROMPT = (
    "Multiply the two numbers. Think as long as you need, then give the result on the last line "
    "as: #### <number>"
)


@dataclass
class Scaffolded:
    """What was done. ``created`` holds relative paths; ``adopted``: the directory had content."""

    root: Path
    created: list[str] = field(default_factory=list)
    adopted: bool = False
    committed: bool = False


def create_workspace(directory: Path) -> Scaffolded:
    """Make ``directory`` a workspace.

    A new or empty directory gets everything, the example rollout and a first commit. A directory
    that is a workspace or a git work tree already gets only what it lacks, and no commit: its
    files are its author's.
    """
    root = directory.expanduser().absolute()
    if root.exists() and not root.is_dir():
        raise ValidationFailed(f"{directory} is a file.", hint="Name a directory.")
    adopted = root.is_dir() and any(root.iterdir())
    if adopted and not (root / ".git").exists() and not (root / ROLLOUTS).is_dir():
        raise Conflict(
            f"{directory} is not empty and is no workspace.",
            hint="Name a new directory, or run `git init` in it first to add a workspace to it.",
        )
    root.mkdir(parents=True, exist_ok=True)
    _init_repository(root)
    result = Scaffolded(root=root, adopted=adopted)
    with_example = not any((root / ROLLOUTS).glob("*/")) if (root / ROLLOUTS).is_dir() else True
    for path, text in _files(root.name).items():
        if not (root / path).exists():
            write_new(root, path, text)
            result.created.append(path)
    if with_example:
        data = f"data/{EXAMPLE}.jsonl"
        if not (root / data).exists():
            write_new(root, data, example_rows())
            result.created.append(data)
        result.created += create_rollout(root, EXAMPLE, force=False, dataset=EXAMPLE)
        for path, template in (
            (f"models/{EXAMPLE}.toml", "workspace/scripted-model.toml"),
            (f"{EVAL_CONFIGS}/{EXAMPLE}-scripted.toml", "workspace/scripted-eval.toml"),
        ):
            if not (root / path).exists():
                write_new(root, path, render(template))
                result.created.append(path)
    result.created += create_directories(root)
    if not adopted:
        _commit(root)
        result.committed = True
    return result


def guidance_files() -> dict[str, str]:
    """The files that ``doctor`` asks for, by relative path."""
    return {
        "AGENTS.md": render("workspace/AGENTS.md"),
        "CLAUDE.md": render("workspace/CLAUDE.md"),
        "configs/AGENTS.md": render("workspace/configs/AGENTS.md", reference=config_reference()),
    }


def create_directories(root: Path) -> list[str]:
    """Add missing required directories, each held in git by an empty ``.gitkeep``."""
    created: list[str] = []
    for name in REQUIRED_DIRS:
        if not (root / name).is_dir():
            write_new(root, f"{name}/.gitkeep", "")
            created.append(f"{name}/.gitkeep")
    return created


def example_rows() -> str:
    """The example's dataset: products from easy to hard, the same ones each time."""
    draw = random.Random(EXAMPLE_SEED)  # noqa: S311 - sample data, not a secret
    lines: list[str] = []
    for index in range(EXAMPLE_ROWS):
        top = 10 ** (1 + index * 3 // EXAMPLE_ROWS)
        left, right = draw.randint(2, top), draw.randint(2, top)
        row = {
            "system_prompt": SYSTEM_PROMPT,
            "user_prompt": f"What is {left} times {right}?",
            "ground_truth": str(left * right),
        }
        lines.append(json.dumps(row))
    return "\n".join(lines) + "\n"


def _files(name: str) -> dict[str, str]:
    package = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "workspace"
    return {
        **guidance_files(),
        "README.md": render("workspace/README.md", name=name),
        ".gitignore": render("workspace/gitignore"),
        "pyproject.toml": render(
            "workspace/pyproject.toml", package=package, version=sdk_version()
        ),
    }


def _init_repository(root: Path) -> None:
    if (root / ".git").exists():
        return
    done = run_git(root, "init", "--quiet", "--initial-branch=main")
    if done.code != 0:
        raise ValidationFailed(f"git init failed in {root}: {done.error}")


def _commit(root: Path) -> None:
    identity: list[str] = []
    if run_git(root, "var", "GIT_COMMITTER_IDENT").code != 0:
        identity = ["-c", "user.name=osmosis", "-c", "user.email=osmosis@localhost"]
    run_git(root, "add", "--all")
    message = "Start the workspace"
    done = run_git(root, *identity, "commit", "--quiet", "--no-verify", "--message", message)
    if done.code != 0:
        raise ValidationFailed(f"The first commit failed in {root}: {done.error}")
