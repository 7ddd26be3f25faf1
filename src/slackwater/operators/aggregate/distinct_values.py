"""The different values of each group inside the window, counted as they come and go.

Invariant: for every group and argument, a value that stands inside the window has one record with its times; the group
has how many records are its own.
"""

from __future__ import annotations

from slackwater.core.collections.hash_table import mixed
from slackwater.core.collections.records import FIRST_FIELD, NONE, find, give_back, hang, take_free, unhang
from slackwater.core.jit import in_place, inner
from slackwater.operators.aggregate.state import DIFFERENT, FREE_DIFFERENT, Tables

# A value: whose it is, itself, and how many of it there are; 0 in a free record.
OWNER, VALUE, TIMES = range(FIRST_FIELD, FIRST_FIELD + 3)
DIFFERENT_WORDS = FIRST_FIELD + 3
ONLY_LINE = 0


@inner
def bucket_of(t: Tables, owner: int, value: int) -> int:
    """Where a value of a group belongs."""
    return mixed(owner, value) & (len(t.different) - 1)


@inner
def is_value(t: Tables, r: int, owner: int, value: int, unused: int) -> bool:
    """Whether a record is that of a value of a group."""
    return t.different[r, OWNER] == owner and t.different[r, VALUE] == value


@inner
def find_value(t: Tables, owner: int, value: int) -> int:
    """The record of a value of a group, or NONE."""
    return find(is_value, t.different, t.different_buckets, ONLY_LINE, bucket_of(t, owner, value), t, owner, value, 0)


@inner
def one_more(t: Tables, owner: int, value: int) -> bool:
    """A value comes; returns whether its group had none of it."""
    r = find_value(t, owner, value)
    if r != NONE:
        t.different[r, TIMES] += 1
        return False
    r = take_free(t.different, t.scalars, FREE_DIFFERENT, DIFFERENT)
    t.different[r, OWNER], t.different[r, VALUE], t.different[r, TIMES] = owner, value, 1
    hang(t.different, t.different_buckets, ONLY_LINE, bucket_of(t, owner, value), r)
    return True


@inner
def one_less(t: Tables, owner: int, value: int) -> bool:
    """A value goes; returns whether it was the last of its kind in its group."""
    r = find_value(t, owner, value)
    t.different[r, TIMES] -= 1
    if t.different[r, TIMES] > 0:
        return False
    unhang(t.different, t.different_buckets, ONLY_LINE, bucket_of(t, owner, value), r)
    give_back(t.different, t.scalars, FREE_DIFFERENT, DIFFERENT, r)
    return True


@in_place
def hang_different(t: Tables) -> None:
    """Put all records into buckets that are empty."""
    for r in range(len(t.different)):
        if t.different[r, TIMES] > 0:
            b = bucket_of(t, t.different[r, OWNER], t.different[r, VALUE])
            hang(t.different, t.different_buckets, ONLY_LINE, b, r)
