from __future__ import annotations

from osmosis.wire.errors import Issue, ValidationFailed


def test_an_error_in_a_program_tells_every_mistake():
    issues = [Issue("a.b", "is required", line=3), Issue("", "odd"), Issue("c", "bad", "other")]
    error = ValidationFailed("The config has 3 mistakes.", issues=issues)
    assert str(error).splitlines() == [
        "The config has 3 mistakes.",
        "a.b (line 3): is required",
        "odd",
        "c: bad (did you mean other?)",
    ]
    assert error.message == "The config has 3 mistakes."
