"""Columns of words by group: counted, then copied to where their group is."""

from __future__ import annotations

import numpy as np

from slackwater.core.batch import Words
from slackwater.core.jit import in_place


def columns_by_group(words: Words, at: Words, group: Words, groups: int) -> list[Words]:
    """For each group the columns `at` that belong to it, in their order; those of no group (not below `groups`) go.

    >>> found = columns_by_group(np.array([[5, 6, 7, 8]]), np.array([0, 1, 2, 3]), np.array([1, 2, 0, 1]), 2)
    >>> [one.tolist() for one in found]
    [[[7]], [[5, 8]]]
    """
    ends = np.cumsum(np.bincount(group, minlength=groups)[:groups])
    together = np.empty((len(words), int(ends[-1])), np.int64)
    # Where the next column of a group goes; in the end where the group ends.
    following = np.concatenate([[0], ends[:-1]])
    copy_columns(words, at, group, following, together)
    return np.split(together, ends[:-1], axis=1)


@in_place
def copy_columns(words: Words, at: Words, group: Words, following: Words, out: Words) -> None:
    """Copy columns one after the other, each behind those of its group."""
    for i in range(len(at)):
        g = group[i]
        if g < len(following):
            for r in range(len(words)):
                out[r, following[g]] = words[r, at[i]]
            following[g] += 1
