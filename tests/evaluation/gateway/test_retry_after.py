from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from osmosis.evaluation.gateway.retry_after import retry_after_s


def ago(seconds):
    return datetime.now(UTC) + timedelta(seconds=seconds)


def test_retry_after_reads_seconds_dates_and_milliseconds():
    assert retry_after_s({"Retry-After": "7"}) == 7
    assert retry_after_s({"Retry-After": "1.5"}) == 1.5
    assert retry_after_s({"Retry-After": "7", "retry-after-ms": "250"}) == 0.25
    later = format_datetime(ago(30), usegmt=True)
    assert retry_after_s({"Retry-After": later}) == pytest.approx(30, abs=3)
    assert retry_after_s({"Retry-After": format_datetime(ago(-30), usegmt=True)}) == 0
    assert retry_after_s({"Retry-After": "soon"}) is None
    assert retry_after_s({}) is None


@pytest.mark.parametrize("hours", [-1, 1])
def test_points_in_time_are_read_by_the_clock_of_the_provider(hours):
    theirs = ago(hours * 3600)
    date = format_datetime(theirs, usegmt=True)
    later = theirs + timedelta(seconds=30)
    retry_at = {"Date": date, "Retry-After": format_datetime(later, usegmt=True)}
    assert retry_after_s(retry_at) == pytest.approx(30, abs=1)
    reset = {"Date": date, "x-ratelimit-remaining": "0"}
    for told in (str(int(later.timestamp())), later.isoformat()):
        assert retry_after_s({**reset, "x-ratelimit-reset": told}) == pytest.approx(30, abs=2)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("6m0s", 360), ("1s", 1), ("120ms", 0.12), ("1m26.4s", 86.4), ("1h2m3s", 3723), ("17", 17)],
)
def test_the_reset_of_a_spent_window_counts(value, seconds):
    spent = {"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": value}
    assert retry_after_s(spent) == pytest.approx(seconds)


def test_the_reset_of_a_window_with_room_left_does_not_count():
    headers = {
        "x-ratelimit-remaining-requests": "99",
        "x-ratelimit-reset-requests": "8m",
        "x-ratelimit-remaining-tokens": "0",
        "x-ratelimit-reset-tokens": "2s",
    }
    assert retry_after_s(headers) == 2
    assert retry_after_s({**headers, "x-ratelimit-remaining-tokens": "5"}) is None


def test_resets_as_points_in_time():
    until = ago(20).isoformat().replace("+00:00", "Z")
    anthropic = {
        "anthropic-ratelimit-output-tokens-remaining": "0",
        "anthropic-ratelimit-output-tokens-reset": until,
    }
    assert retry_after_s(anthropic) == pytest.approx(20, abs=3)
    for now in (time.time() + 20, (time.time() + 20) * 1000):
        headers = {"x-ratelimit-remaining": "0", "x-ratelimit-reset": f"{now:.0f}"}
        assert retry_after_s(headers) == pytest.approx(20, abs=3)


def test_a_reset_that_makes_no_sense_is_ignored():
    for value in ("never", "", "999999", "P1D", "s"):
        headers = {"x-ratelimit-remaining": "0", "x-ratelimit-reset": value}
        assert retry_after_s(headers) is None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("Rate limit reached. Please try again in 6.2s. Visit …", 6.2),
        ("Please try again in 120ms.", 0.12),
        ('{"@type": "…RetryInfo", "retryDelay": "34s"}', 34),
        ('b\'{\\n "retryDelay": "34.07s"}', 34.07),
        ("Please retry in 12.5s.", 12.5),
        ("Try again later.", None),
    ],
)
def test_what_the_error_text_says_is_read_last(text, seconds):
    assert retry_after_s({}, text) == seconds
    assert retry_after_s({"Retry-After": "1"}, text) == 1
