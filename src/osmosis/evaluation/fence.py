"""Builds the fence from inside, where there is no bubblewrap: run by ``unshare``, as a script.

    unshare --mount --pid ... python -I -S fence.py [OPTION VALUE]... -- ARGV...

Options, in the order of mounting: read PATH, write PATH, empty PATH, blank PATH (of containing
paths before those inside), device NAME, control PATH, cwd PATH, env-fd NUMBER.

It makes an empty root, binds into it what the options name, leaves the old root, gives up every
capability for good, and runs ARGV as its child. It stays as the first process of the namespace,
which must collect orphans. Only the standard library, and nothing imported late: the library
itself may be out of sight afterwards. Modules that are slow to import (json, re) are not used.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys

MS_RDONLY, MS_NOSUID, MS_REMOUNT, MS_BIND, MS_REC = 1, 2, 32, 4096, 16384
MNT_DETACH = 2
PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 24, 38
CAPABILITY_VERSION_3 = 0x20080522
MOUNT_SETATTR = 442
AT_FDCWD, AT_RECURSIVE = -100, 0x8000
PIVOT_ROOT = {"x86_64": 155, "aarch64": 41, "riscv64": 41, "ppc64le": 203, "s390x": 217}

NEW_ROOT = "/tmp"  # noqa: S108  (any directory that exists; it is covered in our namespace only)
OLD = "/.old"

_libc = ctypes.CDLL(None, use_errno=True)


def main(arguments: list[str]) -> int:
    """Never returns in the child."""
    end = arguments.index("--")
    argv = arguments[end + 1 :]
    options = list(zip(arguments[0:end:2], arguments[1:end:2], strict=True))
    build_root(options)
    last = dict(options)
    os.chdir(last["cwd"])
    drop_capabilities()
    environ = read_environment(int(last["env-fd"]) if "env-fd" in last else None)
    child = os.fork()
    if child == 0:
        try:
            os.execvpe(argv[0], argv, environ)  # noqa: S606
        except OSError as error:
            sys.stderr.write(f"{argv[0]}: {error.strerror}\n")
            sys.stderr.flush()
            os._exit(127)
    while True:
        pid, status = os.wait()
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def build_root(options: list[tuple[str, str]]) -> None:
    mount("tmpfs", NEW_ROOT, "tmpfs", 0, "mode=0755")
    os.mkdir(NEW_ROOT + OLD)
    os.chdir(NEW_ROOT)
    call(_libc.syscall(PIVOT_ROOT[os.uname().machine], b".", OLD[1:].encode()), "pivot_root")
    os.chdir("/")
    for path in ("/proc", "/dev", "/dev/shm", "/tmp", "/var", "/var/tmp"):  # noqa: S108
        os.mkdir(path)
    mount("proc", "/proc", "proc", 0, None)
    for target, name in (("self/fd", "fd"), ("self/fd/0", "stdin"), ("self/fd/1", "stdout"),
                         ("self/fd/2", "stderr")):  # fmt: skip
        os.symlink(f"/proc/{target}", f"/dev/{name}")
    for path in ("/dev/shm", "/tmp", "/var/tmp"):  # noqa: S108
        mount("tmpfs", path, "tmpfs", 0, "mode=1777")
    for kind, value in options:
        add(kind, value)
    call(_libc.umount2(OLD.encode(), MNT_DETACH), "umount2")
    os.rmdir(OLD)
    read_only("/", recursive=False)


def add(kind: str, value: str) -> None:
    if kind == "device":
        bind(f"{OLD}/dev/{value}", f"/dev/{value}")
    elif kind == "control" and os.path.exists(value):
        mount(value, value, None, MS_BIND, None)
        read_only(value)
    elif kind == "empty":
        os.makedirs(value, exist_ok=True)
        mount("tmpfs", value, "tmpfs", 0, "mode=0755")
    elif kind == "blank":
        mount("/dev/null", value, None, MS_BIND, None)
    elif kind in ("read", "write"):
        bind(OLD + value, value)
        if kind == "read":
            read_only(value)


def bind(source: str, target: str) -> None:
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
    elif not os.path.exists(target):
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))
    mount(source, target, None, MS_BIND | MS_REC, None)


def read_only(path: str, *, recursive: bool = True) -> None:
    """With everything mounted below it, where the kernel can do that in one step (5.12)."""
    attributes = (ctypes.c_uint64 * 4)(MS_RDONLY, 0, 0, 0)
    done = _libc.syscall(
        MOUNT_SETATTR,
        AT_FDCWD,
        path.encode(),
        AT_RECURSIVE if recursive else 0,
        ctypes.byref(attributes),
        ctypes.c_size_t(ctypes.sizeof(attributes)),
    )
    if done != 0 and ctypes.get_errno() != errno.ENOSYS:
        call(done, f"mount_setattr {path}")
    if done != 0:
        # Flags that came with the mount are locked and must be repeated.
        locked = os.statvfs(path).f_flag & (MS_NOSUID | 4 | 8)
        mount(None, path, None, MS_REMOUNT | MS_BIND | MS_RDONLY | locked, None)


def drop_capabilities() -> None:
    """All of them, also for whatever is executed later."""
    call(_libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    capability = 0
    while _libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) == 0:
        capability += 1
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    nothing = (ctypes.c_uint32 * 6)()
    call(_libc.capset(ctypes.byref(header), ctypes.byref(nothing)), "capset")


def read_environment(descriptor: int | None) -> dict[bytes, bytes]:
    if descriptor is None:
        return dict(os.environb)
    with os.fdopen(descriptor, "rb") as file:
        items = file.read().split(b"\0")
    environ: dict[bytes, bytes] = {}
    for item in items:
        name, equals, value = item.partition(b"=")
        if equals:
            environ[name] = value
    return environ


def mount(source: str | None, target: str, kind: str | None, flags: int, data: str | None) -> None:
    done = _libc.mount(
        source.encode() if source else None,
        target.encode(),
        kind.encode() if kind else None,
        ctypes.c_ulong(flags),
        data.encode() if data else None,
    )
    call(done, f"mount {target}")


def call(done: int, what: str) -> None:
    if done != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
