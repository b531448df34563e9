"""Handing a repository's credential to one git process, and to nothing else.

A token goes through a pipe that only the askpass helper reads, and only when git asks for the
very host that the token is for. A deploy key lies in anonymous memory (elsewhere than on Linux in
a private file) while ssh needs it. Neither stands in an argument, a variable, the repository's
configuration or a message.
"""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from osmosis.platform.db.models import Repository
from osmosis.platform.gitsync.git import Access
from osmosis.platform.gitsync.remotes import Remote
from osmosis.platform.security.vault import Vault
from osmosis.platform.settings import Settings

MAX_CREDENTIAL_CHARACTERS = 16_384
TOKEN_USER = "x-access-token"  # noqa: S105  a user name that forges take beside any token
SSH_TIMEOUT_S = 15

ASKPASS = """#!/bin/sh
case "$1" in
  "Username for '$OSMOSIS_GIT_PLACE': ") echo "$OSMOSIS_GIT_USER" ;;
  "Password for '$OSMOSIS_GIT_PLACE_OF_USER': ") cat "/dev/fd/$OSMOSIS_GIT_TOKEN_FD" ;;
  *) exit 1 ;;
esac
"""


def credential_context(repository_id: str) -> str:
    """The vault's context of a repository's credential."""
    return f"repository:{repository_id}"


@contextmanager
def access_to(
    settings: Settings, vault: Vault, repository: Repository, remote: Remote
) -> Generator[Access]:
    """The access of one git process to the remote, with the repository's stored credential."""
    credential = None
    if repository.credential_cipher is not None:
        context = credential_context(repository.id)
        credential = vault.decrypt(repository.credential_cipher, context).decode()
    with access_with(settings, remote, repository.credential_kind, credential) as access:
        yield access


@contextmanager
def access_with(
    settings: Settings, remote: Remote, kind: str | None, credential: str | None
) -> Generator[Access]:
    """The same with a credential that is not stored (yet); ``kind``: token or deploy_key."""
    allowed = {"GIT_ALLOW_PROTOCOL": remote.protocol}
    if credential is None or kind is None:
        yield Access(allowed)
    elif kind == "token":
        netloc = urlsplit(remote.url).netloc
        with _token_pipe(credential) as descriptor:
            variables = {
                "GIT_ASKPASS": str(_askpass(settings)),
                "OSMOSIS_GIT_PLACE": f"{remote.protocol}://{netloc}",
                "OSMOSIS_GIT_PLACE_OF_USER": f"{remote.protocol}://{TOKEN_USER}@{netloc}",
                "OSMOSIS_GIT_USER": TOKEN_USER,
                "OSMOSIS_GIT_TOKEN_FD": str(descriptor),
            }
            yield Access(allowed | variables, (descriptor,))
    else:
        with _key_file(settings, credential) as path:
            yield Access(allowed | {"GIT_SSH_COMMAND": _ssh_command(settings, path)})


def _ssh_command(settings: Settings, key: str) -> str:
    options = (
        "IdentitiesOnly=yes",
        "IdentityAgent=none",
        "BatchMode=yes",
        "StrictHostKeyChecking=accept-new",
        f"UserKnownHostsFile={settings.git_dir / 'known_hosts'}",
        f"ConnectTimeout={SSH_TIMEOUT_S}",
        "ServerAliveInterval=15",
    )
    words = ["ssh", "-F", os.devnull, "-i", key]
    for option in options:
        words += ["-o", option]
    return shlex.join(words)


@contextmanager
def _token_pipe(token: str) -> Generator[int]:
    reading, writing = os.pipe()
    try:
        os.write(writing, token.encode() + b"\n")
    finally:
        os.close(writing)
    try:
        yield reading
    finally:
        os.close(reading)


@contextmanager
def _key_file(settings: Settings, key: str) -> Generator[str]:
    content = key.replace("\r\n", "\n").rstrip("\n").encode() + b"\n"
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("deploy-key")
        try:
            os.fchmod(descriptor, 0o600)
            os.write(descriptor, content)
            # ssh closes what it inherits, so it opens the memory through this process.
            yield f"/proc/{os.getpid()}/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    descriptor, path = tempfile.mkstemp(dir=settings.work_dir, prefix="deploy-key-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        yield path
    finally:
        Path(path).unlink(missing_ok=True)


def _askpass(settings: Settings) -> Path:
    path = settings.git_dir / "askpass"
    if not path.exists() or path.read_text() != ASKPASS:
        path.write_text(ASKPASS)
        path.chmod(0o700)
    return path
