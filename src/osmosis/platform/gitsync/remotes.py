"""Remote repositories: which addresses are taken, and what git's complaints mean.

An address never carries a credential. What git says is turned into a sentence of ours, because
its own text may repeat an address and is written for the person at the terminal.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

from osmosis.platform.gitsync.git import GitFailed
from osmosis.platform.security.hosts import is_loopback
from osmosis.wire.errors import OsmosisError, ValidationFailed

MAX_URL_CHARACTERS = 2000
_SCP = re.compile(r"(?P<user>[A-Za-z0-9._-]+)@(?P<host>[A-Za-z0-9._-]+):(?P<path>[^\s]+)")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_PART = re.compile(r"[^a-z0-9._-]+")


class RemoteFailed(OsmosisError):
    """The remote repository cannot be read now; ``hint`` says what to do about it."""

    code, http_status = "GIT_REMOTE_FAILED", 400


@dataclass(frozen=True)
class Remote:
    """An address that git may fetch from. ``protocol`` is http, https, ssh or file."""

    url: str
    protocol: str
    host: str
    user: str | None = None


def parse_remote(url: str, *, allow_file: bool) -> Remote:
    """A checked address; raises :class:`ValidationFailed` without repeating a password."""
    text = url.strip()
    if not text or len(text) > MAX_URL_CHARACTERS or not text.isprintable() or " " in text:
        raise _refused("The address of the repository is empty or malformed.")
    if text.startswith("-"):
        raise _refused("The address of the repository begins with '-'.")
    if "://" not in text:
        if scp := _SCP.fullmatch(text):
            return Remote(text, "ssh", _host(scp["host"]), scp["user"])
        if text.startswith("/"):
            return _file(text, allow_file)
        raise _refused(
            "The address is no git URL.",
            "Write https://HOST/OWNER/REPO.git or git@HOST:OWNER/REPO.git.",
        )
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise _refused("The address of the repository is malformed.") from None
    protocol = parts.scheme.lower()
    if protocol == "file":
        return _file(text, allow_file)
    if protocol not in ("http", "https", "ssh"):
        raise _refused(
            f"The protocol '{protocol[:20]}' is not supported.", "Use https:// or ssh://."
        )
    if parts.password is not None or (parts.username and protocol != "ssh"):
        raise _refused(
            "The address contains a user name or password.",
            "Leave it out, and give the token with --token-env VAR.",
        )
    if parts.query or parts.fragment or not parts.path.strip("/"):
        raise _refused("The address must end with the repository's path.")
    if parts.username and not _NAME.fullmatch(parts.username):
        raise _refused("The user name in the address is malformed.")
    netloc = _host(host) if ":" not in host else f"[{host}]"
    netloc = f"{parts.username}@{netloc}" if parts.username else netloc
    netloc = f"{netloc}:{port}" if port is not None else netloc
    return Remote(
        urlunsplit((protocol, netloc, parts.path, "", "")), protocol, host, parts.username
    )


def check_credential(remote: Remote, *, token: str | None, deploy_key: str | None) -> None:
    """Refuse a credential that cannot work with the address, or would travel in the clear."""
    if token is not None and deploy_key is not None:
        raise _refused("Give either a token or a deploy key, not both.")
    if token is not None and remote.protocol not in ("http", "https"):
        raise _refused(
            "A token works with https:// addresses only.",
            "Use the https:// address, or a deploy key with --deploy-key FILE.",
        )
    if token is not None and remote.protocol == "http" and not is_loopback(remote.host):
        raise _refused("A token would travel unencrypted over http://.", "Use https://.")
    if token is not None and not (token.isascii() and token.isprintable() and token):
        raise _refused("The token is empty or has characters that no token has.")
    if deploy_key is not None and remote.protocol != "ssh":
        raise _refused(
            "A deploy key works with ssh addresses only.", "Use git@HOST:OWNER/REPO.git."
        )
    if deploy_key is not None and "PRIVATE KEY-----" not in deploy_key:
        raise _refused(
            "The deploy key is not a private key.", "Give the file without the .pub ending."
        )
    if remote.protocol == "ssh" and deploy_key is None:
        raise _refused("An ssh address needs a deploy key.", "Give one with --deploy-key FILE.")


def derived_identity(remote: Remote) -> str:
    """``owner/repo`` from the last two parts of the path, for a workspace that has none yet."""
    path = remote.url.partition("://")[2] or remote.url.replace(":", "/", 1)
    parts = [_PART.sub("-", part).strip("-.") for part in path.lower().split("/")]
    parts = [part for part in parts if part]
    owner = re.sub(r"[^a-z0-9-]", "-", parts[-2]).strip("-") if len(parts) > 1 else ""
    return f"{owner or 'remote'}/{parts[-1].removesuffix('.git') if parts else 'repository'}"


NO_REPOSITORY = (
    "what answers there is no git repository.",
    "Give the address that `git clone` takes, not that of a page.",
)
COMPLAINTS: tuple[tuple[str, str, str], ...] = (
    (r"not valid: is this a git repository", *NO_REPOSITORY),
    (
        r"authentication failed|could not read (username|password)|403|401|invalid username",
        "{host} did not accept the credential, or needs one.",
        "Connect again with a token that may read it: "
        "`osmosis workspace connect URL --token-env VAR`.",
    ),
    (
        r"permission denied \(|load key|invalid format|error in libcrypto",
        "{host} did not accept the deploy key.",
        "Add its public half to the repository, and connect again with --deploy-key FILE.",
    ),
    (
        r"host key verification failed|remote host identification has changed",
        "the ssh host key of {host} is not the one that was seen before.",
        "If that is expected, remove its line from git/known_hosts in the data directory.",
    ),
    (
        r"repository .*not found|does not appear to be a git repository|404|no such file",
        "there is no such repository, or the credential may not see it.",
        "Check the address, and connect with a token if it is private.",
    ),
    (
        r"could not resolve|name or service not known|temporary failure in name resolution",
        "the host name {host} cannot be resolved.",
        "Check the address and this server's network.",
    ),
    (
        r"connection refused|connection timed out|failed to connect|couldn't connect|unreachable"
        r"|operation too slow|connection reset",
        "{host} does not answer.",
        "Check the address and this server's network, and try again.",
    ),
    (
        r"ssl certificate|certificate verify|tls",
        "the TLS certificate of {host} cannot be verified.",
        "Set GIT_SSL_CAINFO for the server if the host has a private authority.",
    ),
    (
        r"fsck|bad object|corrupt",
        "it holds damaged objects, which are refused.",
        "Run `git fsck` in a clone of it.",
    ),
)


def remote_failure(remote: Remote, error: GitFailed) -> RemoteFailed:
    """git's failure as a sentence that holds neither a credential nor git's own text."""
    host = remote.host or "the disk"
    said = error.stderr.lower()
    if error.timed_out:
        why, hint = "{host} took too long.", "Try again later."
    else:
        why, hint = next(
            ((why, hint) for pattern, why, hint in COMPLAINTS if re.search(pattern, said)),
            ("git could not read it.", "Try `git ls-remote` with the same address."),
        )
    return _cannot_be_fetched(remote, why.format(host=host), hint)


def no_repository(remote: Remote) -> RemoteFailed:
    """Something answers at the address, and it is no repository."""
    return _cannot_be_fetched(remote, *NO_REPOSITORY)


def _cannot_be_fetched(remote: Remote, why: str, hint: str) -> RemoteFailed:
    return RemoteFailed(f"The repository {remote.url} cannot be fetched: {why}", hint=hint)


def _file(text: str, allow_file: bool) -> Remote:
    if not allow_file:
        raise _refused(
            "Repositories on the server's own disk may not be connected here.",
            "Push to the hosted repository instead, or set OSMOSIS_GIT_ALLOW_FILE=1.",
        )
    return Remote(text, "file", "")


def _host(host: str) -> str:
    if not _NAME.fullmatch(host):
        raise _refused("The host name in the address is malformed.")
    return host


def _refused(message: str, hint: str | None = None) -> ValidationFailed:
    return ValidationFailed(message, hint=hint, field="url", platform_code="GIT_URL_INVALID")
