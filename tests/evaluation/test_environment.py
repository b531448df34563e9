import asyncio
import json
import os
import shutil
import stat
import subprocess
import time
from pathlib import Path

import pytest

from osmosis.evaluation import sdk_wheel
from osmosis.evaluation.environment import MARKER, prepare_environment
from osmosis.evaluation.sandbox import Sandbox, choose_sandbox
from osmosis.wire.errors import RunFailed
from osmosis.workspace.advanced import AdvancedSection
from tests.evaluation.rollout_lab import NO_INDEX, Lab, Recorder, write_wheel


@pytest.fixture(scope="session")
def shared_cache(tmp_path_factory):
    """One workspace's cache for all tests here: packages are fetched once."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def frozen_sdk(tmp_path_factory):
    """The SDK's key is its sources; nobody may edit them while a test compares two keys."""
    copy = tmp_path_factory.mktemp("sdk") / "osmosis"
    shutil.copytree(sdk_wheel.PACKAGE_DIR, copy, ignore=shutil.ignore_patterns("__pycache__"))
    return copy


@pytest.fixture
def lab(tmp_path, shared_cache, frozen_sdk, monkeypatch):
    monkeypatch.setattr(sdk_wheel, "PACKAGE_DIR", frozen_sdk)
    return Lab(tmp_path, shared_cache)


@pytest.fixture
def sink():
    return Recorder()


def run_in(environment, code):
    done = subprocess.run(
        [environment.python, "-c", code], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


async def failure(lab, sink, **changes):
    with pytest.raises(RunFailed) as caught:
        await prepare_environment(lab.plan(**changes), sink)
    return caught.value


HELPER = 'def describe():\n    return "helper", "1.0", {"helper.py": "VALUE = %r\\n"}\n'


async def test_a_rollout_gets_the_sdk_that_is_running_here_and_keeps_it(lab, sink):
    lab.pyproject("osmosis-platform[nothing]>=7,<8", more='requires-python = ">=3.11"\n')
    built = await prepare_environment(lab.plan(), sink)
    assert not built.cached
    assert built.sdk.startswith("osmosis-platform ") and "+sdk." in built.sdk
    place = run_in(built, "import osmosis.rollout.errors, osmosis; print(osmosis.__file__)")
    assert place.startswith(str(built.directory))
    assert run_in(
        built, "import importlib.metadata as m; print(m.version('osmosis-platform'))"
    ) in (built.sdk)
    assert list(built.directory.glob("lib/*/site-packages/pydantic/__pycache__/*.pyc"))
    assert any(step == "install" and "Resolved" in text for _, step, text in sink.logs)

    for file in (lab.cache / "resolutions").glob("*.json"):
        assert str(lab.cache) not in file.read_text(), (
            "a resolution outlives the build it came from"
        )

    again = Recorder()
    started = time.perf_counter()
    warm = await prepare_environment(lab.plan(), again)
    seconds = time.perf_counter() - started
    assert warm.cached and warm.directory == built.directory
    assert len(again.logs) == 1, "a warm start calls nothing"
    assert seconds < 0.5  # 20 ms on an idle machine


async def test_the_server_extra_of_a_moved_rollout_brings_no_platform(lab, sink):
    """`osmosis-ai[server]` becomes `osmosis-platform[server]`; a rollout needs only the SDK."""
    lab.pyproject("osmosis-platform[server]")
    environment = await prepare_environment(lab.plan(), sink)
    assert "+sdk." in environment.sdk
    assert not list(environment.directory.glob("lib/*/site-packages/litellm"))


async def test_a_source_for_the_sdk_that_is_not_here_is_ignored(lab, sink):
    source = 'osmosis-platform = { path = "../../../../osmosis", editable = true }'
    lab.pyproject("osmosis-platform", more=f"[tool.uv.sources]\n{source}\n")
    environment = await prepare_environment(lab.plan(), sink)
    assert "+sdk." in environment.sdk
    assert environment.cached, "the same packages are the same environment"


async def test_a_built_environment_is_read_only_and_complete(lab, sink):
    lab.pyproject()
    environment = await prepare_environment(lab.plan(), sink)
    for folder, _, files in os.walk(environment.directory):
        for path in (Path(folder), *(Path(folder, name) for name in files)):
            mode = path.lstat().st_mode
            assert stat.S_ISLNK(mode) or not mode & 0o222, path
    marker = json.loads((environment.directory / MARKER).read_text())
    assert marker["key"] == environment.key == environment.directory.name
    assert environment.sdk is None


async def test_the_resolvers_own_words_are_in_the_error(lab, sink):
    lab.pyproject("no-such-package-anywhere>=3", more=NO_INDEX)
    error = await failure(lab, sink)
    assert error.kind == "dependencies_failed"
    assert "no-such-package-anywhere" in error.message and "uv says" in error.message
    assert "rollouts/demo/pyproject.toml" in error.hint
    assert "no-such-package-anywhere" in sink.text


async def test_packages_of_the_workspace_are_built_into_it_and_follow_their_commit(lab, sink):
    source = lab.library(HELPER % "first")
    lab.pyproject("helper", more=source + NO_INDEX)
    first = await prepare_environment(lab.plan(), sink)
    assert run_in(first, "import helper; print(helper.VALUE)") == "first"
    # Only a file that no cache of a build looks at changes, and its time does not.
    backend = lab.code / "libs/helper/backend.py"
    before = backend.stat()
    backend.write_text(backend.read_text().replace("first", "other"))
    os.utime(backend, ns=(before.st_atime_ns, before.st_mtime_ns))
    second = await prepare_environment(lab.plan(), sink)
    assert run_in(second, "import helper; print(helper.VALUE)") == "other"
    assert run_in(first, "import helper; print(helper.VALUE)") == "first"
    backend.write_text(backend.read_text().replace("other", "first"))
    os.utime(backend, ns=(before.st_atime_ns, before.st_mtime_ns))
    third = await prepare_environment(lab.plan(), sink)
    assert third.cached and third.directory == first.directory


async def test_the_rollouts_own_code_is_not_in_the_environment(lab, sink):
    lab.pyproject(more='[build-system]\nrequires = []\nbuild-backend = "nope"\n')
    (lab.rollout / "demo.py").write_text("VALUE = 1\n")
    environment = await prepare_environment(lab.plan(), sink)
    assert not list(environment.directory.glob("lib/*/site-packages/demo*"))


LOOKS_FOR_SECRETS = """
import os
CANARY = "c4n4ry"
def describe():
    found = [f"env {n}" for n, v in os.environ.items() if CANARY in v]
    for folder in %(folders)r:
        for place, _, names in os.walk(folder):
            found += [os.path.join(place, name) for name in names if "canary" in name]
    for pid in os.listdir("/proc"):
        for name in ("environ", "cmdline"):
            try:
                with open(f"/proc/{pid}/{name}", "rb") as file:
                    if CANARY.encode() in file.read():
                        found.append(f"/proc/{pid}/{name}")
            except OSError:
                pass
    try:
        with open(%(write)r, "w") as file:
            file.write("x")
        found.append("could write")
    except OSError:
        pass
    return "helper", "1.0", {"helper.py": f"FOUND = {found!r}"}
"""


@pytest.fixture
def other_process():
    """Of this user, with something to hide."""
    child = subprocess.Popen(["sleep", "60"], env={"TOKEN": "c4n4ry", "PATH": os.defpath})
    yield child
    child.kill()
    child.wait()


@pytest.mark.skipif(choose_sandbox().name == "none", reason="no sandbox works here")
@pytest.mark.usefixtures("other_process")
async def test_a_build_that_looks_for_secrets_finds_none(lab, sink, monkeypatch):
    monkeypatch.setenv("SERVER_TOKEN", "c4n4ry")
    (lab.private / "canary").write_text("c4n4ry")
    (lab.root / "work").mkdir()
    (lab.root / "work/canary").write_text("c4n4ry")
    folders = [str(lab.root), str(Path.home()), "/tmp", "/var", "/run", "/srv", "/mnt"]
    code = LOOKS_FOR_SECRETS % {"folders": folders, "write": str(lab.cache / "envs/written")}
    lab.pyproject("helper", more=lab.library(code) + NO_INDEX)
    plan = lab.plan(secrets={"KEY": "c4n4ry"}, env={"SETTING": "c4n4ry"})
    environment = await prepare_environment(plan, sink)
    assert run_in(environment, "import helper; print(helper.FOUND)") == "[]"
    assert not (lab.cache / "envs/written").exists()


SWAPS_FOR_A_LINK = """
import os, glob
def describe():
    for env in glob.glob(os.path.join(os.environ["UV_CACHE_DIR"], "../builds/*/env")):
        os.rename(env, env + ".old")
        os.symlink(%(target)r, env)
    return "helper", "1.0", {"helper.py": ""}
"""


async def test_a_build_that_swaps_the_environment_for_a_link_gets_nothing(lab, sink):
    code = SWAPS_FOR_A_LINK % {"target": str(lab.private)}
    lab.pyproject("helper", more=lab.library(code) + NO_INDEX)
    await failure(lab, sink)
    assert lab.private.is_dir() and list(lab.private.iterdir()) == []


async def test_a_torn_environment_is_built_again(lab, sink):
    lab.pyproject(more='description = "torn"\n')
    first = await prepare_environment(lab.plan(), sink)
    first.directory.chmod(0o755)
    (first.directory / MARKER).unlink()
    (first.directory / "rubbish").write_text("x")
    first.directory.chmod(0o555)
    second = await prepare_environment(lab.plan(), sink)
    assert not second.cached and second.directory == first.directory
    assert not (second.directory / "rubbish").exists()
    assert list((lab.cache / "uv/builds").iterdir()) == []


async def test_what_a_killed_build_left_is_swept_away(lab, sink):
    old, young = lab.cache / "uv/builds/old", lab.cache / "uv/builds/young"
    for path in (old, young):
        (path / "env").mkdir(parents=True)
        (path / "env").chmod(0o555)
    os.utime(old, (1, 1))
    lab.pyproject("helper", more=lab.library(HELPER % "swept") + NO_INDEX)
    await prepare_environment(lab.plan(), sink)
    assert not old.exists() and young.exists()
    shutil.rmtree(young)


async def test_two_runs_at_once_build_one_environment(lab, sink):
    lab.pyproject("helper", more=lab.library(HELPER % "once") + NO_INDEX)
    both = await asyncio.gather(
        prepare_environment(lab.plan(), sink), prepare_environment(lab.plan(), sink)
    )
    assert sorted(one.cached for one in both) == [False, True]
    assert both[0].directory == both[1].directory


async def test_an_old_resolution_is_made_anew_and_its_environment_kept(lab, sink):
    lab.pyproject("helper", more=lab.library(HELPER % "old") + NO_INDEX)
    first = await prepare_environment(lab.plan(), sink)
    for file in (lab.cache / "resolutions").glob("*.json"):
        kept = json.loads(file.read_text())
        file.write_text(json.dumps(kept | {"resolved_at": time.time() - 25 * 3600}))
    again = Recorder()
    second = await prepare_environment(lab.plan(), again)
    assert "Resolved" in again.text
    assert second.cached and second.directory == first.directory


async def test_an_environment_outlives_the_place_its_packages_came_from(lab, sink, monkeypatch):
    wheels = lab.root / "machine-wheels"
    write_wheel(wheels, "fleeting", "1.0")
    monkeypatch.setenv("UV_FIND_LINKS", str(wheels))
    lab.pyproject("fleeting", more=NO_INDEX)
    first = await prepare_environment(lab.plan(), sink)
    for file in (lab.cache / "resolutions").glob("*.json"):
        kept = json.loads(file.read_text())
        file.write_text(json.dumps(kept | {"resolved_at": 1.0}))
    shutil.rmtree(wheels)
    again = Recorder()
    second = await prepare_environment(lab.plan(), again)
    assert second.cached and second.directory == first.directory
    assert "could not be resolved anew" in again.text


async def test_a_lock_that_fits_is_used_and_one_that_does_not_is_named(lab, sink):
    lab.pyproject("helper", more=lab.library(HELPER % "locked") + NO_INDEX)
    lab.lock()
    locked = await prepare_environment(lab.plan(), sink)
    assert json.loads((locked.directory / MARKER).read_text())["locked"] is True
    lab.library('def describe():\n    return "second", "1.0", {"second.py": ""}\n', "second")
    sources = 'helper = { path = "../../libs/helper" }\nsecond = { path = "../../libs/second" }\n'
    lab.pyproject("helper", "second", more=f"[tool.uv.sources]\n{sources}{NO_INDEX}")
    again = await prepare_environment(lab.plan(), sink)
    assert json.loads((again.directory / MARKER).read_text())["locked"] is False
    assert ("warning", "install") in [entry[:2] for entry in sink.logs]
    assert "uv lock" in sink.text


async def test_the_vendors_sdk_of_the_callback_dialect_is_refused_before_it_is_installed(lab, sink):
    write_wheel(lab.code / "wheels", "osmosis_ai", "0.3.2")
    lab.pyproject("osmosis-ai", more=NO_INDEX + 'find-links = ["../../wheels"]\n')
    error = await failure(lab, sink)
    assert error.kind == "rollout_protocol_unsupported"
    assert "osmosis-ai 0.3.2" in error.message
    assert "osmosis-ai>=0.3.3" in error.hint
    assert "Installed" not in sink.text


async def test_the_vendors_sdk_of_the_polling_dialect_is_named(lab, sink):
    write_wheel(lab.code / "wheels", "osmosis_ai", "0.3.8")
    lab.pyproject("osmosis-ai", more=NO_INDEX + 'find-links = ["../../wheels"]\n')
    assert (await prepare_environment(lab.plan(), sink)).sdk == "osmosis-ai 0.3.8"


async def test_a_source_outside_the_workspace_is_refused(lab, sink):
    lab.pyproject("helper", more='[tool.uv.sources]\nhelper = { path = "../../../elsewhere" }\n')
    error = await failure(lab, sink)
    assert "helper" in error.message and "not in the workspace" in error.message


async def test_what_is_missing_is_named_with_what_lies_near(lab, sink):
    error = await failure(lab, sink, rollout="dmo")
    assert error.kind == "entrypoint_missing" and "Did you mean 'demo'?" in error.message
    error = await failure(lab, sink, entrypoint="mian.py")
    assert error.kind == "entrypoint_missing" and "Did you mean 'main.py'?" in error.message
    error = await failure(lab, sink, entrypoint="../../../x.py")
    assert "outside" in error.message
    error = await failure(lab, sink)
    assert "no pyproject.toml" in error.message and "osmosis rollout init demo" in error.hint


async def test_a_python_that_is_not_here_is_named(lab, sink):
    lab.pyproject(more='requires-python = ">=3.99"\n')
    error = await failure(lab, sink)
    assert error.kind == "interpreter_missing" and ">=3.99" in error.message


async def test_a_network_that_cannot_be_fenced_off_is_refused(lab, sink, monkeypatch):
    monkeypatch.setattr("osmosis.evaluation.environment.choose_sandbox", lambda: Sandbox("none"))
    lab.pyproject()
    error = await failure(lab, sink, advanced=AdvancedSection(network="loopback"))
    assert "loopback" in error.message
