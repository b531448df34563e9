from __future__ import annotations

import pytest
from fastapi.testclient import TestClient

import osmosis.platform
from osmosis.platform.app import ROOMS, create_app
from osmosis.platform.settings import Settings


def test_every_room_with_routes_is_part_of_the_application() -> None:
    from pathlib import Path

    folder = Path(osmosis.platform.__file__ or "").parent
    rooms = {path.parent.name for path in folder.glob("*/routes.py")}
    assert rooms == {room.__name__.split(".")[-2] for room in ROOMS}


def test_no_api_path_ends_in_a_slash(platform_settings: Settings) -> None:
    paths = create_app(platform_settings).openapi()["paths"]
    assert "/api/health" in paths
    assert [path for path in paths if path != "/" and path.endswith("/")] == []


def test_no_telemetry_leaves_the_server_whatever_the_environment_says(
    platform_settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    # With telemetry on, the framework complains here: its exporter is not installed.
    monkeypatch.setenv("FASTAPI_OTEL_AUTO_CONFIGURE", "true")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    with TestClient(create_app(platform_settings), base_url="http://127.0.0.1") as client:
        assert client.get("/api/health").json()["status"] == "ok"
    assert "telemetry" not in caplog.text
