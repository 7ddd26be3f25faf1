"""The open sessions of all keys, as one table that compiled code reads and updates in place.

A session is the record of its first and its last event time, and of a partial result. Those of one key hang on each
other, the one that begins last first; `heads` has the first of every key.

Invariant: a tuple is in at most one session. Neighbours in one are at most `gap` apart, as in Spark and Flink, and its
last tuple is less than `most` behind its first. It ends `gap` behind its last tuple, or `most` behind its first,
whichever comes first, and takes nothing in any more once a watermark has passed that end: a tuple at the very end may
still belong to it. A record keeps its place for as long as it lives.
"""

from __future__ import annotations

from typing import NamedTuple

from slackwater.core.batch import TS, Flags, Floats, Words
from slackwater.core.collections.records import FIRST_FIELD, NONE, give_back, take_free
from slackwater.core.jit import in_place, inner
from slackwater.operators.aggregate.partials import add, clear, combine

LIVE, GROUP, OLDER, FIRST, LAST, KNOWN, MET = range(FIRST_FIELD, FIRST_FIELD + 7)
"""Whether a record is in use, the number of its key, the next session of the key, first and last event time; the first
before the watermark that late tuples met which came into it last, and that watermark."""
KEY = FIRST_FIELD + 7
"""The words of the key; the partial result follows."""
FREE, USED = range(2)
NOT_MET = -(2**63)
NOT_KNOWN = 2**62


class Sessions(NamedTuple):
    """All sessions of an operator. `floats` is the memory of `records`."""

    program: Words
    """What the components of a partial do (`partials.program_for`)."""
    records: Words
    floats: Floats
    heads: Words
    counts: Words
    """The first free record, and records in use."""
    own: int
    """Where the partial result begins."""
    gap: int
    most: int


class Came(NamedTuple):
    """Tuples as the loop takes them in: their words, the number of each one's key, how far time had come."""

    words: Words
    floats: Floats
    key_rows: Words
    group: Words
    passed: Words


@inner
def end_of(s: Sessions, first: int, last: int) -> int:
    """Where a session ends that has these tuples at its ends."""
    return min(last + s.gap, first + s.most)


@inner
def follows(s: Sessions, first: int, last: int, ts: int) -> bool:
    """Whether a tuple that is not before such a session belongs to it."""
    return ts <= last + s.gap and ts - first < s.most


@inner
def begin(s: Sessions, new: Came, i: int) -> int:
    """A session of tuple i alone, which hangs nowhere."""
    r = take_free(s.records, s.counts, FREE, USED)
    s.records[r, LIVE], s.records[r, GROUP], s.records[r, OLDER] = 1, new.group[i], NONE
    s.records[r, FIRST] = s.records[r, LAST] = new.words[TS, i]
    s.records[r, KNOWN], s.records[r, MET] = NOT_KNOWN, NOT_MET
    for k in range(len(new.key_rows)):
        s.records[r, KEY + k] = new.words[new.key_rows[k], i]
    clear(s.program, s.records, s.floats, r, s.own)
    return r


@inner
def hang(s: Sessions, r: int) -> None:
    """Put a session among those of its key, where its beginning says."""
    g, before = s.records[r, GROUP], NONE
    following = s.heads[g]
    while following != NONE and s.records[following, FIRST] > s.records[r, FIRST]:
        before, following = following, s.records[following, OLDER]
    s.records[r, OLDER] = following
    if before == NONE:
        s.heads[g] = r
    else:
        s.records[before, OLDER] = r


@inner
def unhang(s: Sessions, r: int) -> None:
    """Take a session from among those of its key."""
    g = s.records[r, GROUP]
    if s.heads[g] == r:
        s.heads[g] = s.records[r, OLDER]
        return
    before = s.heads[g]
    while s.records[before, OLDER] != r:
        before = s.records[before, OLDER]
    s.records[before, OLDER] = s.records[r, OLDER]


@inner
def forget(s: Sessions, r: int) -> None:
    """A session that hangs nowhere is gone."""
    s.records[r, LIVE] = 0
    give_back(s.records, s.counts, FREE, USED, r)


@inner
def known_first(s: Sessions, r: int, passed: int) -> int:
    """Where a session began before late tuples came that met this watermark."""
    return s.records[r, KNOWN] if s.records[r, MET] == passed else s.records[r, FIRST]


@inner
def counts(s: Sessions, g: int, ts: int, passed: int) -> bool:
    """Whether a late tuple is in time for a session: for one of its own, or for one that was open, whatever has become
    of it by other tuples that met the same watermark. So it is all the same which of these comes first."""
    if ts + s.gap >= passed:
        return True
    r = s.heads[g]
    while r != NONE:
        first, last = s.records[r, FIRST], s.records[r, LAST]
        near = known_first(s, r, passed) <= ts + s.gap and ts <= last + s.gap
        if near and end_of(s, first, last) >= passed:
            return True
        r = s.records[r, OLDER]
    return False


@inner
def open_around(s: Sessions, g: int, ts: int, passed: int) -> int:
    """The open session of a key that an event time lies in, or NONE; of several the one that begins last."""
    r = s.heads[g]
    while r != NONE:
        first, last = s.records[r, FIRST], s.records[r, LAST]
        if first <= ts and follows(s, first, last, ts) and end_of(s, first, last) >= passed:
            return r
        r = s.records[r, OLDER]
    return NONE


@inner
def open_beside(s: Sessions, r: int, passed: int) -> int:
    """The open session that can be one with this one, which hangs nowhere, or NONE; of several the one that begins
    last."""
    first, last = s.records[r, FIRST], s.records[r, LAST]
    o = s.heads[s.records[r, GROUP]]
    while o != NONE:
        its_first, its_last = s.records[o, FIRST], s.records[o, LAST]
        both_first, both_last = min(first, its_first), max(last, its_last)
        near = its_first <= last + s.gap and first <= its_last + s.gap and both_last - both_first < s.most
        if near and min(end_of(s, its_first, its_last), end_of(s, both_first, both_last)) >= passed:
            return o
        o = s.records[o, OLDER]
    return NONE


@inner
def join_late(s: Sessions, new: Came, i: int, into: Words) -> int:
    """The session that late tuple i is in, with those it makes one; NONE where all it could be in are closed."""
    ts, passed = new.words[TS, i], new.passed[i]
    if not counts(s, new.group[i], ts, passed):
        return NONE
    r = open_around(s, new.group[i], ts, passed)
    if r == NONE:
        r = begin(s, new, i)
        s.records[r, MET] = passed
    else:
        unhang(s, r)
        s.records[r, KNOWN], s.records[r, MET] = known_first(s, r, passed), passed
        s.records[r, LAST] = max(s.records[r, LAST], ts)
    o = open_beside(s, r, passed)
    while o != NONE:
        unhang(s, o)
        s.records[r, KNOWN] = min(s.records[r, KNOWN], known_first(s, o, passed))
        s.records[r, FIRST] = min(s.records[r, FIRST], s.records[o, FIRST])
        s.records[r, LAST] = max(s.records[r, LAST], s.records[o, LAST])
        combine(s.program, s.records, s.floats, r, s.own, s.records, s.floats, o, s.own)
        # Its place stays taken until all values of the run know where they belong.
        s.records[o, LIVE] = 0
        into[o] = r
        o = open_beside(s, r, passed)
    if end_of(s, s.records[r, FIRST], s.records[r, LAST]) < passed:
        forget(s, r)
        return NONE
    hang(s, r)
    return r


@in_place
def take_in(s: Sessions, new: Came, late: Flags, into: Words, of: Words) -> None:
    """Put tuples into sessions; `of` says of each which one it came into, or NONE, and `into` which sessions have
    become part of which others since."""
    for i in range(len(of)):
        ts = new.words[TS, i]
        if late[i]:
            r = join_late(s, new, i, into)
        else:
            r = s.heads[new.group[i]]
            if r == NONE or not follows(s, s.records[r, FIRST], s.records[r, LAST], ts):
                r = begin(s, new, i)
                hang(s, r)
            s.records[r, LAST] = max(s.records[r, LAST], ts)
        of[i] = r
        if r != NONE:
            add(s.program, s.records, s.floats, r, s.own, new.words, new.floats, i)


@in_place
def settle(s: Sessions, into: Words, of: Words) -> None:
    """Follow sessions that have become part of others to what they are now, and give their places back."""
    for i in range(len(of)):
        while of[i] != NONE and into[of[i]] != NONE:
            of[i] = into[of[i]]
    for r in range(len(into)):
        if into[r] != NONE:
            give_back(s.records, s.counts, FREE, USED, r)
            into[r] = NONE


@in_place
def close(s: Sessions, closed: Words) -> None:
    """Forget sessions that have been emitted."""
    for i in range(len(closed)):
        unhang(s, closed[i])
        forget(s, closed[i])


@in_place
def hang_all(s: Sessions, places: Words) -> None:
    """Hang sessions on their keys, of which none has any."""
    for i in range(len(places)):
        hang(s, places[i])
