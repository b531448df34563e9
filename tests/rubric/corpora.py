"""The corpora of this folder, read."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

CORPUS = Path(__file__).parent / "corpus"


@dataclass(frozen=True)
class Case:
    """An answer, and the score that it states, if any."""

    name: str
    answer: str
    score: float | None
    finish: str | None
    judged: str
    range: tuple[float, float]


def answers() -> list[Case]:
    found = []
    for line in (CORPUS / "answers.jsonl").read_text().splitlines():
        value = json.loads(line)
        if isinstance(value["answer"], list):
            value["answer"] = "".join(text * times for text, times in value["answer"])
        found.append(Case(**{**value, "range": tuple(value["range"])}))
    return found


def injections() -> dict[str, str]:
    lines = (CORPUS / "injections.jsonl").read_text().splitlines()
    return {value["name"]: value["text"] for value in map(json.loads, lines)}
