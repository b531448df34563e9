"""pass@k: the chance that at least one of k attempts at a row passes, averaged over rows."""

from __future__ import annotations

from collections.abc import Mapping
from math import fsum, prod
from typing import NamedTuple


class PassAtK(NamedTuple):
    """One point of the curve."""

    k: int
    value: float


def pass_at_k_value(attempts: int, passes: int, k: int) -> float:
    """The unbiased estimate 1 − C(a−p, k) / C(a, k) for one row with ``a ≥ k`` attempts."""
    if not 1 <= k <= attempts:
        raise ValueError(f"pass@{k} needs at least {k} attempts and k ≥ 1, got {attempts} attempts")
    if not 0 <= passes <= attempts:
        raise ValueError(f"{passes} passes out of {attempts} attempts")
    misses = attempts - passes
    if misses < k:
        return 1.0
    return 1.0 - prod((misses - i) / (attempts - i) for i in range(k))


def pass_at_k_points(rows: Mapping[tuple[int, int], int], n_runs: int) -> list[PassAtK]:
    """The curve at k = 1, 2, 4, … ≤ ``n_runs``; empty unless it has at least two points.

    ``rows`` counts rows by (attempts that were not skipped, passes).
    """
    points: list[PassAtK] = []
    k = 1
    while k <= n_runs:
        able = {key: count for key, count in sorted(rows.items()) if key[0] >= k and count}
        if able:
            total = fsum(pass_at_k_value(a, p, k) * count for (a, p), count in able.items())
            points.append(PassAtK(k, total / sum(able.values())))
        k *= 2
    return points if len(points) >= 2 else []
