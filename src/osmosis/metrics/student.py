"""Quantiles of Student's t, for intervals of means.

In plain Python, so that the command line shows the same interval without the scientific packages
that only the server installs. The tail comes from the regularised incomplete beta function by its
continued fraction (Abramowitz and Stegun 26.5.8, evaluated as in Lentz, Applied Optics 15, 1976).
"""

from __future__ import annotations

from math import copysign, exp, lgamma, log, log1p, pi
from statistics import NormalDist

LARGE_DF = 2000.0
"""From here the expansion around the normal quantile is closer than the fraction."""

STEPS = 200
TERMS = 1000
CLOSE = 1e-15
TINY = 1e-300


def t_quantile(share: float, df: float) -> float:
    """The value below which ``share`` of Student's t with ``df`` degrees of freedom lies."""
    if not 0.0 < share < 1.0 or df <= 0:
        raise ValueError(f"no quantile at {share} with {df} degrees of freedom")
    if share == 0.5:
        return 0.0
    tail = min(share, 1 - share)
    normal = -NormalDist().inv_cdf(tail)
    found = _expansion(normal, df) if df >= LARGE_DF else _solve(tail, df, normal)
    return copysign(found, share - 0.5)


def _expansion(z: float, df: float) -> float:
    """Abramowitz and Stegun 26.7.5."""
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    fourth = (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160
    return z + first / df + second / df**2 + third / df**3 + fourth / df**4


def _solve(tail: float, df: float, start: float) -> float:
    """Newton's steps on the upper tail, kept between bounds."""
    low, high = 0.0, max(start, 1.0)
    while t_tail(high, df) > tail:
        low, high = high, high * 2
    value = (low + high) / 2
    for _ in range(STEPS):
        miss = t_tail(value, df) - tail
        low, high = (value, high) if miss > 0 else (low, value)
        step = value + miss / _density(value, df)
        following = step if low < step < high else (low + high) / 2
        if abs(following - value) <= CLOSE * following:
            return following
        value = following
    return value


def t_tail(value: float, df: float) -> float:
    """The share of Student's t above a value that is not negative."""
    if value == 0:
        return 0.5
    return _incomplete_beta(df / (df + value * value), df / 2, 0.5) / 2


def _density(value: float, df: float) -> float:
    scale = lgamma((df + 1) / 2) - lgamma(df / 2) - log(df * pi) / 2
    return exp(scale - (df + 1) / 2 * log1p(value * value / df))


def _incomplete_beta(x: float, a: float, b: float) -> float:
    if x <= 0 or x >= 1:
        return float(x >= 1)
    front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x))
    if x < (a + 1) / (a + b + 2):
        return front * _fraction(x, a, b) / a
    return 1 - front * _fraction(1 - x, b, a) / b


def _fraction(x: float, a: float, b: float) -> float:
    c, d = 1.0, _safe(1 - (a + b) * x / (a + 1))
    d = 1 / d
    value = d
    for m in range(1, TERMS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1 / _safe(1 + term * d)
            c = _safe(1 + term / c)
            value *= c * d
        if abs(c * d - 1) < CLOSE:
            break
    return value


def _safe(value: float) -> float:
    return value if abs(value) > TINY else copysign(TINY, value)
