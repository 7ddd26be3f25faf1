"""Several words of a tuple as one number.

Invariant: two tuples have the same number iff all their words are equal.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from slackwater.core.batch import Words


def numbered(columns: Sequence[Words], count: int) -> Words:
    """One number a tuple, from 0 on unless there is just one column, whose values are used.

    >>> numbered([np.array([5, 5, 7]), np.array([1, 2, 1])], 3).tolist()
    [0, 1, 2]
    """
    if len(columns) == 1:
        return columns[0]
    found = np.zeros(count, np.int64)
    for column in columns:
        distinct, number = np.unique(column, return_inverse=True)
        found = np.unique(found * len(distinct) + number, return_inverse=True)[1]
    return found
