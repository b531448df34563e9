"""Append-only segment files: where the bulky part of every sample lives.

A million samples must not be a million files, and a trajectory of 100,000 steps must open by page.
So each run has files ``segments/NNNN.seg``, and each sample is one *entry* in one of them, found
by (segment, offset, length):

    b"OSM1" · head length (u32) · head · frames…

The head is a small JSON object: the ATIF document without its steps, the exact size of the whole
document, and for each list (``steps``, ``calls``, ``messages``) its frames as [first, count,
offset, length], offsets counted from the end of the head. A frame is the JSON of up to 64 items or
64 KiB, without the brackets, so that frames join with a comma. Head and frames are zlib streams.
Kept calls, which a replay reads, come packed and are stored as they came, at ``kept_calls``
[offset, length].

An entry is on disk (fsync, once per batch) before anything refers to it. What a kill tore off at
the end of a file is never referred to and stays there as dead bytes.
"""

from __future__ import annotations

import os
import struct
import threading
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from osmosis.wire.deflate import deflate

MAGIC = b"OSM1"
PREFIX = struct.Struct(">4sI")
FRAME_ITEMS = 64
FRAME_BYTES = 64 * 1024
SEGMENT_BYTES = 64 * 1024 * 1024
HEAD_GUESS_BYTES = 16 * 1024
COMPRESSION_LEVEL = 1  # Level 6 takes three times as long for a tenth less.


class Place(NamedTuple):
    """Where an entry is."""

    segment: int
    offset: int
    length: int


class Encoded(NamedTuple):
    """An entry ready to be appended, and the exact length of its document as JSON."""

    data: bytes
    document_bytes: int | None


def encode_entry(
    document: Mapping[str, Any] | None,
    *,
    calls: Sequence[Any] = (),
    output: str | None = None,
    kept_calls: bytes | None = None,
    messages: Sequence[Any] = (),
) -> Encoded:
    """One entry: an ATIF ``document``, the sample's model ``calls``, its printed ``output``, the
    requests and answers of the calls, packed, and the ``messages`` that the document is of."""
    frames: list[bytes] = []
    head: dict[str, Any] = {}
    if document is not None:
        rest = {key: value for key, value in document.items() if key != "steps"}
        head["document"] = rest
        steps = document.get("steps")
        items = [orjson.dumps(step) for step in steps] if isinstance(steps, list) else []
        head["document_bytes"] = len(_opening(rest)) + _joined_length(items) + len(CLOSING)
        head["steps"] = _add_frames(frames, items)
    if calls:
        head["calls"] = _add_frames(frames, [orjson.dumps(call) for call in calls])
    if messages:
        head["messages"] = _add_frames(frames, [orjson.dumps(message) for message in messages])
    if output:
        head["output"] = _add_frames(frames, [orjson.dumps(output)])
    if kept_calls:
        head["kept_calls"] = [sum(map(len, frames)), len(kept_calls)]
        frames.append(kept_calls)
    packed = deflate(orjson.dumps(head), COMPRESSION_LEVEL)
    data = b"".join((PREFIX.pack(MAGIC, len(packed)), packed, *frames))
    return Encoded(data, head.get("document_bytes"))


class SegmentWriter:
    """Appends entries to the segments of one run. Safe to call from several threads."""

    def __init__(self, directory: Path, *, segment_bytes: int = SEGMENT_BYTES) -> None:
        self.directory = directory
        self._segment_bytes = segment_bytes
        self._lock = threading.Lock()
        self._file: int | None = None
        self._number = 0

    def append(self, entries: Sequence[bytes]) -> list[Place]:
        """Write ``entries`` and return their places once they are on disk."""
        if not entries:
            return []
        with self._lock:
            file, offset = self._open()
            places: list[Place] = []
            for entry in entries:
                places.append(Place(self._number, offset, len(entry)))
                offset += len(entry)
            try:
                self._write(file, b"".join(entries))
                os.fsync(file)
            except OSError:
                # A disk that took half gets it back: it is full enough.
                os.ftruncate(file, places[0].offset)
                raise
            return places

    def withdraw(self, places: Sequence[Place]) -> None:
        """Take back what :meth:`append` gave last and nothing will refer to.

        Stays where something else was appended behind it since: dead bytes harm nobody.
        """
        if not places:
            return
        with self._lock, suppress(OSError):
            if self._file is None or self._number != places[0].segment:
                return
            if os.fstat(self._file).st_size == places[-1].offset + places[-1].length:
                os.ftruncate(self._file, places[0].offset)

    def close(self) -> None:
        with self._lock:
            if self._file is not None:
                os.close(self._file)
                self._file = None

    def _open(self) -> tuple[int, int]:
        """The file to append to and its size; a full one is left behind for a new one."""
        if self._file is None:
            self.directory.mkdir(parents=True, exist_ok=True)
            self._number = max(_segment_numbers(self.directory), default=0)
            self._file = self._create()
        size = os.fstat(self._file).st_size
        if size >= self._segment_bytes:
            os.close(self._file)
            self._number += 1
            self._file = self._create()
            size = os.fstat(self._file).st_size
        return self._file, size

    def _create(self) -> int:
        path = segment_path(self.directory, self._number)
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        directory = os.open(self.directory, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
        return file

    def _write(self, file: int, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(file, view) :]


class Entry:
    """One entry, read piece by piece. Every method reads only what it returns."""

    def __init__(self, directory: Path, place: Place) -> None:
        self._path = segment_path(directory, place.segment)
        self._place = place
        self._frames_at = 0

    @cached_property
    def head(self) -> dict[str, Any]:
        """The document without its steps, and the index of frames."""
        with self._path.open("rb") as file:
            file.seek(self._place.offset)
            start = file.read(min(self._place.length, HEAD_GUESS_BYTES))
            if len(start) < PREFIX.size or start[:4] != MAGIC:
                raise SegmentCorrupt(f"{self._path.name} holds no entry at {self._place.offset}")
            length: int = PREFIX.unpack_from(start)[1]
            packed = start[PREFIX.size : PREFIX.size + length]
            if len(packed) < length:
                packed += file.read(length - len(packed))
        self._frames_at = self._place.offset + PREFIX.size + length
        head: dict[str, Any] = orjson.loads(_unpack(packed, self._path))
        return head

    @property
    def document(self) -> dict[str, Any] | None:
        """The ATIF document without its steps; None when the sample has no trajectory."""
        return self.head.get("document")

    @property
    def document_bytes(self) -> int:
        """The exact length of what :meth:`read_document` gives."""
        return int(self.head.get("document_bytes", 0))

    def count(self, name: str) -> int:
        """How many items the list ``name`` (``steps`` or ``calls``) has."""
        frames = self.head.get(name) or []
        return frames[-1][0] + frames[-1][1] if frames else 0

    def read_items(self, name: str, start: int, count: int) -> list[Any]:
        """Items ``start`` … ``start + count - 1`` of the list ``name``."""
        found: list[Any] = []
        frames = self.head.get(name) or []
        wanted = [frame for frame in frames if frame[0] < start + count and start < sum(frame[:2])]
        for first, raw in zip((frame[0] for frame in wanted), self._frames(wanted), strict=True):
            items = orjson.loads(b"[" + raw + b"]")
            found.extend(items[max(0, start - first) : start + count - first])
        return found

    def read_steps(self, start: int, count: int) -> list[dict[str, Any]]:
        return self.read_items("steps", start, count)

    def read_output(self) -> str | None:
        """What the sample printed, when it could be told apart."""
        items = self.read_items("output", 0, 1)
        return items[0] if items else None

    def read_kept_calls(self) -> bytes | None:
        """Requests and answers as they came; None when nothing was kept."""
        place = self.head.get("kept_calls")
        if place is None:
            return None
        with self._path.open("rb") as file:
            file.seek(self._frames_at + place[0])
            return file.read(place[1])

    def read_document(self) -> Iterator[bytes]:
        """The whole ATIF document as JSON, in pieces of a frame each."""
        document = self.document
        if document is None:
            return
        yield _opening(document)
        for index, raw in enumerate(self._frames(self.head["steps"])):
            yield b"," + raw if index else raw
        yield CLOSING

    def _frames(self, frames: Sequence[Sequence[int]]) -> Iterator[bytes]:
        with self._path.open("rb") as file:
            for _, _, offset, length in frames:
                file.seek(self._frames_at + offset)
                yield _unpack(file.read(length), self._path)


class SegmentCorrupt(Exception):
    """A segment file does not hold what the database says: a damaged or foreign file."""


CLOSING = b"]}"


def segment_path(directory: Path, number: int) -> Path:
    return directory / f"{number:04d}.seg"


def _segment_numbers(directory: Path) -> list[int]:
    return [int(path.stem) for path in directory.glob("*.seg") if path.stem.isdigit()]


def _opening(document: Mapping[str, Any]) -> bytes:
    text = orjson.dumps(document)
    return text[:-1] + (b',"steps":[' if len(text) > 2 else b'"steps":[')


def _joined_length(items: Sequence[bytes]) -> int:
    return sum(map(len, items)) + max(0, len(items) - 1)


def _add_frames(frames: list[bytes], items: Sequence[bytes]) -> list[list[int]]:
    """Pack ``items`` into frames, append those to ``frames``, return their index."""
    index: list[list[int]] = []
    offset = sum(map(len, frames))
    first = 0
    while first < len(items):
        end, size = first, 0
        while end < len(items) and end - first < FRAME_ITEMS:
            if size and size + len(items[end]) > FRAME_BYTES:
                break
            size += len(items[end])
            end += 1
        frame = deflate(b",".join(items[first:end]), COMPRESSION_LEVEL)
        frames.append(frame)
        index.append([first, end - first, offset, len(frame)])
        offset += len(frame)
        first = end
    return index


def _unpack(packed: bytes, path: Path) -> bytes:
    try:
        return zlib.decompress(packed)
    except zlib.error as error:
        raise SegmentCorrupt(f"{path.name} is damaged: {error}") from error
