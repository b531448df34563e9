"""What each running sample prints, kept to a bounded head and tail."""

from __future__ import annotations

from collections import deque

HEAD_CHARS = TAIL_CHARS = 32 * 1024


class SampleOutput:
    """The printed text of one try: its first and its last 32 Ki characters."""

    __slots__ = ("_head", "_head_chars", "_left_out", "_tail", "_tail_chars")

    def __init__(self) -> None:
        self._head: list[str] = []
        self._head_chars = 0
        self._tail: deque[str] = deque()
        self._tail_chars = 0
        self._left_out = 0

    def add(self, text: str) -> None:
        """Append printed text; whole pieces in the middle are counted and forgotten."""
        if not self._tail:
            room = HEAD_CHARS - self._head_chars
            if len(text) <= room:
                self._head.append(text)
                self._head_chars += len(text)
                return
            self._head.append(text[:room])
            self._head_chars = HEAD_CHARS
            text = text[room:]
        if len(text) > TAIL_CHARS:
            self._left_out += len(text) - TAIL_CHARS
            text = text[-TAIL_CHARS:]
        self._tail.append(text)
        self._tail_chars += len(text)
        while self._tail_chars > TAIL_CHARS:
            surplus = self._tail_chars - TAIL_CHARS
            first = self._tail.popleft()
            if len(first) > surplus:
                self._tail.appendleft(first[surplus:])
                dropped = surplus
            else:
                dropped = len(first)
            self._tail_chars -= dropped
            self._left_out += dropped

    def text(self) -> str | None:
        """What was printed, or None when nothing was."""
        if not self._head:
            return None
        gap = f"\n[… {self._left_out} characters left out …]\n" if self._left_out else ""
        return "".join(self._head) + gap + "".join(self._tail)


class OutputBook:
    """The outputs of the tries in flight, by rollout id."""

    def __init__(self) -> None:
        self._open: dict[str, SampleOutput] = {}

    def open(self, rollout_id: str) -> None:
        self._open[rollout_id] = SampleOutput()

    def add(self, rollout_id: str, text: str) -> None:
        """Text of a rollout that is not in flight (any more) is dropped."""
        if (output := self._open.get(rollout_id)) is not None:
            output.add(text if text.endswith("\n") else text + "\n")

    def close(self, rollout_id: str) -> str | None:
        output = self._open.pop(rollout_id, None)
        return output.text() if output is not None else None
