"""Starts user code in a network of its own, and leaves the engine a door into it. Run as a script,
by the rollout's interpreter, inside the sandbox:

    python -I -S loopback_launcher.py CHANNEL GATEWAY_PORT ARGV...

CHANNEL is the descriptor of a socket to the engine. Over it goes, before user code runs, a socket
that listens on GATEWAY_PORT of this network's loopback: the engine answers model calls on it. Then
one more socket for each byte that the engine sends: it connects them to the rollout's server. A
socket belongs to the network that it was made in, whoever holds it; so nothing is copied on the
way, and nothing else of the machine can be reached from here.

Only the standard library, and of that only what starts fast. ARGV takes this process over.
"""

from __future__ import annotations

import os
import signal
import socket
import sys

BACKLOG = 4096


def main(arguments: list[str]) -> None:
    channel = socket.socket(fileno=int(arguments[0]))
    channel.set_inheritable(False)
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.bind(("127.0.0.1", int(arguments[1])))
        listener.listen(BACKLOG)
        socket.send_fds(channel, [b"."], [listener.fileno()])
    child = os.fork()
    if child == 0:
        # Not a child of user code, which may wait for all that it has.
        os.setsid()
        if os.fork() == 0:
            make_sockets(channel)
        os._exit(0)
    os.waitpid(child, 0)
    argv = arguments[2:]
    try:
        os.execv(argv[0], argv)  # noqa: S606
    except OSError as error:
        sys.stderr.write(f"{argv[0]}: {error.strerror}\n")
        sys.stderr.flush()
        os._exit(127)


def make_sockets(channel: socket.socket) -> None:
    """Until the engine closes the channel, or the sandbox ends."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        # User code gets time to end, and its server is reached meanwhile.
        signal.signal(number, signal.SIG_IGN)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    while channel.recv(1):
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as made:
            socket.send_fds(channel, [b"."], [made.fileno()])


if __name__ == "__main__":
    main(sys.argv[1:])
