"""The least coverage with which an aggregate's relative error exceeds `error` in at most `delta` of its windows.

Invariant: every coverage from the threshold on meets the requirement, under one assumption: each of a window's N tuples
is there with probability C (its coverage), independently of its value and of the others. Each function derives its
threshold in its docstring, with q = 1 - C and c the two-sided critical value of the normal distribution for delta.

Thresholds are for the *expected* coverage that the model gives and slack can choose. How many tuples a single window
then has still varies, and that is part of the error: so also COUNT needs more than 1 - error, the more the smaller N.

References: 004 §4.1.3 (Eq. 4.1, Alg. 4.2); Law & Zaniolo 2008 ([LZ08]) for the other aggregates by sampling.
"""

from __future__ import annotations

from math import sqrt
from statistics import NormalDist

import numpy as np

from slackwater.core.batch import Floats


def critical_value(delta: float) -> float:
    """c with P(|Z| > c) = delta for a standard normal Z.

    >>> round(critical_value(0.05), 3)
    1.96
    """
    return NormalDist().inv_cdf(1.0 - delta / 2.0)


def sum_threshold(error: float, delta: float, tuples: float, mean: float, variance: float) -> float:
    """SUM, not scaled up for what is missing (Eq. 4.1).

    The sum of what is there has mean C A and variance C q (sigma^2 + mu^2) / (N mu^2) A^2 for a true sum A. So wanted
    is q + c sqrt(a q (1 - q)) <= error with a = (sigma^2 + mu^2) / (N mu^2). The left side is concave in q and 0 at 0;
    with b = c^2 a it meets the error first at the smaller root of (1 + b) q^2 - (2 error + b) q + error^2 = 0. Where
    there is no root it never does. A mean of 0 allows no relative error: the threshold is 1.

    >>> round(sum_threshold(0.05, 0.05, tuples=1000, mean=10.0, variance=25.0), 4)
    0.9631
    """
    if tuples <= 0 or mean**2 == 0 or error <= 0:
        return 1.0
    b = critical_value(delta) ** 2 * (variance / mean**2 + 1.0) / tuples
    discriminant = b * (b + 4.0 * error * (1.0 - error))
    if discriminant < 0:
        return 0.0
    # The root written so that nothing cancels where the error is small.
    return max(0.0, 1.0 - 2.0 * error**2 / (2.0 * error + b + sqrt(discriminant)))


def count_threshold(error: float, delta: float, tuples: float) -> float:
    """COUNT is the SUM of ones: mu = 1, sigma = 0, a = 1 / N. For large N the threshold is 1 - error.

    >>> round(count_threshold(0.05, 0.05, tuples=1000), 4), round(count_threshold(0.05, 0.05, tuples=1e9), 4)
    (0.9619, 0.95)
    """
    return sum_threshold(error, delta, tuples, 1.0, 0.0)


def mean_threshold(error: float, delta: float, tuples: float, mean: float, variance: float) -> float:
    """AVG: what is there is a random subset, its mean is unbiased.

    The mean of n out of N values drawn without replacement has variance S^2 / n (1 - n / N) with S^2 = sigma^2
    N / (N - 1); for n = C N that is sigma^2 / (N - 1) q / C. So wanted is c sqrt(q / (C (N - 1))) sigma <= error |mu|,
    that is C >= 1 / (1 + t) with t = (N - 1) (error mu / (c sigma))^2. There must also be one tuple at least.

    >>> round(mean_threshold(0.05, 0.05, tuples=1000, mean=10.0, variance=25.0), 4)
    0.2777
    """
    return max(_spread_threshold(error * abs(mean), delta, tuples, sqrt(variance)), _enough(tuples, delta, 1))


def variance_threshold(error: float, delta: float, tuples: float, kurtosis: float) -> float:
    """VAR, by the delta method.

    To first order the variance of a subset is the mean over it of (z - mu)^2; the error in mu enters squared only.
    Those squares have mean sigma^2 and variance mu_4 - sigma^4 = sigma^4 (kurtosis - 1). So this is AVG of values with
    mean 1 and variance kurtosis - 1. There must be two tuples at least.

    >>> round(variance_threshold(0.1, 0.05, tuples=1000, kurtosis=3.0), 4)
    0.4347
    """
    return max(_spread_threshold(error, delta, tuples, sqrt(max(0.0, kurtosis - 1.0))), _enough(tuples, delta, 2))


def deviation_threshold(error: float, delta: float, tuples: float, kurtosis: float) -> float:
    """STDDEV is within 1 -+ error of the truth iff VAR is within (1 -+ error)^2; the lower side is nearer.

    >>> deviation_threshold(0.1, 0.05, 1000, 3.0) == variance_threshold(0.1 * 2 - 0.1**2, 0.05, 1000, 3.0)
    True
    """
    return variance_threshold(2.0 * error - error**2 if error < 1.0 else 1.0, delta, tuples, kurtosis)


def quantile_threshold(error: float, delta: float, tuples: float, p: float, ordered: Floats) -> float:
    """QUANTILE(v, p) and MEDIAN, with a sorted sample of recent values.

    The share of a random subset that lies below the true p-quantile Q has mean p and variance
    p (1 - p) q / (C (N - 1)), as the AVG of zeros and ones has; so the subset's quantile is the true one at a rank off
    by that. It is within error |Q| while the rank is off by no more than the share of the window between Q and
    Q (1 -+ error). That is h of all values, and h -+ sqrt(h / N) of the N in one window. Both vary independently, so
    wanted is c sqrt(p (1 - p) q / (C (N - 1)) + h / N) <= h.

    h is read off the sample; where it is less than the sample can tell (w = n^(-1/3) / 2, about where noise and
    curvature weigh the same), off the density 2 w / (Q(p + w) - Q(p - w)) around Q. At p = 0 and 1 the rule for
    extremes holds.

    >>> values = np.linspace(0.0, 100.0, 1001)
    >>> round(quantile_threshold(0.05, 0.05, tuples=1000, p=0.5, ordered=values), 2)
    0.65
    """
    if p <= 0.0 or p >= 1.0:
        return extreme_threshold(delta)
    if len(ordered) == 0:
        return 1.0
    reach = _rank_reach(error, p, ordered)
    allowed = sqrt(max(0.0, reach**2 - critical_value(delta) ** 2 * reach / max(1.0, tuples)))
    return max(_spread_threshold(allowed, delta, tuples, sqrt(p * (1.0 - p))), _enough(tuples, delta, 1))


def extreme_threshold(delta: float) -> float:
    """MIN, MAX: no coverage below 1 bounds how far off the second largest value is, without knowing the values.

    But which tuple is the extreme does not depend on which are missing: it is there with probability C. So with
    C >= 1 - delta the error is 0 but for delta of the windows, whatever error was allowed.

    >>> extreme_threshold(0.05)
    0.95
    """
    return 1.0 - delta


def distinct_threshold(error: float, delta: float, distinct: float) -> float:
    """COUNT DISTINCT of about so many distinct values in a window.

    A value that k tuples have is lost with probability q^k <= q, independently of the other values. So what is lost is
    at most what COUNT over D tuples, one a value, would lose. It may be much less where values repeat often.

    >>> distinct_threshold(0.05, 0.05, distinct=100) == count_threshold(0.05, 0.05, tuples=100)
    True
    """
    return count_threshold(error, delta, distinct)


def _spread_threshold(allowed: float, delta: float, tuples: float, sigma: float) -> float:
    """The least C with c sigma sqrt(q / (C (N - 1))) <= allowed."""
    if sigma == 0:
        return 0.0
    t = max(0.0, tuples - 1.0) * (allowed / (critical_value(delta) * sigma)) ** 2
    return 1.0 / (1.0 + t)


def _enough(tuples: float, delta: float, least: int) -> float:
    """The C with which at least one tuple (or two) is there but for delta of the windows.

    All of N are missing with probability q^N; all but one of them with at most N q^(N-1).
    """
    if tuples < least:
        return 1.0
    return float(1.0 - (delta / tuples ** (least - 1)) ** (1.0 / (tuples - least + 1)))


def _rank_reach(error: float, p: float, ordered: Floats) -> float:
    """How far the rank may be off p for the quantile to be off by at most this relative error."""
    n = len(ordered)
    quantile = float(np.quantile(ordered, p))
    allowed = error * abs(quantile)
    above = float(np.searchsorted(ordered, quantile + allowed, side="right")) / n - p
    below = p - float(np.searchsorted(ordered, quantile - allowed, side="left")) / n
    reach = max(0.0, min(above, below))
    width = min(0.5 * n ** (-1 / 3), p, 1.0 - p)
    if reach >= width:
        return reach
    low, high = np.quantile(ordered, [p - width, p + width])
    return min(width, 2.0 * width * allowed / float(high - low)) if high > low else reach
