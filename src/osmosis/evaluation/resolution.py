"""From a rollout's project to the exact list of packages, as a ``pylock.toml``.

A consistent ``uv.lock`` is taken as it stands. Without one, or when it locks our SDK (which must
be the running one, whatever was locked), the project is resolved, the lock serving as constraints.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from osmosis.evaluation.rollout_project import RolloutProject
from osmosis.evaluation.sdk_wheel import DISTRIBUTION, SdkWheel
from osmosis.evaluation.uv_command import INSTALL_STEP, Uv, UvFailed
from osmosis.wire.errors import RunFailed

LOCK_NAME = "pylock.toml"
BUILD_PLACE = "/@build@"
MAX_LOCK_BYTES = 32 * 2**20

STRANGER = "osmosis"
"""A package of this name on the public index has nothing to do with us."""


@dataclass(frozen=True)
class Resolution:
    """``text`` is a pylock; absolute paths in it begin with ``BUILD_PLACE``."""

    text: str
    locked: bool

    @property
    def packages(self) -> dict[str, str | None]:
        """Name to version; None where only a build tells."""
        document = tomllib.loads(self.text)
        return {item["name"]: item.get("version") for item in document.get("packages", [])}

    def at(self, build: Path) -> str:
        """The lock for a build in this directory."""
        return self.text.replace(BUILD_PLACE, str(build))

    def digest(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()


@dataclass(frozen=True)
class Build:
    """One directory in which uv works for one run: inputs copied in, results taken out."""

    directory: Path
    project: RolloutProject
    sdk: SdkWheel

    @property
    def project_dir(self) -> Path:
        return self.directory / "source" / self.project.directory.relative_to(self.project.root)

    @property
    def environment(self) -> Path:
        return self.directory / "env"

    @property
    def lock(self) -> Path:
        return self.directory / LOCK_NAME

    def prepare(self) -> None:
        self.project.copy_inputs(self.directory / "source")
        wheel = self.directory / "sdk" / self.sdk.path.name
        wheel.parent.mkdir()
        shutil.copyfile(self.sdk.path, wheel)
        extras = ",".join(self.project.sdk_extras)
        requirement = DISTRIBUTION + (f"[{extras}]" if extras else "")
        # An override counts for every requirement of that name, whoever makes it.
        (self.directory / "overrides.txt").write_text(f"{requirement} @ {wheel.as_uri()}\n")

    def remove(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)


async def resolve(build: Build, uv: Uv) -> Resolution:
    """Decide every package and version; RunFailed carries the resolver's own words."""
    _warn_of_strangers(build.project, uv)
    constraints: Path | None = None
    if build.project.lock is not None:
        exported = await _export(build, uv)
        if exported is not None and DISTRIBUTION not in exported.packages:
            return exported
        if exported is not None:
            constraints = build.directory / "constraints.txt"
            constraints.write_text(_pins(exported))
    try:
        await _compile(build, uv, constraints)
    except UvFailed as error:
        raise dependencies_failed(build.project, error) from None
    return Resolution(_with_indexes(_read_lock(build), await _indexes(build, uv)), locked=False)


def dependencies_failed(project: RolloutProject, error: UvFailed) -> RunFailed:
    """The end of a run whose environment cannot be made."""
    return RunFailed(
        "dependencies_failed",
        f"The dependencies of rollouts/{project.name} could not be installed. uv says:\n"
        f"{error.text}",
        hint=_hint(error.text, project),
        details={"output": error.text},
    )


async def _export(build: Build, uv: Uv) -> Resolution | None:
    """What uv.lock says, or None (with a warning) when it does not fit the project."""
    arguments = [
        "export", "--no-emit-project", "--no-default-groups", "--no-editable", "--no-header",
        "--format", "pylock.toml", "--output-file", str(build.lock),
        "--python", str(uv.interpreter.path),
    ]  # fmt: skip
    # A lock with our SDK in it cannot be checked: what it was locked from is not here. It only
    # serves as constraints then, so nothing is lost.
    with_sdk = f'name = "{DISTRIBUTION}"' in _text(build.project.lock)
    try:
        await uv.run([*arguments, "--frozen" if with_sdk else "--locked"], cwd=build.project_dir)
    except UvFailed:
        uv.sink.log(
            "warning",
            INSTALL_STEP,
            f"rollouts/{build.project.name}: uv.lock does not fit pyproject.toml and is not used; "
            "run `uv lock` there and commit the result.",
        )
        return None
    return Resolution(_read_lock(build), locked=True)


async def _compile(build: Build, uv: Uv, constraints: Path | None) -> None:
    arguments = [
        *_compile_arguments(build, uv), "--format", "pylock.toml", "--output-file", str(build.lock)
    ]  # fmt: skip
    build.lock.unlink(missing_ok=True)  # else uv would prefer the versions in it
    if constraints is not None:
        try:
            await uv.run([*arguments, "--constraints", str(constraints)], cwd=build.project_dir)
        except UvFailed:
            uv.sink.log(
                "warning",
                INSTALL_STEP,
                f"rollouts/{build.project.name}: uv.lock does not fit the SDK of this platform "
                f"({build.sdk.version}); resolved anew.",
            )
        else:
            return
    await uv.run(arguments, cwd=build.project_dir)


def _compile_arguments(build: Build, uv: Uv) -> list[str]:
    return [
        "pip", "compile", "pyproject.toml", "--no-header", "--no-annotate",
        "--python", str(uv.interpreter.path),
        "--overrides", str(build.directory / "overrides.txt"),
        "--no-sources-package", DISTRIBUTION,
    ]  # fmt: skip


async def _indexes(build: Build, uv: Uv) -> dict[str, str]:
    """Where each ``name==version`` comes from.

    A pylock of ``pip compile`` leaves that out, and without it uv does not find a wheel again that
    it has in its cache: every new environment would download everything once more.
    """
    output = build.directory / "indexes.txt"
    pins = build.directory / "pins.txt"
    pins.write_text(_pins(Resolution(_read_lock(build), locked=False)))
    arguments = [
        *_compile_arguments(build, uv), "--constraints", str(pins), "--quiet",
        "--emit-index-annotation", "--output-file", str(output),
    ]  # fmt: skip
    try:
        await uv.run(arguments, cwd=build.project_dir)
        text = _read(output)
    except (UvFailed, OSError):
        return {}
    found = re.findall(r"^(\S+==\S+).*\n\s+# from (https?://[^\s@]+)$", text, re.MULTILINE)
    return dict(found)


def _with_indexes(text: str, indexes: Mapping[str, str]) -> str:
    def add(match: re.Match[str]) -> str:
        index = indexes.get(f"{match[1]}=={match[2]}")
        return f'{match[0]}index = "{index}"\n' if index else match[0]

    return re.sub(r'^name = "([^"]+)"\nversion = "([^"]+)"\n(?!index)', add, text, flags=re.M)


def _pins(exported: Resolution) -> str:
    pins = {name: version for name, version in exported.packages.items() if version}
    pins.pop(DISTRIBUTION, None)
    return "".join(f"{name}=={version}\n" for name, version in pins.items())


def _read_lock(build: Build) -> str:
    """The lock without comments and without this build's place, which it outlives."""
    text = _read(build.lock).replace(str(build.directory), BUILD_PLACE)
    document: Mapping[str, Any] = tomllib.loads(text)
    for package in document.get("packages", []):
        if package.get("directory", {}).get("editable"):
            # An editable install would point at this build's files, which go away.
            text = text.replace("editable = true", "editable = false")
            break
    return "".join(f"{line}\n" for line in text.splitlines() if not line.startswith("#"))


def _read(path: Path) -> str:
    """Written beneath user code, so no link is followed."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    with os.fdopen(descriptor, encoding="utf-8") as file:
        return file.read(MAX_LOCK_BYTES)


def _text(path: Path | None) -> str:
    return path.read_text(errors="replace") if path else ""


def _warn_of_strangers(project: RolloutProject, uv: Uv) -> None:
    names = {_bare_name(requirement) for requirement in project.dependencies}
    if STRANGER in names:
        uv.sink.log(
            "warning",
            INSTALL_STEP,
            f"rollouts/{project.name} depends on {STRANGER!r}, which on public indexes is an "
            f"unrelated package. The SDK is called {DISTRIBUTION!r}.",
        )


def _bare_name(requirement: str) -> str:
    for index, character in enumerate(requirement):
        if not (character.isalnum() or character in "-_."):
            return requirement[:index].lower().replace("_", "-")
    return requirement.lower().replace("_", "-")


def _hint(text: str, project: RolloutProject) -> str:
    file = f"rollouts/{project.name}/pyproject.toml"
    lowered = text.lower()
    if "requires-python" in lowered or "python version" in lowered or "requires python" in lowered:
        return f"Change requires-python or the versions in {file}, commit and push."
    if "not found in the package registry" in lowered or "was not found" in lowered:
        return f"Check the spelling of the package in {file}, or name its index there."
    if "no solution found" in lowered:
        return f"The version requirements contradict each other; loosen one in {file}."
    if "failed to fetch" in lowered or "error sending request" in lowered or "dns" in lowered:
        return "The package index cannot be reached from this machine. Check its network and index."
    if "build" in lowered:
        return "A package could not be built here. Depend on a version that has a wheel."
    return f"Try `uv sync` in rollouts/{project.name}; it gives the same message."
