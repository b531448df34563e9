import os
import subprocess
import time
from pathlib import Path

import pytest

from osmosis.evaluation.sandbox import (
    Sandbox,
    choose_sandbox,
    has_own_network,
    require_network,
    usable_sandboxes,
)
from osmosis.wire.errors import RunFailed


def works(sandbox):
    done = subprocess.run(sandbox.wrap(["/bin/true"]), capture_output=True, check=False)
    return done.returncode == 0


SANDBOXES = [one for one in usable_sandboxes() if works(one)]


@pytest.fixture(params=SANDBOXES, ids=lambda one: "-".join([one.name, *one.options]))
def sandbox(request):
    return request.param


@pytest.fixture
def places(tmp_path):
    for name in ("code", "scratch", "private", "private/environment"):
        (tmp_path / name).mkdir()
    (tmp_path / "code/.env").write_text("KEY=hidden")
    (tmp_path / "code/main.py").write_text("visible")
    (tmp_path / "private/master.key").write_text("hidden")
    (tmp_path / "private/environment/python").write_text("visible")
    return tmp_path


def run(sandbox, places, script, env=None):
    descriptor = sandbox.environment_file(env or {"PATH": "/usr/bin:/bin"})
    try:
        return subprocess.run(
            sandbox.wrap(
                ["/bin/sh", "-c", script],
                readable=[places / "code", places / "private/environment"],
                writable=[places / "scratch"],
                hidden=[places / "private", places / "code/.env"],
                cwd=places / "code",
                env_fd=descriptor,
            ),
            capture_output=True,
            text=True,
            env={"PATH": "/usr/bin:/bin"},
            pass_fds=[descriptor],
            check=False,
        )
    finally:
        os.close(descriptor)


def test_user_code_sees_its_own_files_and_no_others(sandbox, places):
    home = Path.home()
    script = f"""
        cat main.py {places}/private/environment/python
        cat .env {places}/private/master.key
        cat /etc/shadow /etc/pip.conf
        ls -A {home} /home /root /var/lib /run /srv /mnt
        test -e {Path(__file__)} && echo the platform
    """
    done = run(sandbox, places, script)
    assert done.stdout == "visiblevisible"


def test_user_code_writes_its_scratch_and_nothing_else(sandbox, places):
    script = f"""
        echo x > {places}/scratch/file && echo scratch
        echo x > /tmp/file && echo x > {places}/lost && echo tmp
        for path in {places}/code/x {places}/private/environment/x /x /usr/x /etc/x \
            /proc/sys/kernel/domainname /dev/x
        do (echo x > $path) 2>/dev/null && echo $path; done
        umount /tmp /usr {places}/code; mount -o remount,rw /usr
        true
    """
    done = run(sandbox, places, script)
    assert [line for line in done.stdout.split() if line != "/dev/x"] == ["scratch", "tmp"]
    assert (places / "scratch/file").read_text() == "x\n"
    assert not Path("/dev/x").exists() and not (places / "lost").exists()


def test_user_code_sees_no_other_process(sandbox, places):
    done = run(sandbox, places, "ls -d /proc/[0-9]* | wc -l; cat /proc/*/environ | tr '\\0' '\\n'")
    assert int(done.stdout.split()[0]) <= 4
    assert "PYTEST_CURRENT_TEST" not in done.stdout


def test_user_code_has_no_capability(sandbox, places):
    done = run(sandbox, places, "grep -E 'CapPrm|CapEff|NoNewPrivs' /proc/self/status")
    assert done.stdout.split() == [
        "CapPrm:", "0000000000000000", "CapEff:", "0000000000000000", "NoNewPrivs:", "1",
    ]  # fmt: skip


def test_variables_reach_user_code_but_no_command_line_and_not_the_fence(sandbox, places):
    library = places / "code/evil.so"
    env = {"PATH": "/usr/bin:/bin", "KEY": "c4nary", "LD_PRELOAD": str(library), "ODD": "a=b\nc"}
    done = run(sandbox, places, 'echo "$KEY $ODD"', env)
    assert done.stdout == "c4nary a=b\nc\n"
    # The loader complains once for each program that got the variable: the user's own, alone.
    assert done.stderr.count("evil.so") <= 2
    descriptor = sandbox.environment_file(env)
    os.close(descriptor)
    argv = sandbox.wrap(["/bin/true"], env_fd=descriptor)
    assert not any("c4nary" in part for part in argv)


def test_a_variable_cannot_speak_to_the_fence(sandbox):
    with pytest.raises(RunFailed, match="NUL"):
        sandbox.environment_file({"KEY": "x\0--bind\0/\0/tmp"})


def test_exit_codes_and_signals_come_through(sandbox, places):
    assert run(sandbox, places, "exit 3").returncode == 3
    assert run(sandbox, places, "kill -SEGV $$").returncode == 139


def test_killing_the_fence_kills_everything_inside(sandbox, places):
    script = "setsid sleep 12345 & sleep 12345 & echo ready; wait"
    child = subprocess.Popen(
        sandbox.wrap(["/bin/sh", "-c", script]), stdout=subprocess.PIPE, start_new_session=True
    )
    assert child.stdout.readline() == b"ready\n"
    child.kill()
    child.wait()
    # The last holder of the pipe is gone when it ends.
    started = time.monotonic()
    assert child.stdout.read() == b""
    child.stdout.close()
    assert time.monotonic() - started < 10


def test_a_network_of_its_own_is_enforced_or_refused(sandbox):
    if not has_own_network(sandbox):
        with pytest.raises(RunFailed, match="loopback"):
            require_network("loopback", sandbox)
        if sandbox.name != "bwrap":
            with pytest.raises(RunFailed, match="loopback"):
                sandbox.wrap(["/bin/true"], network="loopback")
        return
    require_network("loopback", sandbox)
    command = ["/bin/sh", "-c", "cat /proc/net/dev"]
    done = subprocess.run(
        sandbox.wrap(command, network="loopback"), capture_output=True, text=True, check=True
    )
    interfaces = [line.split(":")[0].strip() for line in done.stdout.splitlines() if ":" in line]
    assert interfaces == ["lo"]


@pytest.mark.parametrize("name", ["unshare", "none"])
def test_no_other_fence_is_taken_for_one_with_its_own_network(name):
    with pytest.raises(RunFailed, match="bubblewrap") as refused:
        require_network("loopback", Sandbox(name, "/bin/true"))
    assert 'network = "on"' in refused.value.hint


def test_bubblewrap_that_may_make_no_network_is_no_reason_to_run_with_one():
    forbidden = Sandbox("bwrap", "/bin/false")
    assert not has_own_network(forbidden)
    with pytest.raises(RunFailed, match="right to make a network namespace"):
        require_network("loopback", forbidden)


def test_the_best_one_that_works_is_chosen_and_described():
    chosen = choose_sandbox()
    assert chosen == (SANDBOXES[0] if SANDBOXES else Sandbox("none"))
    assert chosen.describe().startswith(chosen.name)
    assert "install bubblewrap" in Sandbox("none").describe()
    assert Sandbox("bwrap").describe().endswith("network of the machine")
    assert Sandbox("bwrap").describe("loopback").endswith("no network but its own loopback")
