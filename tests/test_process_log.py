"""Log lines of our processes: stable keys, ids, nothing secret."""

from __future__ import annotations

import io
import json
import logging
import subprocess
import sys

import pytest

from osmosis.process_log import LogLines, as_json, relay

CANARY = "s3cret-canary"


def record(message: str, **extra: object) -> logging.LogRecord:
    return logging.getLogger("osmosis.x").makeRecord(
        "osmosis.x", logging.WARNING, "f", 1, message, (), None, extra=extra or None
    )


def test_a_line_has_stable_keys_and_the_ids_that_are_known() -> None:
    line = json.loads(
        LogLines(as_json=True).format(record("Lost.", run_id="r1", call_id="c/0", stray=1))
    )
    assert list(line) == ["time", "level", "logger", "message", "run_id", "call_id"]
    assert (line["level"], line["logger"], line["message"]) == ("warning", "osmosis.x", "Lost.")
    assert LogLines(as_json=False).format(record("Lost.", run_id="r1")).endswith("Lost. run_id=r1")


@pytest.mark.parametrize("json_lines", [True, False])
def test_no_line_holds_a_secret_not_even_its_traceback(json_lines: bool) -> None:
    formatter = LogLines(as_json=json_lines, redact=lambda text: text.replace(CANARY, "[REDACTED]"))
    try:
        raise ValueError(CANARY)
    except ValueError:
        item = record(f"with {CANARY}", run=CANARY)
        item.exc_info = sys.exc_info()
    text = formatter.format(item)
    assert CANARY not in text and text.count("[REDACTED]") >= 3


def test_lines_are_json_unless_somebody_sits_before_them() -> None:
    assert as_json("auto", io.StringIO()) and not as_json("text", io.StringIO())


def test_a_line_of_another_process_keeps_its_ids(caplog: pytest.LogCaptureFixture) -> None:
    log = logging.getLogger("test-relay")
    with caplog.at_level(logging.DEBUG, logger="test-relay"):
        assert relay(LogLines(as_json=True).format(record("Lost.", run_id="r1")), log)
    assert caplog.records[0].levelno == logging.WARNING
    assert vars(caplog.records[0])["run_id"] == "r1"
    assert not relay("plain words", log) and not relay('{"a": 1}', log)


SHARD = """
import logging, sys
from osmosis.worker.shard_log import shard_log
with shard_log(sys.stderr, lambda text: text.replace("s3cret-canary", "[REDACTED]")):
    logging.getLogger("osmosis.shard").info("with s3cret-canary", extra={"run_id": "r1"})
"""


def test_a_shards_lines_reach_its_workers_standard_error_without_secrets() -> None:
    done = subprocess.run([sys.executable, "-c", SHARD], capture_output=True, text=True, check=True)
    line = json.loads(done.stderr)
    assert (line["message"], line["run_id"]) == ("with [REDACTED]", "r1")
