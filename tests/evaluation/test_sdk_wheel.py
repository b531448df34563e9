import email
import re
import shutil
import zipfile

import pytest

from osmosis.evaluation import sdk_wheel
from osmosis.evaluation.sdk_wheel import PACKAGE_DIR


@pytest.fixture
def package(tmp_path, monkeypatch):
    copy = tmp_path / "copy/osmosis"
    shutil.copytree(PACKAGE_DIR, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(sdk_wheel, "PACKAGE_DIR", copy)
    return copy


def test_the_wheel_is_the_running_sdk_under_a_version_no_index_has(package, tmp_path):
    wheel = sdk_wheel.sdk_wheel(tmp_path / "sdk")
    with zipfile.ZipFile(wheel.path) as archive:
        names = archive.namelist()
        assert archive.testzip() is None
        assert (
            archive.read("osmosis/rollout/errors.py")
            == (package / "rollout/errors.py").read_bytes()
        )
        info = f"osmosis_platform-{wheel.version}.dist-info"
        metadata = email.message_from_bytes(archive.read(f"{info}/METADATA"))
    assert metadata["Name"] == "osmosis-platform"
    assert metadata["Version"] == wheel.version
    assert "+sdk.g" in wheel.version
    assert "server" in metadata.get_all("Provides-Extra")
    assert not [name for name in names if "/platform/" in name or "/wire/" in name]
    assert not [name for name in names if "__pycache__" in name or name.endswith(".pyc")]


def test_the_wheel_is_the_same_bytes_wherever_it_is_built(package, tmp_path):
    first = sdk_wheel.sdk_wheel(tmp_path / "one")
    second = sdk_wheel.sdk_wheel(tmp_path / "two")
    assert first.version == second.version
    assert first.path.read_bytes() == second.path.read_bytes()


def test_a_changed_source_is_another_version(package, tmp_path):
    first = sdk_wheel.sdk_wheel(tmp_path / "sdk")
    (package / "rollout/errors.py").write_text("# changed\n")
    second = sdk_wheel.sdk_wheel(tmp_path / "sdk")
    assert first.version != second.version
    assert first.path.exists() and second.path.exists()


def test_the_wheel_needs_what_a_rollout_needs_and_nothing_of_the_platform(package, tmp_path):
    wheel = sdk_wheel.sdk_wheel(tmp_path / "sdk")
    with zipfile.ZipFile(wheel.path) as archive:
        text = archive.read(f"osmosis_platform-{wheel.version}.dist-info/METADATA")
    needed = email.message_from_bytes(text).get_all("Requires-Dist")
    names = {re.match(r"[A-Za-z0-9_.-]+", line)[0] for line in needed}
    assert {"aiohttp", "fastapi", "orjson", "pydantic", "uvicorn"} <= names
    assert not names & {"typer", "rich", "httpx", "litellm", "sqlalchemy", "pytest"}


def test_a_change_outside_the_sdk_is_no_other_version(package, tmp_path):
    first = sdk_wheel.sdk_wheel(tmp_path / "sdk")
    (package / "platform/settings.py").write_text("# changed\n")
    assert sdk_wheel.sdk_wheel(tmp_path / "sdk").version == first.version
