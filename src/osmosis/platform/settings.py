"""Every knob of the server: its type, default, bound, unit and environment name, once.

The field ``host`` is set by ``OSMOSIS_HOST``, and so on for each field. Flags of
``osmosis server start`` win over the environment.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator

from osmosis.response_store import MAX_AGE_S
from osmosis.wire.errors import Issue, ValidationFailed

ENV_PREFIX = "OSMOSIS_"


class Settings(BaseModel):
    """The server's configuration. Frozen: what a process started with is what it runs with."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", validate_default=True, use_attribute_docstrings=True
    )

    data_dir: Path = Field(Path("~/.osmosis/server"))
    """Everything the server keeps: database, git, datasets, runs, keys, logs. Mode 0700."""

    host: str = Field("127.0.0.1", min_length=1)
    """The address to listen on. Anything but loopback needs an admin account first."""

    port: int = Field(7670, ge=0, le=65535)
    """The TCP port; 0 takes a free one and records it in ``server.json``."""

    public_url: str | None = None
    """The address that clients use when a proxy stands in front, e.g. ``https://eval.example``."""

    allowed_hosts: tuple[str, ...] = ()
    """Further names that may stand in a request's Host header (comma-separated)."""

    database_url: str | None = None
    """An SQLAlchemy async URL; default is ``osmosis.db`` in the data directory."""

    master_key: SecretStr | None = None
    """Base64 of the 32 bytes that encrypt secrets; default is the file ``master.key``."""

    embedded_worker: bool = True
    """Whether the server starts a worker of its own as a child process."""

    token_lifetime_days: int = Field(90, ge=1, le=3650)
    """How long a login made with ``osmosis auth login`` lasts."""

    device_login_s: int = Field(900, ge=60, le=3600)
    """How long a device code waits for approval."""

    device_poll_s: int = Field(2, ge=1, le=30)
    """The pause that a polling login must keep."""

    login_link_s: int = Field(900, ge=60, le=86_400)
    """How long a one-time link to the pages stays good."""

    page_session_s: int = Field(30 * 86_400, ge=300, le=365 * 86_400)
    """How long a browser stays signed in."""

    presigned_url_s: int = Field(900, ge=60, le=86_400)
    """How long an upload or download address stays good."""

    body_limit_bytes: int = Field(8 * 2**20, ge=2**16, le=2**30)
    """The largest body of an ordinary API call (uploads and git have their own limits)."""

    upload_url_s: int = Field(86_400, ge=60, le=7 * 86_400)
    """How long an upload address stays good, and an unfinished upload is kept."""

    dataset_simple_bytes: int = Field(64 * 2**20, ge=1, le=2**30)
    """Datasets up to this size are uploaded in one piece, larger ones in parts."""

    dataset_part_bytes: int = Field(16 * 2**20, ge=1, le=2**30)
    """The size of a part of a larger dataset."""

    git_push_bytes: int = Field(2 * 2**30, ge=2**20, le=2**40)
    """The largest pack that one push may send."""

    git_transfers_at_once: int = Field(16, ge=1, le=1024)
    """How many clones, fetches and pushes are served side by side."""

    git_transfer_timeout_s: float = Field(3600.0, ge=1, le=86_400)
    """The longest that one clone, fetch or push may take."""

    git_idle_timeout_s: float = Field(120.0, ge=1, le=3600)
    """A transfer that moves no byte for so long is ended."""

    git_fetch_timeout_s: float = Field(100.0, ge=1, le=3600)
    """The longest that fetching a connected remote repository may take."""

    git_allow_file: bool = False
    """Whether a workspace may connect a repository on this machine's disk (``file://``)."""

    response_cache_bytes: int = Field(2**30, ge=0, le=2**40)
    """The most that the response cache of one workspace holds; 0 keeps nothing."""

    response_cache_age_s: float = Field(MAX_AGE_S, ge=0, le=10 * 365 * 86_400)
    """A cached response that no run has asked for in so long is forgotten."""

    job_lease_s: float = Field(30.0, ge=1, le=3600)
    """A job whose lease is older than this is taken to be lost and runs again."""

    job_timeout_s: float = Field(1800.0, ge=1, le=86_400)
    """The longest a job's process may take, unless its kind says otherwise."""

    job_output_bytes: int = Field(16 * 2**20, ge=1024, le=2**30)
    """The most that a job's process may answer."""

    job_max_tries: int = Field(3, ge=1, le=20)
    """How often a job is tried before it counts as failed."""

    jobs_at_once: int = Field(2, ge=1, le=64)
    """How many job processes run side by side."""

    log_format: Literal["auto", "text", "json"] = "auto"
    """Log lines as text or JSON; auto is text at a terminal and JSON anywhere else."""

    log_level: Literal["debug", "info", "warning"] = "info"
    """The least that is logged. At debug every sample and model call has a line with its ids."""

    log_file_bytes: int = Field(10 * 2**20, ge=2**16, le=2**30)
    """Size at which ``logs/server.log`` starts a new file."""

    log_files: int = Field(5, ge=1, le=100)
    """How many old log files are kept."""

    metrics_token: SecretStr | None = None
    """The bearer token that `/metrics` asks for; without one it answers this machine only."""

    otlp_endpoint: str | None = None
    """Where traces go by OTLP over HTTP, e.g. ``http://collector:4318``; else
    ``OTEL_EXPORTER_OTLP_ENDPOINT``, else nowhere."""

    trace_content: bool = False
    """Whether traces hold the texts of conversations and of error messages."""

    stop_grace_s: float = Field(4.0, ge=0.5, le=60)
    """How long open requests may go on after a stop."""

    @field_validator("data_dir", mode="after")
    @classmethod
    def _absolute(cls, value: Path) -> Path:
        return value.expanduser().absolute()

    @field_validator("allowed_hosts", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        if isinstance(value, str):
            return tuple(part.strip().lower() for part in value.split(",") if part.strip())
        return value

    @field_validator("public_url", "otlp_endpoint", mode="after")
    @classmethod
    def _http_url(cls, value: str | None) -> str | None:
        if value is None:
            return None
        parts = urlsplit(value.strip().rstrip("/"))
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("must be a full http:// or https:// address")
        return parts.geturl()

    @classmethod
    def load(cls, environ: Mapping[str, str] | None = None, **flags: Any) -> Self:
        """Settings from the environment, overridden by the flags that are not None."""
        environ = os.environ if environ is None else environ
        values: dict[str, Any] = {
            name: environ[env_name(name)]
            for name in cls.model_fields
            if environ.get(env_name(name), "") != ""
        }
        values.update({name: value for name, value in flags.items() if value is not None})
        try:
            return cls(**values)
        except ValidationError as error:
            issues = [
                Issue(
                    key=env_name(str(item["loc"][0])) if item["loc"] else "settings",
                    message=item["msg"].removeprefix("Value error, "),
                )
                for item in error.errors(include_input=False, include_url=False)
            ]
            listed = "; ".join(f"{issue.key}: {issue.message}" for issue in issues)
            raise ValidationFailed(
                f"The server's settings are not usable: {listed}.", issues=issues
            ) from None

    @property
    def git_dir(self) -> Path:
        return self.data_dir / "git"

    @property
    def datasets_dir(self) -> Path:
        return self.data_dir / "datasets"

    @property
    def runs_dir(self) -> Path:
        return self.data_dir / "runs"

    @property
    def cache_dir(self) -> Path:
        return self.data_dir / "cache"

    @property
    def responses_dir(self) -> Path:
        return self.data_dir / "responses"

    @property
    def work_dir(self) -> Path:
        return self.data_dir / "work"

    @property
    def logs_dir(self) -> Path:
        return self.data_dir / "logs"

    @property
    def processes_dir(self) -> Path:
        return self.data_dir / "processes"

    @property
    def master_key_file(self) -> Path:
        return self.data_dir / "master.key"

    @property
    def local_token_file(self) -> Path:
        return self.data_dir / "local-token"

    @property
    def worker_token_file(self) -> Path:
        return self.data_dir / "worker-token"

    @property
    def server_file(self) -> Path:
        return self.data_dir / "server.json"

    @property
    def sqlalchemy_url(self) -> str:
        return self.database_url or f"sqlite+aiosqlite:///{self.data_dir / 'osmosis.db'}"

    def create_directories(self) -> None:
        """Make the data directory and its folders, readable by their owner alone."""
        self.data_dir.mkdir(parents=True, exist_ok=True)
        self.data_dir.chmod(0o700)
        for folder in (
            self.git_dir,
            self.datasets_dir,
            self.runs_dir,
            self.cache_dir,
            self.responses_dir,
            self.work_dir,
            self.logs_dir,
            self.processes_dir,
        ):
            folder.mkdir(mode=0o700, exist_ok=True)


def env_name(field: str) -> str:
    """The environment variable of a field: ``data_dir`` -> ``OSMOSIS_DATA_DIR``."""
    return ENV_PREFIX + field.upper()
