"""The fence around user code: what it may see, write and reach.

An allow-list: the system's programs read-only, what the caller names, an empty ``/tmp``, and no
other process. Homes, ``/var``, ``/run``, the platform's data directory are simply not there.
Chosen once per process, by trying: bubblewrap, then util-linux ``unshare``, then no fence.

The network stays that of the machine: the rollout and the gateway meet on its loopback.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Literal

from osmosis.wire.errors import RunFailed

Network = Literal["on", "loopback"]

PROBE_TIMEOUT_S = 10.0

SYSTEM_DIRS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt",
               "/nix", "/sys/devices/system/cpu")  # fmt: skip

SYSTEM_SECRETS = (
    "/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/ssh", "/etc/ssl/private",
    "/etc/pip.conf", "/etc/uv", "/etc/sudoers", "/etc/sudoers.d", "/etc/krb5.keytab",
    "/etc/kubernetes", "/etc/rancher", "/etc/docker", "/etc/netrc",
)  # fmt: skip
"""Inside the system directories, but nothing for user code; matters most when we run as root."""

PROC_CONTROLS = ("/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs")
"""Switches of the whole machine, which the kernel lets user id 0 turn without any capability."""

DEVICES = ("null", "zero", "full", "random", "urandom", "tty")

_ENV_LAUNCHER = """
import os, sys
raw = os.fdopen(int(sys.argv[1]), "rb").read()
environ = dict(item.split(b"=", 1) for item in raw.split(b"\\0") if item)
os.execvpe(sys.argv[2], sys.argv[2:], environ)
"""


@dataclass(frozen=True)
class View:
    """What one process may see. Deeper paths win over the paths that contain them."""

    readable: Sequence[Path] = ()
    writable: Sequence[Path] = ()
    hidden: Sequence[Path] = ()
    network: Network = "on"
    cwd: Path | None = None


@dataclass(frozen=True)
class Sandbox:
    """One way of fencing a process in. ``layers`` processes of ours stand above the user's own."""

    name: Literal["bwrap", "unshare", "none"]
    program: str = ""
    options: tuple[str, ...] = field(default=())

    @property
    def layers(self) -> int:
        return 0 if self.name == "none" else 2

    def describe(self) -> str:
        """One sentence for people: what user code is kept from here."""
        if self.name == "none":
            return (
                "none: user code runs with this user's rights, because neither bubblewrap nor "
                "unshare works here; install bubblewrap to fence it in"
            )
        return (
            f"{self.name}: own files and processes only, system read-only, network of the machine"
        )

    def wrap(
        self,
        argv: Sequence[str],
        *,
        readable: Iterable[Path] = (),
        writable: Iterable[Path] = (),
        hidden: Iterable[Path] = (),
        network: Network = "on",
        cwd: Path | None = None,
        env_fd: int | None = None,
        python: Path | None = None,
    ) -> list[str]:
        """``argv`` behind the fence.

        ``env_fd`` holds the environment (see :func:`environment_file`): with it, the variables
        reach user code only, never the programs that build the fence (``LD_PRELOAD`` there would
        be a way out), nor any command line. ``unshare`` and ``none`` need ``python`` for that.
        """
        require_network(network, self)
        view = View(tuple(readable), tuple(writable), tuple(hidden), network, cwd)
        if self.name == "bwrap":
            return self._bubblewrap(argv, view, env_fd)
        if env_fd is not None:
            launcher = str(python or sys.executable)
            argv = [launcher, "-I", "-S", "-c", _ENV_LAUNCHER, str(env_fd), *argv]
        if self.name == "unshare":
            return self._unshare(argv, view)
        return list(argv)

    def _bubblewrap(self, argv: Sequence[str], view: View, env_fd: int | None) -> list[str]:
        command = [self.program, *self.options, "--unshare-pid", "--unshare-ipc", "--unshare-uts"]
        command += ["--die-with-parent", "--cap-drop", "ALL", "--hostname", "rollout"]
        command += ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/var/tmp"]
        for part in PROC_CONTROLS:
            command += ["--ro-bind-try", part, part]
        for path, kind in _mounts(view):
            if kind == "empty":
                command += ["--tmpfs", path]
            elif kind == "blank":
                command += ["--ro-bind", "/dev/null", path]
            else:
                command += ["--bind" if kind == "write" else "--ro-bind", path, path]
        command += ["--remount-ro", "/"]
        if view.cwd is not None:
            command += ["--chdir", str(view.cwd)]
        if env_fd is not None:
            command += ["--clearenv", "--args", str(env_fd)]
        return [*command, "--", *argv]

    def _unshare(self, argv: Sequence[str], view: View) -> list[str]:
        script = _unshare_script(view)
        return [
            self.program, *self.options, "--mount", "--pid", "--ipc", "--uts", "--fork",
            "--kill-child=KILL", "--propagation", "private", "/bin/sh", "-c", script, "sh", *argv,
        ]  # fmt: skip

    def environment_file(self, environ: Mapping[str, str]) -> int:
        """An open descriptor that :meth:`wrap` takes as ``env_fd``; in memory, never on disk."""
        if self.name == "bwrap":
            parts = [part for name, value in environ.items() for part in ("--setenv", name, value)]
        else:
            parts = [f"{name}={value}" for name, value in environ.items()]
        descriptor = os.memfd_create("environment")
        os.write(descriptor, b"".join(os.fsencode(part) + b"\0" for part in parts))
        os.lseek(descriptor, 0, os.SEEK_SET)
        return descriptor


@cache
def choose_sandbox() -> Sandbox:
    """The best fence that works on this machine, tried once."""
    for sandbox in _options():
        argv = sandbox.wrap(
            [
                "/bin/sh",
                "-c",
                ": > /dev/null && test ! -w /usr -a ! -w /proc/sys/kernel/core_pattern",
            ]
        )
        try:
            done = subprocess.run(
                argv, capture_output=True, timeout=PROBE_TIMEOUT_S, stdin=subprocess.DEVNULL
            )
        except (OSError, subprocess.SubprocessError):
            continue
        if done.returncode == 0:
            return sandbox
    return Sandbox("none")


def require_network(network: Network, sandbox: Sandbox) -> None:
    """Refuse what cannot be enforced, rather than run with more network than was asked for."""
    if network == "loopback":
        raise RunFailed(
            "rollout_start_failed",
            'network = "loopback" in [advanced] cannot be enforced here yet '
            f"(sandbox: {sandbox.name}).",
            hint='Remove it, or set network = "on", to run the rollout with the machine\'s '
            "network.",
        )


def _options() -> list[Sandbox]:
    found: list[Sandbox] = []
    if not sys.platform.startswith("linux"):
        return found
    bubblewrap, unshare = shutil.which("bwrap"), shutil.which("unshare")
    if bubblewrap:
        found.append(Sandbox("bwrap", bubblewrap, ("--unshare-user",)))
        if os.geteuid() == 0:
            found.append(Sandbox("bwrap", bubblewrap))
    if unshare and shutil.which("setpriv"):
        found.append(Sandbox("unshare", unshare, ("--user", "--map-root-user")))
        if os.geteuid() == 0:
            found.append(Sandbox("unshare", unshare))
    return found


def _mounts(view: View) -> list[tuple[str, Literal["read", "write", "empty", "blank"]]]:
    """Everything to mount over an empty root, containing paths first."""
    wanted: dict[str, Literal["read", "write", "empty", "blank"]] = {}
    for path in SYSTEM_DIRS:
        if os.path.exists(path):
            wanted[path] = "read"
    for target in ("/etc/resolv.conf", "/etc/localtime"):
        real = os.path.realpath(target)  # resolv.conf is often a link into /run
        if os.path.isfile(real):
            wanted[real] = "read"
    roots = [*wanted, *(os.path.abspath(path) for path in (*view.readable, *view.writable))]
    for path in (*SYSTEM_SECRETS, *(os.path.abspath(path) for path in view.hidden)):
        if any(_is_inside(path, root) for root in roots) and os.path.lexists(path):
            wanted[path] = "empty" if os.path.isdir(path) else "blank"
    for path in view.readable:
        if os.path.exists(path):
            wanted[os.path.abspath(path)] = "read"
    for path in view.writable:
        wanted[os.path.abspath(path)] = "write"
    # bwrap cannot mount over a link; its target is what is meant.
    real = {os.path.realpath(path) if kind in ("empty", "blank") else path: kind
            for path, kind in wanted.items()}  # fmt: skip
    return sorted(real.items(), key=lambda item: (item[0].count("/"), item[0]))


def _is_inside(path: str, root: str) -> bool:
    return path.startswith(root.rstrip("/") + "/")


_UNSHARE_PROLOGUE = """
set -e
read_only() {
    mount -o remount,bind,ro,nosuid "$1" 2>/dev/null ||
    mount -o remount,bind,ro,nosuid,nodev "$1" 2>/dev/null ||
    mount -o remount,bind,ro,nosuid,nodev,noexec "$1"
}
bind() {
    if [ -d "$1" ]; then mkdir -p "$2"
    else [ -e "$2" ] || { mkdir -p "${2%/*}"; : > "$2"; }
    fi
    mount --rbind "$1" "$2"
}
mount -t tmpfs -o mode=0755 tmpfs /tmp
mkdir -p /tmp/.old /tmp/proc /tmp/dev/shm /tmp/tmp /tmp/var/tmp
"""

_UNSHARE_OWN_MOUNTS = """
mount -t proc proc /proc
for part in sys sysrq-trigger irq bus fs; do
    [ ! -e /proc/$part ] || { mount --bind /proc/$part /proc/$part; read_only /proc/$part; }
done
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
mount -t tmpfs -o mode=1777 tmpfs /tmp
mount -t tmpfs -o mode=1777 tmpfs /var/tmp
"""


def _unshare_script(view: View) -> str:
    """A shell script that builds a root of its own, gives up every capability, runs ``"$@"``.

    The new root begins over /tmp, so the caller's paths are bound after the switch, from the old
    root; the system directories before it, because the script needs their programs.
    """
    mounts = _mounts(view)
    system = [path for path, _ in mounts if path in SYSTEM_DIRS]
    lines = [_UNSHARE_PROLOGUE]
    lines += [f"bind {path} /tmp{path}" for path in system]
    lines += [f"bind /dev/{name} /tmp/dev/{name}" for name in DEVICES]
    lines += ["cd /tmp", "pivot_root . .old", "cd /"]
    lines += [_UNSHARE_OWN_MOUNTS]
    for path, kind in mounts:
        quoted = shlex.quote(path)
        if kind == "empty":
            lines += [f"mkdir -p {quoted}", f"mount -t tmpfs -o mode=0755 tmpfs {quoted}"]
        elif kind == "blank":
            lines += [f"mount --bind /dev/null {quoted}"]
        else:
            if path not in SYSTEM_DIRS:
                lines += [f"bind {shlex.quote('/.old' + path)} {quoted}"]
            if kind == "read":
                lines += [f"read_only {quoted}"]
    lines += ["umount -l /.old", "rmdir /.old", "mount -o remount,ro /"]
    lines += [f"cd {shlex.quote(str(view.cwd or '/'))}", "set +e"]
    # Not `exec`: the shell stays as the first process, which must collect orphans.
    lines += [
        'setpriv --no-new-privs --inh-caps=-all --bounding-set=-all -- "$@"',
        "exit $?",
    ]
    return "\n".join(lines)
