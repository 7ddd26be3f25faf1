"""Estimates beside the answers of windows: what counts and sums will come to, and between what.

Invariant: the answer itself is never replaced; it stands in its own column, and the estimate behind it with what it
lies between at the confidence that is asked for. What is not known yet is null. A mean is the quotient of two answers
that are scaled alike, so it is its own estimate.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from slackwater.core.batch import Flags, Words
from slackwater.core.schema import NULL_FLOAT, NULL_WORD, Kind
from slackwater.disorder.meters import Scaling
from slackwater.operators.aggregate.algebra import AggregateSpec, Layout, float_words

COLUMNS = 3
"""Estimate, low, high."""
ROUNDING = 1e-9
"""Windows that are whole lie at the very end of what is possible; rounding must not leave them out."""


def with_estimates(
    aggregates: Sequence[AggregateSpec], layout: Layout, state: Words, values: Sequence[Words], scaling: Scaling,
    whole: Flags,
) -> list[Words]:  # fmt: skip
    """The columns behind the answers of closed windows, made of `state`; of those that are `whole` nothing more can
    come."""
    return [
        column
        for at, (one, answers) in enumerate(zip(aggregates, values, strict=True))
        for column in _beside(at, one, answers, state[:, layout.offset(one.components[0])], scaling, whole)
    ]


def _beside(at: int, one: AggregateSpec, answers: Words, count: Words, scaling: Scaling, whole: Flags) -> list[Words]:
    is_count = one.function == "COUNT"
    as_float = one.function == "AVG" or (one.kind is Kind.FLOAT and not is_count)
    null = answers == (NULL_FLOAT if as_float else NULL_WORD) if not is_count else np.zeros(len(answers), np.bool_)
    made = answers.view(np.float64) if as_float else answers.astype(np.float64)
    factor = 1.0 if one.function == "AVG" else scaling.factor
    low, high, known = scaling.interval(at, count)
    with np.errstate(invalid="ignore"):
        estimate = np.where(whole, made, made * factor)
        ends = np.where(whole, made, estimate * low), np.where(whole, made, estimate * high)
        low_end, high_end = np.minimum(*ends), np.maximum(*ends)
        outwards = ROUNDING * np.abs(estimate)
        low_end, high_end = np.minimum(low_end, estimate) - outwards, np.maximum(high_end, estimate) + outwards
        if is_count:
            # What has come is no longer missing.
            low_end = np.maximum(low_end, made)
        low_end, high_end = np.where(whole, made, low_end), np.where(whole, made, high_end)
    unknown: Flags = null | ~(whole | known)
    return [float_words(estimate, null), float_words(low_end, unknown), float_words(high_end, unknown)]
