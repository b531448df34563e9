"""How many processors this process may use, which is often fewer than the machine has."""

from __future__ import annotations

import math
import os
from contextlib import suppress
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
MEMBERSHIP = Path("/proc/self/cgroup")


def usable_cores(cgroups: Path = CGROUPS, membership: Path = MEMBERSHIP) -> int:
    """At least 1: what the affinity allows, or the quota of a container where that is less."""
    allowed = len(os.sched_getaffinity(0))
    quotas = [quota for path in _groups(cgroups, membership) if (quota := _quota(path)) is not None]
    return max(1, min([allowed, *(math.ceil(quota) for quota in quotas)]))


def _groups(cgroups: Path, membership: Path) -> list[Path]:
    """Our control group and all above it: each may have a quota of its own."""
    lines: list[str] = []
    with suppress(OSError):
        lines = membership.read_text().splitlines()
    found: list[Path] = []
    for line in lines:
        _, controllers, name = line.split(":", 2)
        if controllers == "" or "cpu" in controllers.split(","):
            root = cgroups if controllers == "" else cgroups / "cpu"
            group = root / name.lstrip("/")
            found += [group, *(above for above in group.parents if above.is_relative_to(root))]
    return found


def _quota(group: Path) -> float | None:
    """Processors' worth of time that a control group allows; None without a limit."""
    with suppress(OSError, ValueError):
        most, period = (group / "cpu.max").read_text().split()
        return None if most == "max" else int(most) / int(period)
    with suppress(OSError, ValueError):
        most = int((group / "cpu.cfs_quota_us").read_text())
        return None if most < 0 else most / int((group / "cpu.cfs_period_us").read_text())
    return None
