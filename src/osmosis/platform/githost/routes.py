"""Mounts the git application; it has no routes of FastAPI's kind."""

from __future__ import annotations

from fastapi import APIRouter, FastAPI

from osmosis.platform.githost.app import GitHost
from osmosis.platform.platform import Platform

router = APIRouter()


def setup(app: FastAPI, platform: Platform) -> None:
    app.mount("/git", GitHost(platform))
