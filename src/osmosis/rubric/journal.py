"""What has been judged so far, beside the report that is not finished yet.

One JSON line for each judgement, under a key made of everything that the judge was asked: the same
question again finds its score, another rubric, range or judge does not. A line that a kill cut off
is ignored. Only scores are kept: what failed or stayed unscored is asked anew.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any, Self

from osmosis.evaluation.redaction import Redactor
from osmosis.rubric.judge import Judge, Judgement
from osmosis.rubric.prompt import PROMPT_VERSION, Task
from osmosis.wire.errors import Conflict, OsmosisError

SUFFIX = ".partial.jsonl"


def journal_path(report: Path) -> Path:
    """Where the judgements of an unfinished report are kept."""
    return report.with_name(report.name + SUFFIX)


class Journal:
    """The kept judgements of one report; only one process at a time has it open."""

    def __init__(self, path: Path, redactor: Redactor, *, fresh: bool = False) -> None:
        self.path = path
        self._redactor = redactor
        self.kept: dict[str, Judgement] = {}
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file: IO[bytes] = path.open("a+b")
        except OSError as error:
            raise OsmosisError(f"Cannot write {path}: {error.strerror}.") from None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._file.close()
            raise Conflict(
                f"Another `osmosis eval rubric` is writing {path}.",
                hint="Wait, or name another -o.",
            ) from None
        if fresh:
            self._file.truncate(0)
        else:
            self._read()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def keep(self, key: str, judgement: Judgement) -> None:
        """Put a score on the disk's side of a crash of this process."""
        entry = {"key": key, **self._redactor.json(asdict(judgement))}
        line = json.dumps(entry, allow_nan=False)
        self._file.write(line.encode() + b"\n")
        self._file.flush()

    def remove(self) -> None:
        """The report is complete: nothing is left to go on with."""
        self.path.unlink(missing_ok=True)

    def _read(self) -> None:
        self._file.seek(0)
        whole = 0
        for raw in self._file:
            if not raw.endswith(b"\n"):
                break
            whole += len(raw)
            entry = _entry(raw)
            if entry is not None:
                key, judgement = entry
                self.kept[key] = judgement
        self._file.truncate(whole)


def question_of(judge: Judge, task: Task) -> list[Any]:
    """What all judgements of one judge have in common. Taken before the first one: what the judge
    turns out to refuse makes no other question of it."""
    return [
        PROMPT_VERSION,
        judge.link.model,
        judge.link.address,
        judge.shape.temperature,
        [task.rubric, task.score_min, task.score_max, task.system_prompt],
    ]


def key_of(question: list[Any], material_digest: str, occurrence: int, run_index: int) -> str:
    """The key of one judgement. ``occurrence`` tells records with the same contents apart."""
    asked = [question, material_digest, occurrence, run_index]
    return hashlib.sha256(json.dumps(asked).encode()).hexdigest()


def _entry(raw: bytes) -> tuple[str, Judgement] | None:
    try:
        value: dict[str, Any] = json.loads(raw)
        key = value.pop("key")
        value["raw"] = tuple(value["raw"])
        judgement = Judgement(**value)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    usable = judgement.status == "scored" and isinstance(judgement.score, float)
    return (key, judgement) if usable and isinstance(key, str) else None
