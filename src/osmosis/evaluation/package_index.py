"""How this machine reaches package indexes, said in uv's words.

Taken from uv's own variables first; what they leave open, from pip's variables and pip.conf, which
uv does not read. Nothing of a run goes in here. uv needs the credentials that an index address may
contain, so a build backend that uv starts can see those, and nothing else of the machine.
"""

from __future__ import annotations

import configparser
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

_UV_VARIABLE = re.compile(
    r"UV_(INDEX|DEFAULT_INDEX|INDEX_URL|EXTRA_INDEX_URL|FIND_LINKS|NO_INDEX|INDEX_STRATEGY"
    r"|INDEX_[A-Z0-9_]+_(USERNAME|PASSWORD)|INSECURE_HOST|NATIVE_TLS|SYSTEM_CERTS|HTTP_TIMEOUT"
    r"|HTTP_RETRIES|HTTP_CONNECT_TIMEOUT|OFFLINE|EXCLUDE_NEWER|TORCH_BACKEND|CONCURRENT_[A-Z]+)$"
)

_NETWORK_VARIABLES = (
    "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY",
    "http_proxy", "https_proxy", "all_proxy", "no_proxy",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO",
)  # fmt: skip

_SYSTEM_STORES = (
    "/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem",
)  # fmt: skip

_CERTIFICATE_VARIABLES = (
    "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO",
)  # fmt: skip


def index_variables(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The variables that let uv fetch packages here, and no others."""
    found = {name: value for name, value in environ.items() if _UV_VARIABLE.match(name)}
    found |= {name: environ[name] for name in _NETWORK_VARIABLES if environ.get(name)}
    pip = _pip_settings(environ)
    if pip.get("cert"):
        found.setdefault("SSL_CERT_FILE", pip["cert"])
    if pip.get("index-url") and not {"UV_DEFAULT_INDEX", "UV_INDEX_URL"} & set(found):
        found["UV_DEFAULT_INDEX"] = pip["index-url"]
    if pip.get("extra-index-url") and not {"UV_INDEX", "UV_EXTRA_INDEX_URL"} & set(found):
        found["UV_INDEX"] = " ".join(pip["extra-index-url"].split())
        # pip takes the best version of all its indexes; uv would stop at the first that knows
        # the name, and a partial mirror then hides every other version.
        found.setdefault("UV_INDEX_STRATEGY", "unsafe-best-match")
    if pip.get("find-links"):
        found.setdefault("UV_FIND_LINKS", ",".join(pip["find-links"].split()))
    if pip.get("trusted-host"):
        found.setdefault("UV_INSECURE_HOST", " ".join(pip["trusted-host"].split()))
    if pip.get("no-index", "").lower() in ("1", "true", "yes", "on"):
        found.setdefault("UV_NO_INDEX", "1")
    return found


def certificate_variables(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The variables that say whom to trust, which any program on this machine needs."""
    return {name: environ[name] for name in _CERTIFICATE_VARIABLES if environ.get(name)}


def system_certificates(variables: Mapping[str, str]) -> dict[str, str]:
    """Have uv trust what the machine trusts, where nothing else was said and it has a store.

    Behind a proxy that opens TLS, uv's own list of authorities is of no use.
    """
    if any(name in variables for name in ("SSL_CERT_FILE", "SSL_CERT_DIR")):
        return {}
    return {"UV_SYSTEM_CERTS": "1"} if any(map(os.path.exists, _SYSTEM_STORES)) else {}


def local_paths(variables: Mapping[str, str]) -> list[Path]:
    """Files and directories of this machine that the variables point to."""
    found: list[Path] = []
    for name, value in variables.items():
        if name in _CERTIFICATE_VARIABLES:
            found += [Path(part) for part in value.split(os.pathsep)]
        elif name in ("UV_FIND_LINKS", "UV_INDEX", "UV_DEFAULT_INDEX", "UV_INDEX_URL",
                      "UV_EXTRA_INDEX_URL"):  # fmt: skip
            for part in re.split(r"[,\s]+", value):
                link = part.partition("=")[2] if re.match(r"[\w.-]+=", part) else part
                if link.startswith("file:"):
                    # The files that a simple index links to lie beside it.
                    found.append(Path(unquote(urlsplit(link).path)).parent)
                elif link.startswith("/"):
                    found.append(Path(link))
    return [path for path in found if path.is_absolute() and path.exists()]


def _pip_settings(environ: Mapping[str, str]) -> dict[str, str]:
    settings: dict[str, str] = {}
    for path in _pip_files(environ):
        parser = configparser.RawConfigParser()
        try:
            parser.read(path)
        except (OSError, configparser.Error, UnicodeDecodeError):
            continue
        for section in ("global", "install"):
            if parser.has_section(section):
                settings |= {key.replace("_", "-"): value for key, value in parser.items(section)}
    for name, value in environ.items():
        if name.startswith("PIP_") and value:
            settings[name[4:].lower().replace("_", "-")] = value
    return settings


def _pip_files(environ: Mapping[str, str]) -> Iterator[Path]:
    """pip's configuration files, the weakest first."""
    chosen = environ.get("PIP_CONFIG_FILE")
    if chosen == os.devnull:
        return
    for directory in (environ.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(os.pathsep):
        yield Path(directory) / "pip/pip.conf"
    yield Path("/etc/pip.conf")
    home = Path(environ.get("HOME") or Path.home())
    yield home / ".pip/pip.conf"
    yield Path(environ.get("XDG_CONFIG_HOME") or home / ".config") / "pip/pip.conf"
    if chosen:
        yield Path(chosen)
