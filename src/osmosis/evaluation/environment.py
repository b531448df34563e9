"""The environment of a rollout: its dependencies, built once, kept by what they are.

Two keys. The *input key* (project files, Python, machine, SDK) leads to a resolution, reused for a
day or as long as a lock says so. The *environment key* (the resolution, path sources, Python,
machine, SDK) names the built directory. The rollout's own code is never in it: it comes by path,
so that an environment cannot carry another commit's code.

    <cache>/interpreters.json       answers of the interpreters found here
    <cache>/sdk/                    the wheel of the running SDK
    <cache>/resolutions/<key>.json  input key -> resolution
    <cache>/envs/<key>/             built environments, read-only; complete once the marker is there
    <cache>/locks/                  one file lock per key
    <cache>/uv/                     the only part that uv and build backends may write
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import json
import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import uv as uv_package
from packaging.version import InvalidVersion, Version

from osmosis.evaluation.interpreters import Interpreter, choose_interpreter
from osmosis.evaluation.plan import EvaluationPlan, Sink
from osmosis.evaluation.resolution import Build, Resolution, dependencies_failed, resolve
from osmosis.evaluation.rollout_project import RolloutProject, read_project
from osmosis.evaluation.sandbox import choose_sandbox, require_network
from osmosis.evaluation.sdk_wheel import DISTRIBUTION, SdkWheel, sdk_wheel
from osmosis.evaluation.uv_command import HOME_PREFIX, INSTALL_STEP, Uv, UvArea, UvFailed
from osmosis.wire.errors import RunFailed

RESOLUTION_LIFE_S = 24 * 3600.0
LOCK_POLL_S = 0.05

LEFTOVER_AGE_S = 2 * 3600.0
"""Work of uv older than this was left by a process that was killed: no step may last as long."""

MARKER = ".osmosis-environment.json"
LAYOUT = "1"
"""Part of every key: raise it when environments are built differently."""

VENDOR_SDK = "osmosis-ai"
OLDEST_VENDOR_SDK = "0.3.3"


@dataclass(frozen=True)
class Environment:
    """A built environment. ``sdk`` is like ``osmosis-ai 0.3.8``; None when neither SDK is in."""

    python: Path
    directory: Path
    key: str
    cached: bool
    sdk: str | None
    python_version: str
    python_prefix: Path

    @property
    def bin(self) -> Path:
        return self.directory / "bin"


async def prepare_environment(plan: EvaluationPlan, sink: Sink) -> Environment:
    """Find or build the environment of the plan's rollout; RunFailed says why there is none."""
    sandbox = choose_sandbox()
    require_network(plan.advanced.network, sandbox)
    project = read_project(plan.code_dir, plan.rollout, plan.entrypoint)
    plan.cache_dir.mkdir(parents=True, exist_ok=True)
    sdk = await asyncio.to_thread(sdk_wheel, plan.cache_dir / "sdk")
    interpreter = await asyncio.to_thread(
        choose_interpreter,
        project.requires_python,
        cache_file=plan.cache_dir / "interpreters.json",
        uv=uv_package.find_uv_bin(),
    )
    cache = _Cache(plan.cache_dir, project, interpreter, sdk)
    environment = cache.ready()
    if environment is None:
        sink.log("info", INSTALL_STEP, f"Python {interpreter}; sandbox {sandbox.describe()}")
        area = UvArea(plan.cache_dir / "uv")
        uv = Uv(area, sandbox, interpreter, plan.private_dirs, sink)
        async with _locked(plan.cache_dir / "locks" / f"{cache.input_key}.lock", sink):
            environment = cache.ready() or await _build(cache, uv)
    check_sdk(environment.sdk)
    state = "from the cache" if environment.cached else "built"
    sink.log(
        "info",
        INSTALL_STEP,
        f"Environment {environment.key[:12]} {state}: Python {environment.python_version}, "
        f"{environment.sdk or 'no Osmosis SDK'}",
    )
    return environment


def check_sdk(sdk: str | None) -> None:
    """Refuse the vendor's SDK of the callback dialect, before anything is started."""
    name, _, version = (sdk or "").partition(" ")
    try:
        too_old = name == VENDOR_SDK and Version(version) < Version(OLDEST_VENDOR_SDK)
    except InvalidVersion:
        return
    if too_old:
        raise RunFailed(
            "rollout_protocol_unsupported",
            f"The rollout uses {VENDOR_SDK} {version}, which reports results by callback; this "
            f"platform speaks the polling protocol of {VENDOR_SDK} {OLDEST_VENDOR_SDK} and later.",
            hint=f"Require `{VENDOR_SDK}>={OLDEST_VENDOR_SDK}` in the rollout's pyproject.toml "
            f"(or move to `{DISTRIBUTION}`), run `uv lock` if there is a uv.lock, commit and push.",
        )


# --- building --------------------------------------------------------------------------------


async def _build(cache: _Cache, uv: Uv) -> Environment:
    started = time.monotonic()
    uv.area.prepare()
    await asyncio.to_thread(_sweep, uv.area)
    build = Build(uv.area.builds / secrets.token_hex(8), cache.project, cache.sdk)
    build.directory.mkdir()
    try:
        build.prepare()
        resolution = cache.resolution()
        if resolution is None:
            try:
                resolution = await resolve(build, uv)
            except RunFailed:
                stale = cache.resolution(max_age_s=None)
                if stale is None or cache.environment(stale) is None:
                    raise
                uv.sink.log(
                    "warning",
                    INSTALL_STEP,
                    "The dependencies could not be resolved anew; the environment of the last "
                    "resolution is used.",
                )
                resolution = stale
            else:
                cache.remember(resolution)
        _check_resolved(resolution)
        key = cache.environment_key(resolution)
        async with _locked(cache.directory / "locks" / f"{key}.lock", uv.sink):
            ready = cache.environment(resolution)
            if ready is not None:
                return ready
            await _install(build, resolution, uv)
            directory = cache.directory / "envs" / key
            await asyncio.to_thread(_publish, build, directory, cache.marker(key, resolution))
        seconds = time.monotonic() - started
        uv.sink.log("info", INSTALL_STEP, f"Environment built in {seconds:.1f} s")
        built = cache.environment(resolution)
        if built is None:
            raise RunFailed("internal", f"The new environment {key} vanished while it was built.")
        return replace(built, cached=False)
    finally:
        await asyncio.to_thread(build.remove)


async def _install(build: Build, resolution: Resolution, uv: Uv) -> None:
    build.lock.unlink(missing_ok=True)
    build.lock.write_text(resolution.at(build.directory))
    python = build.environment / "bin" / "python"
    try:
        await uv.run(
            ["venv", "--relocatable", "--no-project", "--quiet",
             "--python", str(uv.interpreter.path), str(build.environment)],
            cwd=build.directory,
        )  # fmt: skip
        await uv.run(
            ["pip", "sync", "--allow-empty-requirements", "--compile-bytecode",
             "--preview-features", "pylock",
             "--python", str(python), str(build.lock)],
            cwd=build.project_dir,
        )  # fmt: skip
    except UvFailed as error:
        raise dependencies_failed(build.project, error) from None


def _publish(build: Build, directory: Path, marker: dict[str, object]) -> None:
    """Move the environment into place: read-only, its marker last."""
    source = build.environment
    # User code could write here until a moment ago: nothing that is a link may be followed.
    if not stat.S_ISDIR(source.lstat().st_mode):
        raise RunFailed("dependencies_failed", "A build replaced the environment's directory.")
    if directory.is_symlink() or directory.exists():
        _remove_tree(directory)  # torn: it has no marker
    directory.parent.mkdir(parents=True, exist_ok=True)
    marker["sdk"] = installed_sdk(source)
    partial = source / f"{MARKER}.partial"
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o444)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(marker, file, indent=2)
        file.flush()
        os.fsync(file.fileno())
    source.rename(directory)
    (directory / partial.name).rename(directory / MARKER)
    _make_read_only(directory)


def installed_sdk(environment: Path) -> str | None:
    """Which SDK an environment holds, read from the names of its dist-info directories."""
    found: dict[str, str] = {}
    for directory in environment.glob("lib/python3*/site-packages"):
        for path in directory.iterdir():
            match = re.fullmatch(r"(osmosis_ai|osmosis_platform)-(.+)\.dist-info", path.name)
            if match:
                found[match[1].replace("_", "-")] = match[2]
    for name in (VENDOR_SDK, DISTRIBUTION):
        if name in found:
            return f"{name} {found[name]}"
    return None


def _check_resolved(resolution: Resolution) -> None:
    version = resolution.packages.get(VENDOR_SDK)
    if version:
        check_sdk(f"{VENDOR_SDK} {version}")


def _sweep(area: UvArea) -> None:
    """Remove what builds that were killed left behind."""
    leftovers = [*area.builds.iterdir(), *area.directory.parent.glob(f"{HOME_PREFIX}*")]
    for path in leftovers:
        with suppress(OSError):
            if path.lstat().st_mtime < time.time() - LEFTOVER_AGE_S:
                _remove_tree(path)


def _make_read_only(directory: Path) -> None:
    for folder, _, files in os.walk(directory, topdown=False):
        for path in (*(Path(folder, name) for name in files), Path(folder)):
            mode = path.lstat().st_mode
            if not stat.S_ISLNK(mode) and mode & 0o222:
                path.chmod(stat.S_IMODE(mode) & ~0o222)


def _remove_tree(directory: Path) -> None:
    """Also what is read-only."""
    if directory.is_symlink() or not directory.is_dir():
        directory.unlink()
        return
    for folder, _, _ in os.walk(directory):
        Path(folder).chmod(0o700)
    shutil.rmtree(directory)


# --- the cache -------------------------------------------------------------------------------


class _Cache:
    """Where one rollout's resolution and environment are kept."""

    def __init__(
        self, directory: Path, project: RolloutProject, interpreter: Interpreter, sdk: SdkWheel
    ) -> None:
        self.directory = directory
        self.project = project
        self.interpreter = interpreter
        self.sdk = sdk
        self.inputs = project.input_digest()
        self.input_key = _key(LAYOUT, self.inputs, interpreter.identity, sdk.digest, project.name)

    def ready(self) -> Environment | None:
        resolution = self.resolution()
        return self.environment(resolution) if resolution else None

    def resolution(self, max_age_s: float | None = RESOLUTION_LIFE_S) -> Resolution | None:
        try:
            kept = json.loads(self._resolution_file.read_text())
            age = time.time() - kept["resolved_at"]
            resolution = Resolution(kept["text"], kept["locked"])
        except (OSError, ValueError, KeyError, TypeError):
            return None
        if max_age_s is not None and not resolution.locked and not 0 <= age < max_age_s:
            return None
        return resolution

    def remember(self, resolution: Resolution) -> None:
        file = self._resolution_file
        file.parent.mkdir(parents=True, exist_ok=True)
        partial = file.with_suffix(f".{secrets.token_hex(4)}")
        kept = {
            "text": resolution.text,
            "locked": resolution.locked,
            "resolved_at": time.time(),
        }
        partial.write_text(json.dumps(kept))
        partial.replace(file)

    def environment_key(self, resolution: Resolution) -> str:
        # Path sources stand in a lock by path alone; the inputs say what is in them.
        sources = self.inputs if self.project.path_sources else ""
        sdk = self.sdk.digest if DISTRIBUTION in resolution.packages else ""
        return _key(LAYOUT, resolution.digest(), sources, self.interpreter.identity, sdk)

    def environment(self, resolution: Resolution) -> Environment | None:
        key = self.environment_key(resolution)
        directory = self.directory / "envs" / key
        try:
            marker = json.loads((directory / MARKER).read_text())
        except (OSError, ValueError):
            return None
        if marker.get("key") != key or not (directory / "bin/python").exists():
            return None
        os.utime(directory / MARKER)  # when it was last used, for whoever tidies up
        return Environment(
            python=directory / "bin/python",
            directory=directory,
            key=key,
            cached=True,
            sdk=marker["sdk"],
            python_version=self.interpreter.version,
            python_prefix=self.interpreter.prefix,
        )

    def marker(self, key: str, resolution: Resolution) -> dict[str, object]:
        return {
            "key": key,
            "python": self.interpreter.version,
            "interpreter": str(self.interpreter.path),
            "platform": self.interpreter.platform,
            "built_at": time.time(),
            "rollout": self.project.name,
            "locked": resolution.locked,
            "packages": resolution.packages,
        }

    @property
    def _resolution_file(self) -> Path:
        return self.directory / "resolutions" / f"{self.input_key}.json"


def _key(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:40]


@asynccontextmanager
async def _locked(path: Path, sink: Sink) -> AsyncGenerator[None]:
    """Hold the file lock; the kernel lets it go when the holder dies."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        said = False
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not said:
                    sink.log("info", INSTALL_STEP, "Waiting for another run's installation")
                    said = True
                await asyncio.sleep(LOCK_POLL_S)
        yield
    finally:
        os.close(descriptor)
