"""The first thing in a child process of the server: tie it to its parent, then run a module.

``python -m osmosis.platform.child MODULE PARENT_PID``. A launcher and not a ``preexec_fn``: Python
between fork and exec may deadlock when the parent has threads.
"""

from __future__ import annotations

import os
import runpy
import sys

from osmosis.processes import die_with_my_parent


def main() -> None:
    module, parent = sys.argv[1], int(sys.argv[2])
    die_with_my_parent(parent)
    sys.argv = [module]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def child_argv(module: str) -> list[str]:
    """The command line that runs a module as a child of this process.

    ``-P``: a file in the directory where somebody started the server is no module of ours.
    """
    return [sys.executable, "-P", "-m", "osmosis.platform.child", module, str(os.getpid())]


if __name__ == "__main__":
    main()
