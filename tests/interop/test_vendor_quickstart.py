"""`osmosis quickstart` of the published package, at a terminal, inside a workspace."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import time

import pytest

from tests.interop.vendor import Vendor

pytestmark = [pytest.mark.interop, pytest.mark.timeout(120)]

ANSWER_LIMIT_S = 60.0
DOWN, ENTER = b"\x1b[B", b"\r"


def test_the_quickstart_takes_the_workspace_as_it_is(vendor: Vendor) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [str(vendor.command), "quickstart"],
        cwd=vendor.cwd,
        env={**vendor.env, "TERM": "xterm-256color", "BROWSER": "true"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    seen = b""
    answered = False
    deadline = time.monotonic() + ANSWER_LIMIT_S
    try:
        while time.monotonic() < deadline:
            if not select.select([ours], [], [], 0.2)[0]:
                continue
            try:
                seen += os.read(ours, 65536)
            except OSError:
                break  # The other end is closed: the command has ended.
            if not answered and b"What do you want to do?" in seen:
                os.write(ours, DOWN * 3 + ENTER)
                answered = True
        assert process.wait(10) == 0, seen.decode(errors="replace")
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    text = seen.decode(errors="replace")
    assert "Setup complete" in text and "vendors" in text
    assert "not notified" not in text, text
