"""``osmosis rollout init``: a rollout that works as it stands, with its two configs."""

from __future__ import annotations

import re
from pathlib import Path

from osmosis.wire.errors import Conflict, ValidationFailed
from osmosis.workspace.layout import EVAL_CONFIGS, ROLLOUTS, TRAINING_CONFIGS
from osmosis.workspace.scaffold.templates import render, sdk_version

ROLLOUT_NAME = re.compile(r"[a-z][a-z0-9-]*")
RESERVED_NAMES = ("default",)


def create_rollout(
    root: Path, name: str, *, force: bool = False, dataset: str | None = None
) -> list[str]:
    """Write rollout ``name`` and its configs; give the written paths relative to ``root``.

    Nothing is written when a path exists already, unless ``force``.
    """
    check_rollout_name(name)
    values = {"name": name, "dataset": dataset or _likely_dataset(root, name)}
    files = {
        f"{ROLLOUTS}/{name}/main.py": render("rollout/main.py", **values),
        f"{ROLLOUTS}/{name}/pyproject.toml": render(
            "rollout/pyproject.toml", **values, version=sdk_version()
        ),
        f"{ROLLOUTS}/{name}/README.md": render("rollout/README.md", **values),
        f"{EVAL_CONFIGS}/{name}.toml": render("rollout/eval.toml", **values),
        f"{TRAINING_CONFIGS}/{name}.toml": render("rollout/training.toml", **values),
    }
    existing = [path for path in files if (root / path).exists()]
    if existing and not force:
        raise Conflict(
            f"These paths exist already: {', '.join(existing)}.",
            hint="Choose another name, or overwrite them with --force.",
            details={"existing": existing},
        )
    for path, text in files.items():
        write_new(root, path, text)
    return list(files)


def check_rollout_name(name: str) -> None:
    """Names are lower-case words with digits and hyphens, and start with a letter."""
    if ROLLOUT_NAME.fullmatch(name) and name not in RESERVED_NAMES:
        return
    suggestion = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-0123456789")
    usable = ROLLOUT_NAME.fullmatch(suggestion) and suggestion not in RESERVED_NAMES
    raise ValidationFailed(
        f"'{name}' cannot be the name of a rollout: use lower-case letters, digits and hyphens, "
        f"starting with a letter{', and not default' if name in RESERVED_NAMES else ''}.",
        hint=f"For example: {suggestion}" if usable else None,
        field="name",
    )


def write_new(root: Path, relative: str, text: str) -> None:
    """Write a file below ``root``, its directories first; never through a symlink."""
    target = root / relative
    for part in [target, *target.parents]:
        if part == root:
            break
        if part.is_symlink():
            raise ValidationFailed(f"{relative} leads through a symbolic link; not written.")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")


def _likely_dataset(root: Path, name: str) -> str:
    """The dataset that the new config names: one of the rollout's name, else the only one here."""
    folder = root / "data"
    stems = sorted(
        path.stem for path in folder.glob("*") if path.suffix in (".jsonl", ".csv", ".parquet")
    )
    return name if name in stems or len(stems) != 1 else stems[0]
