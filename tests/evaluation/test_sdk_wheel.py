import email
import re
import shutil
import subprocess
import sys
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
    rooms = {name.split("/")[1] for name in names if name.startswith("osmosis/")}
    assert not rooms & {"platform", "worker", "cli", "client", "dataset", "metrics"}
    assert not [name for name in names if name.endswith(("engine.py", "sandbox.py"))]
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
    always = [line for line in needed if "extra ==" not in line]
    names = {re.match(r"[A-Za-z0-9_.-]+", line)[0] for line in always}
    assert {"aiohttp", "fastapi", "orjson", "pydantic", "uvicorn"} <= names
    assert not names & {"typer", "rich", "httpx", "litellm", "sqlalchemy", "pytest"}


def test_the_wheel_holds_all_that_its_modules_import(package, tmp_path):
    wheel = sdk_wheel.sdk_wheel(tmp_path / "sdk")
    with zipfile.ZipFile(wheel.path) as archive:
        archive.extractall(tmp_path / "lib")
    modules = [
        ".".join(path.relative_to(tmp_path / "lib").with_suffix("").parts)
        for path in (tmp_path / "lib/osmosis").rglob("*.py")
        if "integrations" not in path.parts  # agent frameworks are extras
    ]
    code = (
        "import sys, importlib\n"
        "for name in sys.argv[1:]: importlib.import_module(name.removesuffix('.__init__'))\n"
        "print(*{m.__file__ for n, m in sys.modules.items() if n.split('.')[0] == 'osmosis'})"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *modules],
        env={"PYTHONPATH": str(tmp_path / "lib")},
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "osmosis.rubric.own_link" in modules
    assert all(file.startswith(str(tmp_path / "lib")) for file in done.stdout.split())


def test_an_unchanged_sdk_is_not_followed_again(package, tmp_path, monkeypatch):
    first = sdk_wheel.sdk_wheel(tmp_path / "sdk")
    monkeypatch.delattr(sdk_wheel, "needed_modules")
    assert sdk_wheel.sdk_wheel(tmp_path / "sdk") == first


def test_a_change_of_a_module_that_the_sdk_imports_is_another_version(package, tmp_path):
    first = sdk_wheel.sdk_wheel(tmp_path / "sdk")
    (package / "evaluation/limits.py").write_text("# changed\n")
    assert sdk_wheel.sdk_wheel(tmp_path / "sdk").version != first.version


def test_a_change_outside_the_sdk_is_no_other_version(package, tmp_path):
    first = sdk_wheel.sdk_wheel(tmp_path / "sdk")
    (package / "platform/settings.py").write_text("# changed\n")
    assert sdk_wheel.sdk_wheel(tmp_path / "sdk").version == first.version
