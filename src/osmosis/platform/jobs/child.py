"""The first thing in a job's process: tie it to its parent's life, then run the module.

``python -m osmosis.platform.jobs.child MODULE PARENT_PID``
"""

from __future__ import annotations

import os
import runpy
import sys

from osmosis.platform.processes import die_with_parent


def main() -> None:
    module, parent = sys.argv[1], int(sys.argv[2])
    die_with_parent()
    if os.getppid() != parent:
        sys.exit(1)
    sys.argv = [module]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
