"""A rollout's ``pyproject.toml`` as we need it: what its environment depends on."""

from __future__ import annotations

import difflib
import hashlib
import os
import re
import shutil
import stat
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from osmosis.evaluation.sdk_wheel import DISTRIBUTION
from osmosis.wire.errors import RunFailed, did_you_mean

_NOT_SOURCE = {
    "__pycache__", ".git", ".hg", ".venv", "venv", "node_modules", ".pytest_cache",
    ".ruff_cache", ".mypy_cache", ".osmosis",
}  # fmt: skip

MAX_NAMES_SHOWN = 8


@dataclass(frozen=True)
class RolloutProject:
    """One rollout directory of one commit.

    ``path_sources`` are the directories and files of the workspace that go into the environment
    (``[tool.uv.sources]`` with ``path`` or ``workspace``, theirs included; local indexes).
    """

    name: str
    directory: Path
    root: Path
    pyproject: Mapping[str, Any]
    lock: Path | None
    path_sources: Mapping[str, Path]

    @property
    def requires_python(self) -> str | None:
        """The project's own, else what its lock was made for."""
        value = self.pyproject.get("project", {}).get("requires-python")
        if value is None and self.lock is not None:
            value = _read_toml(self.lock, f"rollouts/{self.name}: uv.lock").get("requires-python")
        return value if isinstance(value, str) else None

    @property
    def dependencies(self) -> list[str]:
        value = self.pyproject.get("project", {}).get("dependencies", [])
        return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []

    @property
    def sdk_extras(self) -> list[str]:
        """Extras of our SDK that anything in the project asks for.

        Read from text, because requirements may also stand in setup.py or a requirements file.
        """
        extras: set[str] = set()
        pattern = re.compile(r"osmosis[-_.]+platform\s*\[([^\]]*)\]", re.IGNORECASE)
        for directory in (self.directory, *self.path_sources.values()):
            for file in _requirement_files(directory):
                for match in pattern.finditer(file.read_text(errors="replace")):
                    extras |= {part.strip().lower() for part in match[1].split(",")}
        return sorted(extra for extra in extras if re.fullmatch(r"[a-z0-9][a-z0-9._-]*", extra))

    @property
    def is_dynamic(self) -> bool:
        """Whether the dependencies come out of a build backend."""
        project = self.pyproject.get("project")
        return not isinstance(project, dict) or "dependencies" in project.get("dynamic", [])

    @property
    def input_files(self) -> list[Path]:
        """Every file that a resolution or a build may depend on: what a build gets to see."""
        wanted = [self.directory / "pyproject.toml", self.directory / "uv.toml"]
        wanted += [self.lock] if self.lock else []
        members = _workspace_members(self.root)
        if self.directory in members:
            wanted.append(self.root / "pyproject.toml")
            wanted += [member / "pyproject.toml" for member in members]
        for source in self.path_sources.values():
            wanted += _files(source)
        if self.is_dynamic:
            wanted += _files(self.directory)
        return sorted({path for path in wanted if path.is_symlink() or path.is_file()})

    def input_digest(self) -> str:
        """Of names, contents and modes of the input files."""
        digest = hashlib.sha256()
        for path in self.input_files:
            digest.update(f"{path.relative_to(self.root).as_posix()}\0".encode())
            digest.update(_file_digest(path))
        return digest.hexdigest()

    def copy_inputs(self, target: Path) -> None:
        """The input files below ``target``, where a build backend may write beside them."""
        for path in self.input_files:
            copy = target / path.relative_to(self.root)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, copy, follow_symlinks=False)
        if self.lock is not None and "requires-python" not in self.pyproject.get("project", {}):
            # uv would put this interpreter's version there and call the lock outdated.
            file = target / self.directory.relative_to(self.root) / "pyproject.toml"
            line = f'[project]\nrequires-python = "{self.requires_python}"\n'
            file.write_text(re.sub(r"(?m)^\[project\][ \t]*\n", lambda _: line, file.read_text()))


def read_project(code_dir: Path, rollout: str, entrypoint: str) -> RolloutProject:
    """Read and check the rollout; RunFailed says what is missing and what lies near."""
    rollouts = code_dir / "rollouts"
    directory = rollouts / rollout
    if not directory.is_dir():
        names = sorted(path.name for path in rollouts.glob("*") if path.is_dir())
        raise RunFailed(
            "entrypoint_missing",
            f"There is no rollouts/{rollout} at this commit.{did_you_mean(rollout, names)}",
            hint=f"Rollouts here: {', '.join(names[:MAX_NAMES_SHOWN]) or 'none'}. Create one with "
            "`osmosis rollout init`, commit and push.",
        )
    _check_entrypoint(directory, rollout, entrypoint)
    file = directory / "pyproject.toml"
    if not file.resolve().is_relative_to(code_dir.resolve()):
        raise RunFailed(
            "entrypoint_missing",
            f"rollouts/{rollout} is a link that leads out of the workspace.",
            hint="Commit the rollout's files themselves.",
        )
    if not file.is_file():
        raise RunFailed(
            "entrypoint_missing",
            f"rollouts/{rollout} has no pyproject.toml, so nothing says what it depends on.",
            hint=f"`osmosis rollout init {rollout} --force` writes one; or add it by hand with "
            f'dependencies = ["{DISTRIBUTION}"].',
        )
    pyproject = _read_toml(file, f"rollouts/{rollout}/pyproject.toml")
    return RolloutProject(
        name=rollout,
        directory=directory,
        root=code_dir,
        pyproject=pyproject,
        lock=_lock_file(code_dir, directory),
        path_sources={
            **dict(_path_sources(code_dir, directory, pyproject)),
            **dict(_local_indexes(code_dir, directory, pyproject)),
        },
    )


def _check_entrypoint(directory: Path, rollout: str, entrypoint: str) -> None:
    path = (directory / entrypoint).resolve()
    if not path.is_relative_to(directory.resolve()):
        raise RunFailed(
            "entrypoint_missing",
            f"The entrypoint {entrypoint!r} lies outside rollouts/{rollout}.",
            hint="Name a file inside the rollout's directory in [experiment] entrypoint.",
        )
    if path.is_file():
        return
    names = [
        path.relative_to(directory).as_posix() for path in _files(directory) if path.suffix == ".py"
    ]
    close = difflib.get_close_matches(entrypoint, names, n=MAX_NAMES_SHOWN, cutoff=0.3)
    shown = list(dict.fromkeys([*close, *names]))[:MAX_NAMES_SHOWN]
    raise RunFailed(
        "entrypoint_missing",
        f"rollouts/{rollout} has no file {entrypoint!r} at this commit."
        f"{did_you_mean(entrypoint, names)}",
        hint=f"Python files there: {', '.join(shown) or 'none'}. Correct [experiment] entrypoint, "
        "or commit and push the file.",
    )


def _read_toml(path: Path, shown: str) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise RunFailed(
            "dependencies_failed",
            f"{shown} is not valid TOML: {error}.",
            hint="Correct the file, commit and push.",
        ) from None


def _lock_file(root: Path, directory: Path) -> Path | None:
    """The rollout's ``uv.lock``, its own or that of the uv workspace it belongs to."""
    if (directory / "uv.lock").is_file():
        return directory / "uv.lock"
    if (root / "uv.lock").is_file() and directory in _workspace_members(root):
        return root / "uv.lock"
    return None


def _workspace_members(root: Path) -> list[Path]:
    file = root / "pyproject.toml"
    if not file.is_file():
        return []
    table = _read_toml(file, "pyproject.toml").get("tool", {}).get("uv", {}).get("workspace", {})
    patterns = [item for item in table.get("members", []) if isinstance(item, str)]
    found = [path for pattern in patterns for path in root.glob(pattern.strip("/"))]
    return sorted({path for path in found if path.is_dir()})


def _path_sources(
    root: Path, directory: Path, pyproject: Mapping[str, Any]
) -> Iterator[tuple[str, Path]]:
    """(package, directory or file) of all local sources, those of sources included."""
    seen = {directory.resolve()}
    waiting: list[tuple[Path, Mapping[str, Any]]] = [(directory, pyproject)]
    while waiting:
        base, document = waiting.pop()
        for package, source in _sources_of(document):
            if _normal(package) == DISTRIBUTION:
                continue  # always the platform's own
            if source.get("workspace") is True:
                places = _workspace_members(root)
            elif isinstance(source.get("path"), str):
                places = [base / source["path"]]
            else:
                continue
            for place in places:
                real = place.resolve()
                if real in seen:
                    continue
                seen.add(real)
                if not real.is_relative_to(root.resolve()) or not real.exists():
                    raise RunFailed(
                        "dependencies_failed",
                        f"The source of {package!r} ({source.get('path', 'workspace')}) in "
                        "[tool.uv.sources] is not in the workspace at this commit.",
                        hint="Move the package into the workspace and commit it, or depend on a "
                        "released version.",
                    )
                inside = root / real.relative_to(root.resolve())
                yield (package if source.get("path") else f"{package}:{inside.name}"), inside
                if (inside / "pyproject.toml").is_file():
                    waiting.append((inside, _read_toml(inside / "pyproject.toml", str(place))))


def _local_indexes(
    root: Path, directory: Path, pyproject: Mapping[str, Any]
) -> Iterator[tuple[str, Path]]:
    """Directories of wheels in the workspace that ``[tool.uv]`` names as places to look."""
    settings = pyproject.get("tool", {}).get("uv", {})
    named = [*settings.get("find-links", []), *settings.get("pip", {}).get("find-links", [])]
    indexes = settings.get("index", [])
    named += [item.get("url", "") for item in indexes if isinstance(item, dict)]
    for place in named:
        if isinstance(place, str) and place and "://" not in place:
            real = (directory / place).resolve()
            if real.is_relative_to(root.resolve()) and real.is_dir():
                yield f"index:{place}", root / real.relative_to(root.resolve())


def _sources_of(document: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    sources = document.get("tool", {}).get("uv", {}).get("sources", {})
    for package, value in sources.items() if isinstance(sources, dict) else ():
        for source in value if isinstance(value, list) else [value]:
            if isinstance(source, dict):
                yield package, source


def _requirement_files(directory: Path) -> list[Path]:
    names = ("pyproject.toml", "setup.py", "setup.cfg")
    files = [directory / name for name in names]
    files += directory.glob("requirements*.txt") if directory.is_dir() else []
    return [file for file in files if file.is_file()]


def _files(path: Path) -> Iterator[Path]:
    """Every file below, sorted; links are not followed."""
    if not path.is_dir() or path.is_symlink():
        yield path
        return
    for directory, names, files in os.walk(path):
        names[:] = sorted(name for name in names if name not in _NOT_SOURCE)
        links = [name for name in names if Path(directory, name).is_symlink()]
        for name in sorted([*files, *links]):
            if not name.endswith(".pyc"):
                yield Path(directory, name)


def _file_digest(path: Path) -> bytes:
    kind = path.lstat().st_mode
    if stat.S_ISLNK(kind):
        return hashlib.sha256(b"link " + os.fsencode(path.readlink())).digest()
    if not stat.S_ISREG(kind):
        return b"special"
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256")
    digest.update(b"x" if kind & 0o100 else b"")
    return digest.digest()


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
