"""Fetching files from signed addresses: eight at once, each whole and of the right size, or not.

A file is written beside its place as ``NAME.partial`` and moved there once its size is right. Such
an address authenticates itself; no token and no header of ours goes there.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from osmosis.client.api import Api
from osmosis.client.http import open_client
from osmosis.client.run_files import FileProblem, Manifest, RunFile
from osmosis.client.urls import is_loopback
from osmosis.wire.errors import (
    Conflict,
    OsmosisError,
    RateLimited,
    Unreachable,
    ValidationFailed,
)

URLS_PER_CALL = 500
PARALLEL = 8
TRIES = 3
FIRST_WAIT_S = 0.5
FILE_TIMEOUT_S = 600.0
CONNECT_TIMEOUT_S = 30.0
MAX_REDIRECTS = 20
CHUNK_BYTES = 1 << 18
PARTIAL = ".partial"

Progress = Callable[[int], None]
Wait = Callable[[float], None]


@dataclass
class DownloadReport:
    """What a download did. ``problems`` is empty when every file is there."""

    directory: Path
    downloaded: int = 0
    skipped: int = 0
    bytes_downloaded: int = 0
    problems: list[FileProblem] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        return not self.problems


@dataclass(frozen=True)
class DownloadPlan:
    """The files of a run that a directory is to hold, and those of them that it lacks."""

    manifest: Manifest
    directory: Path
    wanted: Sequence[RunFile]

    @classmethod
    def of(cls, manifest: Manifest, directory: Path, *, overwrite: bool = False) -> DownloadPlan:
        return cls(
            manifest, directory, missing_files(manifest.files, directory, overwrite=overwrite)
        )

    @property
    def size_bytes(self) -> int:
        """What is still to come."""
        return sum(file.size for file in self.wanted)

    def fetch(
        self, api: Api, run_id: str, progress: Progress = lambda received: None
    ) -> DownloadReport:
        """Fetch them; what the manifest held that may not be written counts as a problem."""
        report = fetch_files(api, run_id, self.wanted, self.directory, progress=progress)
        report.skipped = len(self.manifest.files) - len(self.wanted)
        report.problems = self.manifest.refused + report.problems
        return report


def missing_files(files: Sequence[RunFile], directory: Path, *, overwrite: bool) -> list[RunFile]:
    """The files that are not on disk yet with their size; all of them to overwrite."""
    return [file for file in files if overwrite or not _is_there(directory / file.path, file.size)]


def fetch_files(
    api: Api,
    run_id: str,
    files: Sequence[RunFile],
    directory: Path,
    *,
    progress: Progress = lambda received: None,
    wait: Wait = time.sleep,
) -> DownloadReport:
    """Fetch files of a run into ``directory``; a file that fails does not end the others."""
    report = DownloadReport(directory)
    make_directory(directory)
    with _Fetcher(api, run_id, directory, progress, wait) as fetcher:
        for start in range(0, len(files), URLS_PER_CALL):
            fetcher.fetch(files[start : start + URLS_PER_CALL], report)
    return report


def make_directory(directory: Path) -> None:
    """Make a directory that files go to."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValidationFailed(
            f"The directory {directory} cannot be made: {error.strerror}.",
            hint="Name another place with -o.",
        ) from None


def free_target(to: Path | None, file_name: str, *, overwrite: bool) -> Path:
    """Where a file goes: the path ``to``, or the directory ``to`` under the file's own name."""
    target = to or Path()
    if target.is_dir():
        target = target / file_name
    if target.exists() and not overwrite:
        raise Conflict(
            f"There is a file {target} already.", hint="Replace it with --overwrite, or use -o."
        )
    make_directory(target.parent)
    return target


def fetch_one(url: str, target: Path, size: int | None, *, progress: Progress, wait: Wait) -> int:
    """Fetch one address into ``target``; gives the bytes received."""
    with _client(url) as client:
        return _retried(lambda: _receive(client, url, target, size, progress=progress), wait)


class _Fetcher:
    """One download: its pool of threads, its connections, and the flag that stops them."""

    def __init__(
        self, api: Api, run_id: str, directory: Path, progress: Progress, wait: Wait
    ) -> None:
        self._api, self._run_id, self._directory = api, run_id, directory
        self._progress, self._wait = progress, wait
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._received = 0
        self._clients: dict[str, httpx.Client] = {}
        self._pool = ThreadPoolExecutor(PARALLEL, thread_name_prefix="download")

    def __enter__(self) -> _Fetcher:
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._pool.shutdown(cancel_futures=True)
        for client in self._clients.values():
            client.close()

    def fetch(self, files: Sequence[RunFile], report: DownloadReport) -> None:
        """One batch: its addresses, then its files."""
        try:
            urls = _retried(lambda: self._addresses(files), self._wait)
        except OsmosisError as error:
            if not _may_pass(error):
                raise
            report.problems += [FileProblem(file.path, error.message) for file in files]
            return
        futures = {self._pool.submit(self._one, file, urls.get(file)): file for file in files}
        for future in as_completed(futures):
            file = futures[future]
            try:
                report.bytes_downloaded += future.result()
                report.downloaded += 1
            except OsmosisError as error:
                report.problems.append(FileProblem(file.path, error.message))
            except OSError as error:
                reason = error.strerror or type(error).__name__
                report.problems.append(FileProblem(file.path, f"it cannot be written: {reason}"))

    def _addresses(self, files: Sequence[RunFile]) -> dict[RunFile, str]:
        """Addresses by file, matched on path and token, else on a path that occurs once."""
        answer = self._api.eval_download_urls(self._run_id, [file.body() for file in files])
        entries = answer.get("items") or answer.get("files") or answer.get("urls") or []
        exact: dict[tuple[str, Any], str] = {}
        by_path: dict[str, list[str]] = {}
        for entry in entries:
            url = entry.get("url") or entry.get("presignedUrl") or entry.get("presigned_url")
            if isinstance(url, str):
                exact[entry.get("path"), entry.get("token")] = url
                by_path.setdefault(str(entry.get("path")), []).append(url)
        found: dict[RunFile, str] = {}
        for file in files:
            url = exact.get((file.path, file.token))
            alone = by_path.get(file.path, [])
            if url or len(alone) == 1:
                found[file] = url or alone[0]
        return found

    def _one(self, file: RunFile, url: str | None) -> int:
        target = self._directory / file.path
        _check_inside(target, self._directory)
        target.parent.mkdir(parents=True, exist_ok=True)
        address = url

        def attempt() -> int:
            nonlocal address
            if address is None:
                address = self._addresses([file]).get(file)
            if address is None:
                raise ValidationFailed("the platform gave no address for it")
            try:
                return _receive(
                    self._client(address),
                    address,
                    target,
                    file.size,
                    progress=self._count,
                    stopped=self._stopped,
                )
            except _Expired:
                address = None  # the next try asks for a fresh one
                raise

        return _retried(attempt, self._wait)

    def _client(self, url: str) -> httpx.Client:
        place = "{0.scheme}://{0.netloc}".format(urlsplit(url))
        with self._lock:
            if place not in self._clients:
                self._clients[place] = _client(url)
            return self._clients[place]

    def _count(self, amount: int) -> None:
        with self._lock:
            self._received += amount
            self._progress(self._received)


class _Expired(Unreachable):
    """The address is not accepted any more."""


def _retried(attempt: Callable[[], Any], wait: Wait) -> Any:
    for number in range(TRIES):
        try:
            return attempt()
        except OsmosisError as error:
            if number == TRIES - 1 or not _may_pass(error):
                raise
        wait(FIRST_WAIT_S * 2**number)
    raise AssertionError("unreachable: the last try returns or raises")


def _may_pass(error: OsmosisError) -> bool:
    """Whether another try may do better."""
    failing = error.code == "PLATFORM_ERROR" and error.http_status >= 500
    return failing or isinstance(error, Unreachable | RateLimited)


def _client(url: str) -> httpx.Client:
    _check_address(url)
    client = open_client(url)
    client.follow_redirects = True  # no token of ours goes along
    client.max_redirects = MAX_REDIRECTS
    client.event_hooks = {"request": [lambda request: _check_address(str(request.url))]}
    client.timeout = httpx.Timeout(FILE_TIMEOUT_S, connect=CONNECT_TIMEOUT_S)
    return client


def _receive(
    client: httpx.Client,
    url: str,
    target: Path,
    size: int | None,
    *,
    progress: Progress,
    stopped: threading.Event | None = None,
) -> int:
    """Stream one file to disk. Messages never hold the address: who has it may read the file."""
    try:
        with client.stream("GET", url) as answer:
            if answer.status_code == 403:
                raise _Expired("its address is not accepted any more")
            if answer.status_code == 429 or answer.status_code >= 500:
                raise Unreachable(f"the storage answered {answer.status_code}")
            if not answer.is_success:
                raise ValidationFailed(f"the storage answered {answer.status_code}")
            with _placed(target) as partial:
                received = 0
                with partial.open("wb") as file:
                    for chunk in answer.iter_bytes(CHUNK_BYTES):
                        if stopped is not None and stopped.is_set():
                            raise ValidationFailed("the download was stopped")
                        received += len(chunk)
                        if size is not None and received > size:
                            break
                        file.write(chunk)
                        progress(len(chunk))
                if size is not None and received != size:
                    amount = f"more than {size}" if received > size else f"{received} of {size}"
                    raise Unreachable(f"it came with {amount} bytes")
                return received
    except httpx.TooManyRedirects:
        raise ValidationFailed("the storage redirects without end") from None
    except httpx.HTTPError as error:
        raise Unreachable(f"the connection broke ({type(error).__name__})") from None


@contextlib.contextmanager
def _placed(target: Path) -> Generator[Path]:
    """A file beside ``target`` that takes its place when all went well, else goes."""
    if target.is_dir():
        raise ValidationFailed("a directory is in its place")
    partial = target.with_name(target.name + PARTIAL)
    try:
        yield partial
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def _check_address(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(url)):
        raise ValidationFailed(
            f"the download address at {parts.netloc or 'an unknown host'} is not https",
            hint="Give the server an https address (OSMOSIS_PUBLIC_URL).",
        )


def _check_inside(target: Path, directory: Path) -> None:
    """A link on disk must not lead a file elsewhere."""
    if not target.parent.resolve().is_relative_to(directory.resolve()):
        raise ValidationFailed("a link in its path leads out of the directory")


def _is_there(path: Path, size: int) -> bool:
    try:
        return path.is_file() and path.stat().st_size == size
    except OSError:
        return False
