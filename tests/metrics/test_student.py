"""Student's t, held to scipy."""

from __future__ import annotations

import pytest
from scipy import stats

from osmosis.metrics.student import LARGE_DF, t_quantile, t_tail

DFS = [1, 1.5, 2, 3, 4, 7, 29, 99, 500, 1999, LARGE_DF, 5000, 99_999, 1e6, 1e9]


@pytest.mark.parametrize("df", DFS)
@pytest.mark.parametrize("share", [0.6, 0.9, 0.95, 0.975, 0.995, 0.9999, 0.025, 1 - 1e-8])
def test_quantiles_agree_with_scipy(share: float, df: float):
    assert t_quantile(share, df) == pytest.approx(stats.t.ppf(share, df), rel=1e-10)


@pytest.mark.parametrize("df", [1, 2.5, 30, 1999])
@pytest.mark.parametrize("value", [0.0, 1e-3, 0.1, 1.0, 2.5, 40.0])
def test_tails_agree_with_scipy(value: float, df: float):
    assert t_tail(value, df) == pytest.approx(stats.t.sf(value, df), rel=1e-10)


def test_the_median_is_zero_and_nonsense_is_refused():
    assert t_quantile(0.5, 3) == 0.0
    for share, df in [(0.0, 3), (1.0, 3), (0.9, 0)]:
        with pytest.raises(ValueError, match="no quantile"):
            t_quantile(share, df)
