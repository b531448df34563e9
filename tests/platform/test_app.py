from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator

import pytest
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient
from starlette.routing import BaseRoute

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


def api_routes(routes: Iterable[BaseRoute]) -> Iterator[APIRoute]:
    for route in routes:
        if isinstance(route, APIRoute):
            yield route
        elif (included := getattr(route, "original_router", None)) is not None:
            yield from api_routes(included.routes)


def dependencies(dependant: Dependant) -> Iterator[Callable[..., object]]:
    for one in dependant.dependencies:
        assert one.call is not None
        yield one.call
        yield from dependencies(one)


def test_no_route_and_no_dependency_costs_a_hop_to_a_thread(platform_settings: Settings) -> None:
    routes = [*api_routes(create_app(platform_settings).routes)]
    assert len(routes) > 90
    for route in routes:
        asked = {route.endpoint, *dependencies(route.dependant)}
        assert [one for one in asked if not inspect.iscoroutinefunction(one)] == []


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
