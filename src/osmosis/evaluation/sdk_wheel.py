"""A wheel of the very SDK that is running, made without network or build backend.

It holds ``osmosis.rollout`` and ``evaluate_rubric``, with the modules that these import and no
other, and needs what a rollout needs: neither the command line nor the platform, whatever extra is
asked for. A rollout that depends on ``osmosis-platform`` gets this
wheel and nothing else: its version has a local part made from its contents, so that no index can
offer it, and resolution is overridden to its file (see ``resolution.py``).
"""

from __future__ import annotations

import ast
import base64
import hashlib
import importlib.metadata
import json
import os
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from email import message_from_string
from pathlib import Path

from packaging.requirements import Requirement

import osmosis
from osmosis.wire.errors import RunFailed

DISTRIBUTION = "osmosis-platform"
PACKAGE_DIR = Path(osmosis.__file__).parent
SDK_ROOMS = ("rollout", "rubric", "eval")
"""The packages below ``osmosis`` that user code may import."""
_NOT_FOR_ROLLOUTS = ("httpx", "rich", "typer")
"""Dependencies of the distribution that only its command line uses."""
_PLATFORM_EXTRAS = ("server", "dev", "demo")
_FILE_STEM = "osmosis_platform"
_EPOCH = (1980, 1, 1, 0, 0, 0)
_SKIPPED_DIRS = {"__pycache__", ".pytest_cache", ".ruff_cache"}
_SKIPPED_SUFFIXES = (".pyc", ".pyo", ".swp")


@dataclass(frozen=True)
class SdkWheel:
    path: Path
    version: str
    digest: str

    @property
    def url(self) -> str:
        return self.path.absolute().as_uri()


def sdk_wheel(directory: Path) -> SdkWheel:
    """The wheel, built into ``directory`` unless it is there already."""
    package = PACKAGE_DIR
    metadata = _distribution_metadata()
    contents = _contents(package, metadata, directory)
    version = f"{metadata['version'].partition('+')[0]}+sdk.g{contents.digest[:12]}"
    path = directory / f"{_FILE_STEM}-{version}-py3-none-any.whl"
    if not path.exists():
        _write(path, version, package, contents.files, metadata)
    return SdkWheel(path=path, version=version, digest=contents.digest)


@dataclass(frozen=True)
class _Contents:
    """Paths relative to the directory that holds the package, and the digest of it all."""

    files: list[str]
    digest: str


def _distribution_metadata() -> dict[str, str]:
    try:
        distribution = importlib.metadata.distribution(DISTRIBUTION)
    except importlib.metadata.PackageNotFoundError:
        raise RunFailed(
            "internal",
            f"The platform runs without its own package metadata ({DISTRIBUTION}), so it cannot "
            "give its SDK to rollouts.",
            hint=f"Install it (`pip install {DISTRIBUTION}`, or `pip install -e .` in a checkout) "
            "instead of only putting it on PYTHONPATH.",
        ) from None
    return {
        "version": distribution.version,
        "METADATA": distribution.read_text("METADATA") or "",
    }


def _contents(package: Path, metadata: dict[str, str], directory: Path) -> _Contents:
    """Read and followed anew only when the size or the time of a file has changed."""
    remembered = directory / "digest.json"
    rooms = sorted(_files(package))
    try:
        last = json.loads(remembered.read_text())
        files: list[str] = last["files"]
        if set(rooms) <= set(files) and last["seen"] == _stats(package, files, metadata):
            return _Contents(files, last["digest"])
    except (OSError, ValueError, KeyError, TypeError):
        pass  # nothing is remembered, or of files that have gone
    files = sorted(needed_modules(package, rooms))
    contents = hashlib.sha256(json.dumps(metadata, sort_keys=True).encode())
    for name in files:
        contents.update(f"{name}\0".encode())
        contents.update(hashlib.sha256((package.parent / name).read_bytes()).digest())
    found = _Contents(files, contents.hexdigest())
    directory.mkdir(parents=True, exist_ok=True)
    seen = _stats(package, files, metadata)
    _replace(remembered, json.dumps({"seen": seen, "digest": found.digest, "files": files}))
    return found


def _files(package: Path) -> Iterator[str]:
    """Files of the rooms that user code imports, and of the package's top."""
    for directory, names, files in os.walk(package):
        top = Path(directory) == package
        known = SDK_ROOMS if top else names
        names[:] = [name for name in names if name in known and name not in _SKIPPED_DIRS]
        for name in files:
            if not name.endswith(_SKIPPED_SUFFIXES):
                yield Path(directory, name).relative_to(package.parent).as_posix()


def needed_modules(package: Path, files: list[str]) -> set[str]:
    """``files`` and every module of the package that one of them imports, however deep."""
    found, todo = set(files), [name for name in files if name.endswith(".py")]
    while todo:
        for module in _imports((package.parent / todo.pop()).read_text("utf-8")):
            parts = module.split(".")
            for depth in range(1, len(parts) + 1):
                stem = "/".join(parts[:depth])
                for name in (f"{stem}.py", f"{stem}/__init__.py"):
                    if name not in found and (package.parent / name).is_file():
                        found.add(name)
                        todo.append(name)
    return found


def _imports(source: str) -> Iterator[str]:
    """Dotted names of this package that a module imports when it runs, in functions too."""
    todo: list[ast.AST] = [ast.parse(source)]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            todo += node.orelse
            continue
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            # What is imported from a package may be a module of it.
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            todo += ast.iter_child_nodes(node)
            continue
        yield from (name for name in names if name.split(".")[0] == osmosis.__name__)


def _stats(package: Path, files: list[str], metadata: dict[str, str]) -> str:
    root = package.parent
    seen = hashlib.sha256(json.dumps(metadata, sort_keys=True).encode())
    for name in files:
        stat = (root / name).stat()
        seen.update(f"{root}/{name}\0{stat.st_size}\0{stat.st_mtime_ns}\n".encode())
    return seen.hexdigest()


def _write(
    path: Path, version: str, package: Path, files: list[str], metadata: dict[str, str]
) -> None:
    info = f"{_FILE_STEM}-{version}.dist-info"
    contents = {name: (package.parent / name).read_bytes() for name in files}
    contents[f"{info}/METADATA"] = _with_version(metadata["METADATA"], version).encode()
    contents[f"{info}/WHEEL"] = (
        b"Wheel-Version: 1.0\nGenerator: osmosis\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    )
    record = "".join(f"{name},{_record_hash(raw)},{len(raw)}\n" for name, raw in contents.items())
    contents[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as wheel:
        for name, raw in contents.items():
            entry = zipfile.ZipInfo(name.replace(os.sep, "/"), _EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o100644 << 16
            wheel.writestr(entry, raw)
    partial.replace(path)


def _with_version(text: str, version: str) -> str:
    message = message_from_string(text)
    message.replace_header("Version", version)
    needed = [line for line in message.get_all("Requires-Dist", []) if _is_for_rollouts(line)]
    del message["Requires-Dist"]
    for line in needed:
        message["Requires-Dist"] = line
    return message.as_string()


def _is_for_rollouts(requirement: str) -> bool:
    parsed = Requirement(requirement)
    if parsed.name in _NOT_FOR_ROLLOUTS:
        return False
    marker = parsed.marker
    return marker is None or not any(
        marker.evaluate({"extra": extra}) and not marker.evaluate({"extra": ""})
        for extra in _PLATFORM_EXTRAS
    )


def _record_hash(raw: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(raw).digest()).rstrip(b"=").decode()
    return f"sha256={digest}"


def _replace(path: Path, text: str) -> None:
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.write_text(text)
    partial.replace(path)
