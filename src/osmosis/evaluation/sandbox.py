"""The fence around user code: what it may see, write and reach.

An allow-list: the system's programs read-only, what the caller names, an empty ``/tmp``, and no
other process. Homes, ``/var``, ``/run``, the platform's data directory are simply not there.
Chosen once per process, by trying: bubblewrap, then util-linux ``unshare``, then no fence.

The network stays that of the machine: the rollout and the gateway meet on its loopback. With
``network = "loopback"`` user code has one of its own, which bubblewrap alone can make here; what
comes in and out then goes through ``network_door.py``.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from osmosis.wire.errors import RunFailed

Network = Literal["on", "loopback"]
MountKind = Literal["read", "write", "empty", "blank"]

PROBE_TIMEOUT_S = 10.0

SYSTEM_DIRS = (
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix",
    "/sys/devices/system/cpu",
)  # fmt: skip

SYSTEM_FILES = ("/etc/resolv.conf", "/etc/localtime", "/etc/hosts")
"""Often links out of the system directories; their targets are shown too."""

SYSTEM_SECRETS = (
    "/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/ssh", "/etc/ssl/private",
    "/etc/pip.conf", "/etc/uv", "/etc/sudoers", "/etc/sudoers.d", "/etc/krb5.keytab",
    "/etc/kubernetes", "/etc/rancher", "/etc/docker", "/etc/netrc",
)  # fmt: skip
"""Inside the system directories, but nothing for user code; matters most when we run as root."""

PROC_CONTROLS = ("/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs")
"""Switches of the whole machine, which the kernel lets user id 0 turn without any capability."""

DEVICES = ("null", "zero", "full", "random", "urandom", "tty")

TEMPORARY_DIRS = ("/tmp", "/var/tmp")  # noqa: S108  (mounted empty, of the sandbox alone)


@dataclass(frozen=True)
class View:
    """What one process may see. Deeper paths win over the paths that contain them."""

    readable: Sequence[Path] = ()
    writable: Sequence[Path] = ()
    hidden: Sequence[Path] = ()
    cwd: Path | None = None


@dataclass(frozen=True)
class Sandbox:
    """One way of fencing a process in."""

    name: Literal["bwrap", "unshare", "none"]
    program: str = ""
    options: tuple[str, ...] = ()

    @property
    def layers(self) -> int:
        """How many processes of the fence stand above the user's own."""
        return 0 if self.name == "none" else 2

    def describe(self, network: Network = "on") -> str:
        """One sentence for people: what user code is kept from here."""
        if self.name == "none":
            return (
                "none: user code runs with this user's rights, because neither bubblewrap nor "
                "unshare works here; install bubblewrap to fence it in"
            )
        reach = "network of the machine" if network == "on" else "no network but its own loopback"
        return f"{self.name}: own files and processes only, system read-only, {reach}"

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
    ) -> list[str]:
        """``argv`` behind the fence.

        ``env_fd`` holds the environment (see :meth:`environment_file`): with it, the variables
        reach user code only, never the programs that build the fence (``LD_PRELOAD`` there would
        be a way out), nor any command line.
        """
        view = View(tuple(readable), tuple(writable), tuple(hidden), cwd)
        if self.name == "bwrap":
            return self._bubblewrap(argv, view, env_fd, network)
        if network != "on":
            raise _not_enforced(self)
        if self.name == "unshare":
            return self._unshare(argv, view, env_fd)
        return list(argv)

    def environment_file(self, environ: Mapping[str, str]) -> int:
        """An open descriptor that :meth:`wrap` takes as ``env_fd``; in memory, never on disk."""
        if self.name == "bwrap":
            parts = [part for name, value in environ.items() for part in ("--setenv", name, value)]
        else:
            parts = [f"{name}={value}" for name, value in environ.items()]
        if any("\0" in part for part in parts):
            # What follows it would be taken for an instruction to the fence.
            raise RunFailed("rollout_start_failed", "A variable of the run holds a NUL character.")
        descriptor = os.memfd_create("environment")
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(b"".join(os.fsencode(part) + b"\0" for part in parts))
        os.lseek(descriptor, 0, os.SEEK_SET)
        return descriptor

    def _bubblewrap(
        self, argv: Sequence[str], view: View, env_fd: int | None, network: Network
    ) -> list[str]:
        command = [self.program, *self.options, "--unshare-pid", "--unshare-ipc", "--unshare-uts"]
        command += ["--unshare-net"] if network == "loopback" else []
        command += ["--die-with-parent", "--cap-drop", "ALL", "--proc", "/proc", "--dev", "/dev"]
        for path in TEMPORARY_DIRS:
            command += ["--tmpfs", path]
        for path in PROC_CONTROLS:
            command += ["--ro-bind-try", path, path]
        for path, kind in _mounts(view):
            if kind == "empty":
                command += ["--tmpfs", path]
            elif kind == "blank":
                command += ["--ro-bind", "/dev/null", path]
            else:
                command += ["--bind" if kind == "write" else "--ro-bind", path, path]
        command += ["--remount-ro", "/", "--chdir", str(view.cwd or "/")]
        if env_fd is not None:
            command += ["--clearenv", "--args", str(env_fd)]
        return [*command, "--", *argv]

    def _unshare(self, argv: Sequence[str], view: View, env_fd: int | None) -> list[str]:
        options: list[str] = []
        for name in DEVICES:
            options += ["device", name]
        for path in PROC_CONTROLS:
            options += ["control", path]
        for path, kind in _mounts(view):
            options += [kind, path]
        options += ["cwd", str(view.cwd or "/")]
        options += ["env-fd", str(env_fd)] if env_fd is not None else []
        script = str(Path(__file__).with_name("fence.py"))
        return [
            self.program, *self.options, "--mount", "--pid", "--ipc", "--uts", "--fork",
            "--kill-child=KILL", "--propagation", "private",
            sys.executable, "-I", "-S", script, *options, "--", *argv,
        ]  # fmt: skip


@cache
def choose_sandbox() -> Sandbox:
    """The best fence that works on this machine, tried once."""
    holds = ": > /dev/null && test ! -w /usr -a ! -w /proc/sys/kernel/core_pattern"
    for sandbox in usable_sandboxes():
        if _succeeds(sandbox.wrap(["/bin/sh", "-c", holds])):
            return sandbox
    return Sandbox("none")


@cache
def has_own_network(sandbox: Sandbox) -> bool:
    """Whether it can give a process a network with nothing but a loopback, tried once."""
    return sandbox.name == "bwrap" and _succeeds(sandbox.wrap(["/bin/true"], network="loopback"))


def usable_sandboxes() -> list[Sandbox]:
    """Those whose programs are installed, the best first; whether they work is another matter."""
    found: list[Sandbox] = []
    if not sys.platform.startswith("linux"):
        return found
    bubblewrap, unshare = shutil.which("bwrap"), shutil.which("unshare")
    root = os.geteuid() == 0  # may do without a user namespace, where those are forbidden
    if bubblewrap:
        found.append(Sandbox("bwrap", bubblewrap, ("--unshare-user",)))
        found += [Sandbox("bwrap", bubblewrap)] if root else []
    if unshare:
        found.append(Sandbox("unshare", unshare, ("--user", "--map-root-user")))
        found += [Sandbox("unshare", unshare)] if root else []
    return found


def require_network(network: Network, sandbox: Sandbox) -> None:
    """Refuse what cannot be enforced, rather than run with more network than was asked for."""
    if network == "loopback" and not has_own_network(sandbox):
        raise _not_enforced(sandbox)


def _not_enforced(sandbox: Sandbox) -> RunFailed:
    return RunFailed(
        "rollout_start_failed",
        'network = "loopback" in [advanced] cannot be enforced here: it takes bubblewrap, and the '
        f"right to make a network namespace (sandbox: {sandbox.name}).",
        hint='Install bubblewrap on the worker, or set network = "on" to run the rollout with the '
        "machine's network.",
    )


def _succeeds(command: list[str]) -> bool:
    try:
        subprocess.run(
            command,
            capture_output=True,
            timeout=PROBE_TIMEOUT_S,
            stdin=subprocess.DEVNULL,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return True


def _mounts(view: View) -> list[tuple[str, MountKind]]:
    """Everything to mount over an empty root, containing paths first."""
    wanted: dict[str, MountKind] = {path: "read" for path in SYSTEM_DIRS if Path(path).exists()}
    for path in SYSTEM_FILES:
        target = Path(path).resolve()
        if target.is_file():
            wanted[str(target)] = "read"
    shown = [*map(Path, wanted), *view.readable, *view.writable]
    for path in (*map(Path, SYSTEM_SECRETS), *view.hidden):
        # A link cannot be covered; its target is what is meant.
        real = path.resolve()
        if real.exists() and any(real.is_relative_to(one) for one in shown):
            wanted[str(real)] = "empty" if real.is_dir() else "blank"
    for path in view.readable:
        if path.exists():
            wanted[str(path.absolute())] = "read"
    for path in view.writable:
        wanted[str(path.absolute())] = "write"
    return sorted(wanted.items(), key=lambda item: (item[0].count("/"), item[0]))
