"""Taking secret values out of text before it is written or sent anywhere."""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote, quote_plus

REDACTED = "[REDACTED]"

MIN_SECRET_CHARS = 4
"""A shorter value stands in every other word of ordinary text: it hides nothing, and hiding it
would tear every text apart. It is left alone, and the run's log says so."""

MIN_LINE_CHARS = 6
"""Lines of a multi-line secret shorter than this say too little to hide on their own."""


class Redactor:
    """Replaces secret values, and the forms they travel in, by ``[REDACTED]``.

    Forms: as given, stripped, each line of a multi-line value, URL-quoted, JSON-escaped, HTML-
    escaped, base64 at each of the three alignments (so also inside a longer encoded text such as
    ``user:secret``). Values of fewer than ``MIN_SECRET_CHARS`` are not looked for.
    """

    def __init__(self, values: Iterable[str]) -> None:
        forms: set[str] = set()
        for value in values:
            forms |= _forms(value)
        # Longest first, or a value that contains another would leave its rest behind.
        self._forms = sorted(forms, key=lambda form: (-len(form), form))

    @property
    def longest(self) -> int:
        """Characters of the longest form: a cut before redaction must keep this much more."""
        return len(self._forms[0]) if self._forms else 0

    def text(self, text: str) -> str:
        for form in self._forms:
            if form in text:
                text = text.replace(form, REDACTED)
        return text

    def json(self, value: Any) -> Any:
        """A copy of a JSON-like value with every string in it, keys included, redacted."""
        if not self._forms:
            return value
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {
                self.text(key) if isinstance(key, str) else key: self.json(item)
                for key, item in value.items()
            }
        if isinstance(value, (list, tuple)):
            return [self.json(item) for item in value]
        return value


def is_too_short(value: str) -> bool:
    """Whether a value cannot be told from ordinary text, and so is not redacted."""
    return len(value.strip()) < MIN_SECRET_CHARS


def _forms(value: str) -> set[str]:
    if is_too_short(value):
        return set()
    plain = {value, value.strip()}
    lines = [line.strip() for line in value.splitlines()]
    if len(lines) > 1:
        plain |= {line for line in lines if len(line) >= MIN_LINE_CHARS}
    forms = set(plain)
    for text in plain:
        quoted = {quote(text, safe=""), quote(text), quote_plus(text)}
        forms |= quoted | {_ESCAPE.sub(_lower, one) for one in quoted}
        forms |= {html.escape(text), html.escape(text, quote=False)}
        forms |= {json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]}
        forms |= _base64_forms(text.encode("utf-8", "surrogatepass"))
    return {form for form in forms if form}


_ESCAPE = re.compile("%[0-9A-F]{2}")


def _lower(match: re.Match[str]) -> str:
    return match[0].lower()


def _base64_forms(raw: bytes) -> set[str]:
    forms: set[str] = set()
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        whole = encode(raw).decode()
        forms |= {whole, whole.rstrip("=")}
        if len(raw) < MIN_LINE_CHARS:
            continue  # the inner parts of a very short value would match innocent text
        for before in range(3):
            # The characters that depend on the secret alone, whatever stands around it.
            encoded = encode(b"\0" * before + raw).decode().rstrip("=")
            start = (before * 8 + 5) // 6
            stop = ((before + len(raw)) * 8) // 6
            forms.add(encoded[start:stop])
    return forms
