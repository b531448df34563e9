"""Finding a Python for a rollout: by executing candidates, with the answers remembered.

Where we look, in order of preference: ``OSMOSIS_PYTHONS`` (paths, separated as in PATH), the
interpreters on PATH, ``~/.pyenv/versions/*/bin``, uv's own directory. A name on PATH proves
nothing (a pyenv shim exists for versions that are not active), so each candidate is executed.
Nothing is downloaded unless ``OSMOSIS_PYTHON_DOWNLOADS=1``.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import Version

from osmosis.wire.errors import RunFailed

PYTHONS_VARIABLE = "OSMOSIS_PYTHONS"
DOWNLOADS_VARIABLE = "OSMOSIS_PYTHON_DOWNLOADS"

OLDEST_MINOR = (3, 9)
"""Older ones are not even tried: no supported SDK runs there."""

NEWEST_PREFERRED_MINOR = (3, 13)
"""Wheels of the common packages exist up to here; newer ones are taken only when asked for."""

PROBE_TIMEOUT_S = 10.0
PROBES_AT_ONCE = 4
DOWNLOAD_TIMEOUT_S = 600.0

_NAME = re.compile(r"python3(\.\d+)?$")

_PROBE = """
import json, platform, sys, sysconfig
print(json.dumps({
    "python": getattr(sys, "_base_executable", None) or sys.executable,
    "version": platform.python_version(),
    "implementation": sys.implementation.name,
    "prefix": sys.base_prefix,
    "platform": sysconfig.get_platform() + "-" + "-".join(platform.libc_ver()),
    "free_threaded": bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
}))
"""


@dataclass(frozen=True)
class Interpreter:
    """One working Python: ``path`` is the base interpreter, never that of an environment."""

    path: Path
    version: str
    prefix: Path
    platform: str
    preferred: bool = False

    @property
    def minor(self) -> tuple[int, int]:
        release = Version(self.version).release
        return release[0], release[1]

    @property
    def identity(self) -> str:
        """What an environment built with it depends on."""
        return f"cpython-{self.version}-{self.platform}-{self.path}"

    def __str__(self) -> str:
        return f"{self.version} ({self.path})"


def choose_interpreter(
    requirement: str | None,
    *,
    cache_file: Path,
    environ: Mapping[str, str] = os.environ,
    uv: str | None = None,
) -> Interpreter:
    """The Python for a project with this ``requires-python``; RunFailed when there is none."""
    wanted = _specifiers(requirement)
    found = find_interpreters(cache_file=cache_file, environ=environ)
    chosen = best(found, wanted)
    if chosen is None:
        found = find_interpreters(cache_file=cache_file, environ=environ, remembered=False)
        chosen = best(found, wanted)
    if chosen is None and uv and environ.get(DOWNLOADS_VARIABLE) == "1":
        _download(uv, requirement or "", cache_file.parent / "pythons", environ)
        found = find_interpreters(cache_file=cache_file, environ=environ)
        chosen = best(found, wanted)
    if chosen is None:
        raise RunFailed(
            "interpreter_missing",
            f"The rollout requires Python {requirement or '(any)'}, and this machine has "
            f"{', '.join(map(str, found)) or 'none that works'}.",
            hint=f"Install a fitting Python, name one in {PYTHONS_VARIABLE}, set "
            f"{DOWNLOADS_VARIABLE}=1 to let it be downloaded, or change requires-python in the "
            "rollout's pyproject.toml.",
        )
    return chosen


def best(found: Iterable[Interpreter], wanted: SpecifierSet) -> Interpreter | None:
    """The newest that satisfies, up to the newest preferred minor; else the oldest above it.

    Interpreters of the setting come before all others. Equal versions: the first by path, so that
    the choice does not depend on the order of discovery.
    """
    fitting = [one for one in found if wanted.contains(one.version, prereleases=True)]
    for pool in ([one for one in fitting if one.preferred], fitting):
        stable = [one for one in pool if not Version(one.version).is_prerelease] or pool
        by_path = sorted(stable, key=lambda one: str(one.path))
        usual = [one for one in by_path if one.minor <= NEWEST_PREFERRED_MINOR]
        if usual:
            return max(usual, key=lambda one: Version(one.version))
        if by_path:
            return min(by_path, key=lambda one: Version(one.version))
    return None


def find_interpreters(
    *,
    cache_file: Path,
    environ: Mapping[str, str] = os.environ,
    remembered: bool = True,
) -> list[Interpreter]:
    """Every working CPython, one entry for each base interpreter. Probes only what is new."""
    known = _read_cache(cache_file)
    candidates = list(_candidates(environ, cache_file.parent))
    answers: dict[str, dict[str, object] | None] = {}
    unknown: list[tuple[str, str]] = []
    for path, _ in candidates:
        key = _cache_key(path)
        if key in known and _still_true(known[key], remembered):
            answers[path] = known[key]
        else:
            unknown.append((path, key))
    if unknown:
        with ThreadPoolExecutor(PROBES_AT_ONCE) as pool:
            probed = list(pool.map(lambda item: _probe(item[0]), unknown))
        for (path, key), answer in zip(unknown, probed, strict=True):
            answers[path] = known[key] = answer
        _write_cache(cache_file, known)
    return list(_interpreters(candidates, answers))


def _interpreters(
    candidates: Iterable[tuple[str, bool]],
    answers: Mapping[str, dict[str, object] | None],
) -> Iterator[Interpreter]:
    seen: set[str] = set()
    for path, preferred in candidates:
        answer = answers[path]
        if not answer or answer["implementation"] != "cpython" or answer["free_threaded"]:
            continue
        real = os.path.realpath(str(answer["python"]))
        if real in seen:
            continue
        seen.add(real)
        one = Interpreter(
            path=Path(real),
            version=str(answer["version"]),
            prefix=Path(str(answer["prefix"])),
            platform=str(answer["platform"]),
            preferred=preferred,
        )
        if one.minor >= OLDEST_MINOR:
            yield one


def _candidates(environ: Mapping[str, str], own: Path) -> Iterator[tuple[str, bool]]:
    """(path, named by the setting), without repetition."""
    seen: set[str] = set()

    def fresh(path: str) -> bool:
        new = path not in seen and Path(path).is_file() and os.access(path, os.X_OK)
        seen.add(path)
        return new

    for entry in environ.get(PYTHONS_VARIABLE, "").split(os.pathsep):
        if entry and fresh(str(Path(entry).expanduser().absolute())):
            yield str(Path(entry).expanduser().absolute()), True
    home = Path(environ.get("HOME") or Path.home())
    uv_home = environ.get("UV_PYTHON_INSTALL_DIR") or str(home / ".local/share/uv/python")
    directories = [entry for entry in environ.get("PATH", os.defpath).split(os.pathsep) if entry]
    for pyenv in _pyenv_roots(environ, home, directories):
        directories += sorted(map(str, pyenv.glob("versions/3.*/bin")))
    directories += sorted(map(str, Path(uv_home).glob("cpython-*/bin")))
    directories += sorted(map(str, (own / "pythons").glob("cpython-*/bin")))
    for directory in directories:
        try:
            names = sorted(entry.name for entry in os.scandir(directory))
        except OSError:
            continue
        for name in names:
            match = _NAME.match(name)
            if not match or (match[1] and (3, int(match[1][1:])) < OLDEST_MINOR):
                continue
            if fresh(f"{directory}/{name}"):
                yield f"{directory}/{name}", False
    if fresh(sys.executable):
        yield sys.executable, False


def _pyenv_roots(environ: Mapping[str, str], home: Path, search: list[str]) -> list[Path]:
    """Where pyenv keeps interpreters: its setting, beside its shims on PATH, its usual place.

    Its shims themselves answer only for the version that is chosen at the moment.
    """
    named = [Path(environ["PYENV_ROOT"])] if environ.get("PYENV_ROOT") else []
    shims = [Path(entry).parent for entry in search if Path(entry).name == "shims"]
    return list(dict.fromkeys([*named, *shims, home / ".pyenv"]))


def _probe(path: str) -> dict[str, object] | None:
    environ = {name: os.environ[name] for name in ("HOME", "PATH") if name in os.environ}
    environ |= {"PYTHONDONTWRITEBYTECODE": "1", "LC_ALL": "C"}
    try:
        done = subprocess.run(
            [path, "-I", "-S", "-c", _PROBE],
            capture_output=True,
            timeout=PROBE_TIMEOUT_S,
            env=environ,
            cwd="/",  # a shim looks for .python-version here and above
            stdin=subprocess.DEVNULL,
            check=True,
        )
        answer = json.loads(done.stdout)
        Version(answer["version"])
    except (OSError, subprocess.SubprocessError, ValueError, KeyError, TypeError):
        return None
    answer["python_key"] = _cache_key(os.path.realpath(answer["python"]))
    return answer


def _cache_key(path: str) -> str:
    try:
        stat = Path(path).stat()
    except OSError:
        return f"{path}|gone"
    return f"{path}|{stat.st_mtime_ns}|{stat.st_size}"


def _still_true(answer: dict[str, object] | None, remembered: bool) -> bool:
    """A shim outlives what it points to; a failure is looked at again when nothing else fits."""
    if answer is None:
        return remembered
    return answer["python_key"] == _cache_key(os.path.realpath(str(answer["python"])))


def _read_cache(cache_file: Path) -> dict[str, dict[str, object] | None]:
    try:
        known = json.loads(cache_file.read_text())
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


def _write_cache(cache_file: Path, known: Mapping[str, dict[str, object] | None]) -> None:
    cache_file.parent.mkdir(parents=True, exist_ok=True)
    partial = cache_file.with_name(f"{cache_file.name}.{os.getpid()}")
    partial.write_text(json.dumps(known))
    partial.replace(cache_file)


def _specifiers(requirement: str | None) -> SpecifierSet:
    try:
        return SpecifierSet(requirement or f">={OLDEST_MINOR[0]}.{OLDEST_MINOR[1] + 2}")
    except InvalidSpecifier:
        raise RunFailed(
            "interpreter_missing",
            f"requires-python = {requirement!r} in the rollout's pyproject.toml is no version "
            "requirement.",
            hint='Write it like ">=3.12" or ">=3.11,<3.14".',
        ) from None


def _download(uv: str, requirement: str, directory: Path, environ: Mapping[str, str]) -> None:
    try:
        subprocess.run(
            [uv, "python", "install", requirement, "--install-dir", str(directory), "--no-bin"],
            capture_output=True,
            timeout=DOWNLOAD_TIMEOUT_S,
            env={**environ, "UV_PYTHON_DOWNLOADS": "manual", "UV_NO_PROGRESS": "1"},
            stdin=subprocess.DEVNULL,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        detail = getattr(error, "stderr", b"") or b""
        raise RunFailed(
            "interpreter_missing",
            f"No Python for {requirement!r} here, and downloading one failed: "
            f"{detail.decode(errors='replace').strip() or error}",
            hint=f"Install it yourself, or name one in {PYTHONS_VARIABLE}.",
        ) from None
