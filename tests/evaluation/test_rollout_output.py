import time

import pytest

from osmosis.evaluation.redaction import Redactor
from osmosis.evaluation.rollout_output import LINE_BYTES, PROCESS_LOG_BYTES, OutputReader
from tests.evaluation.rollout_lab import Recorder


class Reading:
    def __init__(self, *secrets):
        self.sink = Recorder()
        self.samples = []
        self.reader = OutputReader(
            self.sink, Redactor(secrets), lambda rollout, text: self.samples.append((rollout, text))
        )

    def feed(self, *chunks):
        for chunk in chunks:
            self.reader.data_received(chunk)
        return self

    def end(self):
        self.reader.connection_lost(None)
        return self


async def test_lines_of_a_sample_are_told_apart_from_those_of_the_process():
    reading = Reading().feed(b"start\n\x1eaa\x1eone\n\x1ebb\x1etwo\n\x1eaa\x1ethree\nend\n").end()
    assert reading.samples == [("aa", "one\nthree\n"), ("bb", "two\n")]
    assert reading.sink.logs == [("info", "rollout-server", "start\nend")]


@pytest.mark.parametrize("size", [1, 3, 7, 64])
async def test_lines_survive_any_cut_into_chunks(size):
    data = "\x1eaa\x1eäöü\nplain – line\n\x1ehalf a tag\nlast".encode()
    reading = Reading().feed(*(data[i : i + size] for i in range(0, len(data), size))).end()
    assert reading.samples == [("aa", "äöü\n")]
    assert reading.sink.text == "plain – line\n\x1ehalf a tag\nlast"


async def test_a_secret_is_taken_out_of_both_even_where_a_line_is_cut():
    secret = "s3cr3t-value"
    line = b"x" * (LINE_BYTES - 4) + secret.encode() + b"y" * LINE_BYTES * 3 + b"\n"
    reading = Reading(secret).feed(b"\x1eaa\x1ehas s3cr3t-value\n", line, b"next\n").end()
    assert reading.samples == [("aa", "has [REDACTED]\n")]
    assert "s3cr" not in reading.sink.text
    assert "\nnext" in reading.sink.text


async def test_a_line_without_end_takes_no_memory_and_does_not_swallow_the_next():
    reading = Reading()
    for _ in range(200):
        reading.feed(b"z" * 65536)
    reading.feed(b"\nafter\n").end()
    assert len(reading.sink.text) < LINE_BYTES + 200
    assert "\nafter" in reading.sink.text
    assert "suppressed" in reading.sink.text


async def test_a_flood_is_bounded_counted_and_read_quickly():
    reading = Reading("s3cr3t-value")
    chunk = (b"q" * 99 + b"\n") * 2000
    started = time.process_time()
    for _ in range(500):
        reading.feed(chunk)
    reading.feed(b"the last words\n").end()
    assert time.process_time() - started < 5  # half a second on an idle machine
    assert len(reading.sink.text) < PROCESS_LOG_BYTES * 1.1
    assert reading.reader.tail[-1] == "the last words"
    kept = reading.sink.text.count("q" * 99)
    gone = 500 * len(chunk) + len("the last words\n") - kept * 100
    assert f"suppressed {gone} bytes" in reading.sink.logs[-1][2]


async def test_odd_bytes_become_text_that_a_log_can_hold():
    reading = Reading().feed(b"a\xff\x00b\r\n").end()
    assert reading.sink.text == "a\ufffd\ufffdb"
