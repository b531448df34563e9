"""The kernel's table of a process's open files, made large before there are threads.

It doubles when it is full, and in a process with threads the kernel waits for all processors
then: a tenth of a second and more, in which no event loop turns, in the middle of a busy start.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress

ENTRIES = 8192
"""Four sockets for each of two thousand samples in flight; eight bytes each."""


def grow_descriptor_table(entries: int = ENTRIES) -> None:
    """Make room for ``entries`` descriptors, or for as many as the process may have."""
    if sys.platform == "win32":
        return
    import fcntl  # noqa: PLC0415 - not on Windows
    import resource  # noqa: PLC0415 - not on Windows

    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed != resource.RLIM_INFINITY:
        entries = min(entries, allowed)
    spare = os.open(os.devnull, os.O_RDONLY)
    try:
        with suppress(OSError):
            os.close(fcntl.fcntl(spare, fcntl.F_DUPFD_CLOEXEC, entries - 1))
    finally:
        os.close(spare)
