"""A nursery: one process that imports what a shard needs, and forks a shard whenever asked.

    python -P -m osmosis.worker.shard_nursery WORKER_PID [litellm]

Its stdin is a socket to the worker. A message there brings the shard's end of a channel
(``channel.py``) and asks for one shard; the answer is the shard's pid. A fork takes milliseconds
where the imports take 0.6 s, with LiteLLM 3 s, and what was imported lies in memory once.

It holds nothing of any run: a job comes over the channel, to the shard alone. It has one thread,
no event loop and no connection, for a fork would copy their state half done.
"""

from __future__ import annotations

import ctypes
import gc
import os
import socket
import sys
import time
import traceback
from contextlib import suppress
from pathlib import Path

from osmosis.evaluation.gateway.litellm_adapter import preload
from osmosis.evaluation.process_life import shield_memory
from osmosis.processes import die_with_my_parent, process_stat
from osmosis.worker import shard, shard_process
from osmosis.worker.nursery_process import EXIT_UNFORKABLE, LITELLM, MODULE, PID_BYTES

MESSAGE_BYTES = 16
ARGUMENTS = 45
"""Where the address of the command line stands in ``process_stat``; its end comes next."""
ADOPTION_LIMIT_S = 5.0


class Unforkable(Exception):
    """What was imported has started threads or opened connections."""


def main() -> None:
    """Fork shards until the worker hangs up."""
    worker_pid = int(sys.argv[1])
    die_with_my_parent(worker_pid)
    shield_memory()
    control = socket.socket(fileno=os.dup(0))
    gc.disable()
    if LITELLM in sys.argv[2:]:
        preload()
    gc.collect()
    # The collector would write into what all shards share, and so copy it.
    gc.freeze()
    while True:
        message, channels, _, _ = socket.recv_fds(control, MESSAGE_BYTES, 1)
        if not message:
            return
        [channel] = channels
        try:
            require_forkable(control.fileno(), channel)
        except Unforkable as error:
            sys.stderr.write(f"Shards cannot be forked: the imports left {error}.\n")
            sys.exit(EXIT_UNFORKABLE)
        pid = _fork_shard(control, channel, worker_pid)
        os.close(channel)
        control.send(pid.to_bytes(PID_BYTES, "big"))


def require_forkable(*known_sockets: int) -> None:
    """Raise Unforkable when this process has a second thread, or a socket beside these.

    Standard streams may be sockets: they are meant to be shared.

    What a library leaves behind at its import would be shared by all shards.
    """
    threads = len(list(Path("/proc/self/task").iterdir()))
    if threads != 1:
        raise Unforkable(f"{threads} threads")
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # the descriptor of this very listing is gone
            target = os.fspath(entry.readlink())
            if target.startswith("socket:") and int(entry.name) not in (0, 1, 2, *known_sockets):
                raise Unforkable(f"an open connection at descriptor {entry.name}")


def _fork_shard(control: socket.socket, channel: int, worker_pid: int) -> int:
    """The pid of a new shard.

    A process in between ends at once, so that the worker adopts the shard (``adopt_orphans``):
    it dies with the worker and not with this process, and the worker gets its exit status.
    """
    told, tell = os.pipe()
    between = os.fork()
    if between == 0:
        try:
            pid = os.fork()
            if pid == 0:
                control.close()
                os.close(told)
                os.close(tell)
                _be_shard(channel, worker_pid)
            os.write(tell, pid.to_bytes(PID_BYTES, "big"))
        finally:
            os._exit(0)
    os.close(tell)
    os.waitpid(between, 0)
    answer = os.read(told, PID_BYTES)
    os.close(told)
    if not answer:
        raise OSError("no shard could be forked")
    return int.from_bytes(answer, "big")


def _be_shard(channel: int, worker_pid: int) -> None:
    """Never returns. The channel takes the place of the nursery's socket."""
    try:
        os.setsid()
        os.dup2(channel, 0)
        os.close(channel)
        _show_as_shard()
        _renew_randomness()
        _await_adoption(worker_pid)
        gc.enable()
        shard.serve(worker_pid)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(1)


def _await_adoption(worker_pid: int) -> None:
    deadline = time.monotonic() + ADOPTION_LIMIT_S
    while os.getppid() != worker_pid and time.monotonic() < deadline:
        time.sleep(0.001)


def _show_as_shard() -> None:
    """Let ``ps`` show a shard as if it had been started as one."""
    stat = process_stat(os.getpid())
    if stat is None:
        return
    begin, end = int(stat[ARGUMENTS]), int(stat[ARGUMENTS + 1])
    words = [shard_process.MODULE if word == MODULE else word for word in sys.orig_argv]
    line = b"".join(os.fsencode(word) + b"\0" for word in words)
    if begin and len(line) <= end - begin:
        ctypes.memmove(begin, line.ljust(end - begin, b"\0"), end - begin)


def _renew_randomness() -> None:
    """``random`` and OpenSSL see to it themselves after a fork, ``uuid`` asks the system."""
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed()


if __name__ == "__main__":
    main()
