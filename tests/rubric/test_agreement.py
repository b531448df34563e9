from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.inter_rater import cohens_kappa, to_table

from osmosis.rubric.agreement import krippendorff_alpha, pair_agreement

N = None
# Krippendorff, Computing Krippendorff's Alpha-Reliability (2011), section C: interval data.
PUBLISHED = [
    [1, 2, 3, 3, 2, 1, 4, 1, 2, N, N, N],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, N, 3],
    [N, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, N],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, N],
]
SCORES = st.integers(0, 4)


def test_alpha_is_the_published_one():
    assert krippendorff_alpha(PUBLISHED) == pytest.approx(0.849, abs=5e-4)


def test_alpha_by_hand():
    """Units (0, 0), (1, 1), (0, 1): D_o = 2 · 1 / 6, D_e = 2 · 3 · 3 / (6 · 5)."""
    assert krippendorff_alpha([[0, 1, 0], [0, 1, 1]]) == pytest.approx(1 - (1 / 3) / (3 / 5))


def test_alpha_is_none_where_it_is_not_defined():
    assert krippendorff_alpha([[1, 1], [1, 1]]) is None
    assert krippendorff_alpha([[1, N], [N, 1]]) is None
    assert krippendorff_alpha([[0.1 + 0.2] * 3, [0.1 + 0.2] * 3]) is None


def test_perfect_agreement_is_one():
    assert krippendorff_alpha([[0, 0.5, 1], [0, 0.5, 1]]) == 1.0
    pair = pair_agreement([0, 0.5, 1], [0, 0.5, 1])
    assert (pair.exact, pair.kappa, pair.weighted_kappa) == (1.0, 1.0, 1.0)
    assert pair.mean_absolute_difference == 0.0


def test_a_pair_by_hand():
    pair = pair_agreement([1, 1, 0, 0, N], [1, 0, 0, N, 1])
    assert (pair.units, pair.exact) == (3, pytest.approx(2 / 3))
    assert pair.mean_absolute_difference == pytest.approx(1 / 3)
    # chance: (2/3 · 1/3) + (1/3 · 2/3) = 4/9; (2/3 - 4/9) / (1 - 4/9)
    assert pair.kappa == pytest.approx(0.4)
    assert pair_agreement([1, N], [N, 1]).units == 0
    assert pair_agreement([1, 1], [1, 1]).kappa is None


@given(st.lists(st.tuples(SCORES, SCORES), min_size=2, max_size=40))
def test_both_kappas_are_those_of_statsmodels(pairs: list[tuple[int, int]]):
    first, second = [a for a, _ in pairs], [b for _, b in pairs]
    table, _ = to_table(np.array(pairs), bins=np.arange(6) - 0.5)
    found = pair_agreement(first, second)
    for ours, weights in ((found.kappa, None), (found.weighted_kappa, "quadratic")):
        with np.errstate(all="ignore"):
            theirs = cohens_kappa(table, wt=weights, return_results=False)
        if ours is None:
            assert not math.isfinite(theirs)
        else:
            assert ours == pytest.approx(theirs, abs=1e-9)


@given(st.lists(st.lists(st.one_of(st.none(), SCORES), min_size=3, max_size=3), min_size=1))
def test_alpha_does_not_depend_on_order_or_on_scale(units: list[list[int | None]]):
    judges = [[unit[j] for unit in units] for j in range(3)]
    alpha = krippendorff_alpha(judges)
    again = krippendorff_alpha([list(reversed(row)) for row in reversed(judges)])
    scaled = krippendorff_alpha([[None if v is None else 7 * v - 3 for v in r] for r in judges])
    if alpha is None:
        assert again is scaled is None
    else:
        assert alpha <= 1
        assert again == pytest.approx(alpha, abs=1e-9)
        assert scaled == pytest.approx(alpha, abs=1e-9)
