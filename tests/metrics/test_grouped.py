"""Intervals with groups of rows as clusters, held to statsmodels."""

from __future__ import annotations

import numpy as np
import pytest
from statsmodels.regression.linear_model import OLS

from osmosis.metrics.grouped import grouped_estimates
from osmosis.metrics.row_table import SampleColumns


def columns(reward: np.ndarray, skipped: np.ndarray) -> SampleColumns:
    rows, nothing = np.arange(len(reward)), np.full(len(reward), np.nan)
    no = np.zeros(len(reward), dtype=bool)
    return SampleColumns(rows, rows, no * 0, skipped, no, reward, nothing, nothing, nothing)


def test_the_standard_errors_are_those_of_statsmodels_with_the_groups_as_clusters():
    generator = np.random.default_rng(8)
    groups = generator.integers(0, 25, 200)
    reward = np.clip(generator.normal(0.5, 0.2, 200) + generator.normal(0, 0.3, 25)[groups], 0, 1)
    reward[:7] = np.nan
    skipped = np.zeros(200, dtype=bool)
    skipped[-5:] = True
    found = grouped_estimates(columns(reward, skipped), groups, pass_threshold=0.5)
    for name, values, kept in (
        ("score", reward, ~np.isnan(reward) & ~skipped),
        ("pass_rate", (reward >= 0.5).astype(float), ~skipped),
    ):
        fitted = OLS(values[kept], np.ones(kept.sum())).fit(
            cov_type="cluster", cov_kwds={"groups": groups[kept]}, use_t=True
        )
        assert found[name].value == pytest.approx(fitted.params[0], abs=1e-9)
        assert found[name].standard_error == pytest.approx(fitted.bse[0], abs=1e-9)
        assert found[name].clusters == 25
    assert (found["score"].low, found["score"].high) == pytest.approx(
        tuple(
            OLS(reward[7:-5], np.ones(188))
            .fit(cov_type="cluster", cov_kwds={"groups": groups[7:-5]}, use_t=True)
            .conf_int()[0]
        ),
        abs=1e-9,
    )
    boot = found["score_bootstrap"]
    assert boot.low < boot.value < boot.high
    assert boot.high - boot.low == pytest.approx(found["score"].high - found["score"].low, rel=0.3)


def test_nothing_recorded_has_no_estimate():
    empty = columns(np.array([]), np.array([], dtype=bool))
    assert grouped_estimates(empty, np.array([0, 1]), pass_threshold=1.0) == {}
