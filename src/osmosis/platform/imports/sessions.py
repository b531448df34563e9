"""An import under way: a folder that holds its declaration and what has come of its files.

The folder's name is made of workspace, run and files, so that the same start finds the same
session; what is there says how far it is, and nothing else has to be kept in step.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import time
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from osmosis.platform.imports.declaration import Declaration, DeclaredFile
from osmosis.platform.settings import Settings
from osmosis.wire.errors import NotFound

SESSION_LIFETIME_S = 7 * 86_400.0
SESSION_ID = re.compile(r"[0-9a-f]{32}")


def imports_dir(settings: Settings) -> Path:
    return settings.data_dir / "imports"


@dataclass(frozen=True)
class ImportSession:
    """One set of files of one local run, for one workspace."""

    folder: Path
    workspace_id: str
    declaration: Declaration

    @property
    def id(self) -> str:
        return self.folder.name

    @property
    def uploads(self) -> Path:
        return self.folder / "files"

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The number under which each declared file is kept."""
        return {file.path: number for number, file in enumerate(self.declaration.files)}

    def file(self, path: str) -> DeclaredFile:
        if path not in self.numbers:
            raise NotFound(f"The import declares no file '{path[:200]}'.")
        return self.declaration.files[self.numbers[path]]

    def place(self, path: str) -> Path:
        return self.uploads / str(self.numbers[path])

    def uploaded(self) -> set[str]:
        """The paths of the files that are here, whole and checked."""
        here = {path.name for path in self.uploads.iterdir()} if self.uploads.exists() else set()
        return {path for path, number in self.numbers.items() if str(number) in here}

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


def session_id(workspace_id: str, declaration: Declaration) -> str:
    digest = hashlib.sha256()
    digest.update(f"{workspace_id}\0{declaration.local_run_id}\0".encode())
    digest.update(declaration.manifest_digest.encode())
    for file in sorted(declaration.files, key=lambda file: file.path):
        digest.update(f"\0{file.path}\0{file.size}\0{file.sha256}".encode())
    return digest.hexdigest()[:32]


def open_session(settings: Settings, workspace_id: str, declaration: Declaration) -> ImportSession:
    """The session of these files, made when it is not there. Blocking."""
    folder = imports_dir(settings) / session_id(workspace_id, declaration)
    (folder / "files").mkdir(parents=True, exist_ok=True)
    known = folder / "session.json"
    temporary = folder / ".session.json"
    temporary.write_text(f"{workspace_id}\n{declaration.model_dump_json()}")
    temporary.replace(known)
    sweep(settings)
    return ImportSession(folder, workspace_id, declaration)


def find_session(settings: Settings, workspace_id: str | None, ref: str) -> ImportSession:
    """The session of this id, for its own workspace. Blocking."""
    folder = imports_dir(settings) / ref
    try:
        text = (folder / "session.json").read_text() if SESSION_ID.fullmatch(ref) else ""
    except FileNotFoundError:
        text = ""
    owner, _, declared = text.partition("\n")
    if not text or workspace_id not in (None, owner):
        raise NotFound(
            f"There is no import '{ref[:64]}', or no longer.", hint="Start the upload again."
        )
    return ImportSession(folder, owner, Declaration.model_validate_json(declared))


def sweep(settings: Settings) -> None:
    """Remove sessions that nobody went on with."""
    oldest = time.time() - SESSION_LIFETIME_S
    for folder in imports_dir(settings).iterdir():
        if (folder / "session.json").exists() and folder.stat().st_mtime < oldest:
            shutil.rmtree(folder, ignore_errors=True)
