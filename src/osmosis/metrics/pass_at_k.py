"""pass@k and pass^k: the chance that of k attempts at a row at least one passes, or all do.

Both are unbiased estimates from the attempts that were made, averaged over the rows with at least
k of them, at k = 1, 2, 4, …
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import fsum, prod
from typing import NamedTuple


class PassAtK(NamedTuple):
    """One point of a curve."""

    k: int
    value: float


def pass_at_k_value(attempts: int, passes: int, k: int) -> float:
    """The unbiased estimate 1 − C(a−p, k) / C(a, k) for one row with ``a ≥ k`` attempts."""
    _check(attempts, passes, k)
    return 1.0 - _share_of_draws(attempts, attempts - passes, k)


def pass_hat_k_value(attempts: int, passes: int, k: int) -> float:
    """The unbiased estimate C(p, k) / C(a, k) that k attempts all pass, for one row."""
    _check(attempts, passes, k)
    return _share_of_draws(attempts, passes, k)


def pass_at_k_points(rows: Mapping[tuple[int, int], int], n_runs: int) -> list[PassAtK]:
    """The curve of pass@k at k = 1, 2, 4, … ≤ ``n_runs``; empty unless it has two points.

    ``rows`` counts rows by (attempts that were not skipped, passes).
    """
    return _points(rows, n_runs, pass_at_k_value)


def pass_hat_k_points(rows: Mapping[tuple[int, int], int], n_runs: int) -> list[PassAtK]:
    """The curve of pass^k, over the same rows and k as :func:`pass_at_k_points`."""
    return _points(rows, n_runs, pass_hat_k_value)


def _points(
    rows: Mapping[tuple[int, int], int], n_runs: int, value: Callable[[int, int, int], float]
) -> list[PassAtK]:
    points: list[PassAtK] = []
    k = 1
    while k <= n_runs:
        able = {key: count for key, count in sorted(rows.items()) if key[0] >= k and count}
        if able:
            total = fsum(value(a, p, k) * count for (a, p), count in able.items())
            points.append(PassAtK(k, total / sum(able.values())))
        k *= 2
    return points if len(points) >= 2 else []


def _share_of_draws(attempts: int, kind: int, k: int) -> float:
    """C(kind, k) / C(attempts, k): the share of draws of k that are all of one kind."""
    if kind < k:
        return 0.0
    return prod((kind - i) / (attempts - i) for i in range(k))


def _check(attempts: int, passes: int, k: int) -> None:
    if not 1 <= k <= attempts:
        raise ValueError(f"k = {k} needs at least {k} attempts and k ≥ 1, got {attempts} attempts")
    if not 0 <= passes <= attempts:
        raise ValueError(f"{passes} passes out of {attempts} attempts")
