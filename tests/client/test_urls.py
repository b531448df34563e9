from __future__ import annotations

import pytest

from osmosis.client.urls import DEFAULT_PLATFORM_URL, is_loopback, normalize, refuse_insecure
from osmosis.wire.errors import ValidationFailed


@pytest.mark.parametrize(
    ("given", "normal"),
    [
        ("", DEFAULT_PLATFORM_URL),
        ("  HTTPS://Eval.Example:443/ ", "https://eval.example"),
        ("http://eval.example:80", "http://eval.example"),
        ("http://127.0.0.1:8000/pre/", "http://127.0.0.1:8000/pre"),
        ("https://eval.example/pre?x=1#y", "https://eval.example/pre"),
        ("localhost:7670", "http://localhost:7670"),
        ("eval.example", "https://eval.example"),
        ("[::1]:7670", "http://[::1]:7670"),
    ],
)
def test_every_address_has_one_spelling(given: str, normal: str):
    assert normalize(given) == normal


@pytest.mark.parametrize("given", ["ftp://host", "http://", "http://host:port", "https://:1"])
def test_other_things_are_no_addresses(given: str):
    with pytest.raises(ValidationFailed):
        normalize(given)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.8.9.1", "[::1]"])
def test_loopback_never_leaves_the_machine(host: str):
    assert is_loopback(f"http://{host}:7670")


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.2", "host.docker.internal", "localhost.x"])
def test_plain_http_elsewhere_is_refused_unless_allowed(host: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("OSMOSIS_ALLOW_INSECURE_PLATFORM_URL", raising=False)
    with pytest.raises(ValidationFailed):
        refuse_insecure(f"http://{host}:7670")
    monkeypatch.setenv("OSMOSIS_ALLOW_INSECURE_PLATFORM_URL", "1")
    refuse_insecure(f"http://{host}:7670")
