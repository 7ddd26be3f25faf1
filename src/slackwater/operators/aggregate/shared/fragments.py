"""Fragments: the tuples of one pane that the same queries want, with one partial a group.

Every tuple has a *signature*: the flags of those queries of a store that want it. A tuple is added once, to the partial
of its (pane, signature, group). A window of a query is the combination of all partials in its panes whose signature has
the flag of the query. Panes are cut so that every window of every query is made of whole ones.

Invariant: a fragment has exactly the tuples of its pane and signature that have come. Whether a tuple was late for a
query is not asked: a late tuple counts in every window that was not emitted when it came, and what was emitted is never
looked at again. So a query needs nothing of its own but the number of its next window.

References: S. Krishnamurthy, C. Wu, M. Franklin: On-the-fly sharing for streamed aggregation, SIGMOD 2006 (shared time
slices and shared data fragments); 004 §5.7, §7.2 (sharing above slack, left open there).
"""

from __future__ import annotations

from typing import NamedTuple

from slackwater.core.batch import TS, Floats, Words
from slackwater.core.collections.bisection import first_where
from slackwater.core.collections.records import FIRST_FIELD, NONE, give_back, take_free
from slackwater.core.jit import in_place, inner
from slackwater.operators.aggregate import state as st
from slackwater.operators.aggregate.partials import add, combine
from slackwater.operators.aggregate.sliding import find_partial, free_partial, group_of, new_partial

# A fragment: where its pane begins and how long it is, its signature, its first partial and how many there are,
# whether it changed since it was last persisted.
START, GRAIN, SIGNATURE, HEAD, PARTIALS, DIRTY = range(FIRST_FIELD, FIRST_FIELD + 6)
FRAGMENT_FIELDS = FIRST_FIELD + 6
NO_SIGNATURE = -1

# Scalars of the fragments.
FREE_FRAGMENT, FRAGMENTS, SIGNATURES, SERIAL = range(4)
FRAGMENT_SCALARS = 4

# A reader: the window of a query, where its flag is, and its oldest window that is not closed.
RANGE, SLIDE, FLAG_WORD, FLAG_BIT, NEXT = range(5)
READER_FIELDS = 5

# Columns of a closed line, in place of those of a query that is alone.
WINDOW, BY_EPOCH, OF_READER, OF_KEY = range(4)
AT_END = -1
"""In place of the epoch before which a window was closed: when the segment had ended."""

CLOSED_ALL = 0
OUT_OF_CAPACITY = 1


class Fragments(NamedTuple):
    """All fragments of a store."""

    records: Words
    order: Words
    """Fragments by the beginning of their panes."""
    masks: Words
    """Flags by the number of their signature, one a column."""
    newest: Words
    """Per signature, the fragment that was used last."""
    needed: Words
    """Per signature, the event time from which on somebody needs its tuples."""
    scalars: Words


class Arrivals(NamedTuple):
    """Tuples of a batch that somebody wants, in order of arrival."""

    signature: Words
    epoch: Words
    """The epoch of each."""
    watermark: Words
    """Per reader, where its watermark stood before each epoch."""
    ends: Words
    """Per reader, 1 where its segment ends behind the last of these tuples, and"""
    reached: Words
    """where its watermark stands then."""


@inner
def has_flag(f: Fragments, s: int, reader: Words) -> bool:
    """Whether a query wants the tuples of a signature."""
    return (f.masks[reader[FLAG_WORD], s] >> reader[FLAG_BIT]) & 1 == 1


@inner
def begins_from(f: Fragments, place: int, time: int, unused: int) -> bool:
    """Whether the fragment at a place in order begins at this time or later."""
    return f.records[f.order[place], START] >= time


@inner
def first_from(f: Fragments, time: int) -> int:
    """The place in order of the first fragment that begins at this time or later."""
    return first_where(begins_from, f, time, 0, 0, f.scalars[FRAGMENTS])


@inner
def is_fragment(f: Fragments, c: int, start: int, grain: int, s: int) -> bool:
    """Whether a fragment is that of a pane and a signature."""
    return f.records[c, START] == start and f.records[c, SIGNATURE] == s and f.records[c, GRAIN] == grain


@inner
def fragment_of(f: Fragments, start: int, grain: int, s: int) -> int:
    """The fragment of a pane and a signature; a new one if there is none."""
    c = f.newest[s]
    if c != NONE and is_fragment(f, c, start, grain, s):
        return c
    at, count = first_from(f, start), f.scalars[FRAGMENTS]
    while at < count and f.records[f.order[at], START] == start:
        if is_fragment(f, f.order[at], start, grain, s):
            f.newest[s] = f.order[at]
            return f.order[at]
        at += 1
    c = take_free(f.records, f.scalars, FREE_FRAGMENT, FRAGMENTS)
    for k in range(count, at, -1):
        f.order[k] = f.order[k - 1]
    f.order[at] = c
    f.records[c, START], f.records[c, GRAIN], f.records[c, SIGNATURE] = start, grain, s
    f.records[c, HEAD], f.records[c, PARTIALS], f.records[c, DIRTY] = NONE, 0, 0
    f.newest[s] = c
    return c


@inner
def partial_in(t: st.Tables, f: Fragments, c: int, g: int) -> int:
    """The partial of a group in a fragment; an empty one if there is none."""
    e = t.groups[g, st.LAST_USED]
    if e == NONE or t.partials[e, st.PANE] != c or t.partials[e, st.GROUP] != g:
        e = find_partial(t, c, g)
    if e == NONE:
        e = new_partial(t, c, g)
        t.partials[e, st.NEXT_IN_PANE] = f.records[c, HEAD]
        f.records[c, HEAD] = e
        f.records[c, PARTIALS] += 1
    t.groups[g, st.LAST_USED] = e
    f.records[c, DIRTY] = 1
    return e


@in_place
def process_arrivals(
    t: st.Tables, f: Fragments, readers: Words, new: st.Taken, arrived: Arrivals, at: Words, begin: int, stop: int,
    grain: int, closed: st.Closed,
) -> tuple[int, int, int]:  # fmt: skip
    """Take in tuples from `begin` up to `stop`, epoch by epoch; before the first tuple that a query wants in an epoch,
    close the windows that its watermark had passed by then. Returns (where it stopped, lines written, why)."""
    i, n_out = begin, 0
    while i < stop:
        e = arrived.epoch[at[i]]
        j = i
        while j < stop and arrived.epoch[at[j]] == e:
            j += 1
        for r in range(len(readers)):
            passed = arrived.watermark[r, e] >= readers[r, NEXT] * readers[r, SLIDE] + readers[r, RANGE]
            if passed and wanted_between(f, arrived, readers[r], i, j):
                n_out = close_windows(t, f, readers, r, arrived.watermark[r, e], e, closed, n_out)
                if n_out < 0:
                    return i, -1 - n_out, OUT_OF_CAPACITY
        for k in range(i, j):
            s = arrived.signature[k]
            start = new.words[TS, at[k]] // grain * grain
            if start + grain > f.needed[s]:
                g = group_of(t, new.words, new.key_rows, at[k])
                p = partial_in(t, f, fragment_of(f, start, grain, s), g)
                add(t.program, t.partials, t.floats, p, st.OWN, new.words, new.floats, at[k])
        i = j
    for r in range(len(readers)):
        if arrived.ends[r] == 1:
            n_out = close_windows(t, f, readers, r, arrived.reached[r], AT_END, closed, n_out)
            if n_out < 0:
                return stop, -1 - n_out, OUT_OF_CAPACITY
    return stop, n_out, CLOSED_ALL


@inner
def wanted_between(f: Fragments, arrived: Arrivals, reader: Words, i: int, j: int) -> bool:
    """Whether a query wants one of some tuples."""
    k = i
    while k < j and not has_flag(f, arrived.signature[k], reader):
        k += 1
    return k < j


@inner
def close_windows(
    t: st.Tables, f: Fragments, readers: Words, r: int, watermark: int, by: int, closed: st.Closed, n_out: int
) -> int:
    """Write all windows of a reader that the watermark has passed; returns the new number of lines, or -1 minus it
    where there is no room for another window. Windows without tuples are stepped over."""
    reader = readers[r]
    length, slide = reader[RANGE], reader[SLIDE]
    while reader[NEXT] * slide + length <= watermark:
        at, count = first_from(f, reader[NEXT] * slide), f.scalars[FRAGMENTS]
        while at < count and not has_flag(f, f.records[f.order[at], SIGNATURE], reader):
            at += 1
        k = first_window_of(f, reader, at)
        if at == count or k * slide + length > watermark:
            reader[NEXT] = (watermark - length) // slide + 1
            return n_out
        reader[NEXT] = k
        if n_out + t.scalars[st.GROUPS] > len(closed.lines):
            return -1 - n_out
        n_out = write_window(t, f, reader, at, r, by, closed, n_out)
        reader[NEXT] = k + 1
    return n_out


@inner
def first_window_of(f: Fragments, reader: Words, at: int) -> int:
    """The next window of a reader that may have the fragment at a place."""
    if at == f.scalars[FRAGMENTS]:
        return reader[NEXT]
    return max(reader[NEXT], (f.records[f.order[at], START] - reader[RANGE]) // reader[SLIDE] + 1)


@inner
def write_window(
    t: st.Tables, f: Fragments, reader: Words, at: int, r: int, by: int, closed: st.Closed, n_out: int
) -> int:
    """One line per group with tuples in the next window of a reader; its first fragment is at this place."""
    k, count = reader[NEXT], f.scalars[FRAGMENTS]
    end = k * reader[SLIDE] + reader[RANGE]
    f.scalars[SERIAL] += 1
    serial = f.scalars[SERIAL]
    while at < count and f.records[f.order[at], START] < end:
        c = f.order[at]
        at += 1
        if not has_flag(f, f.records[c, SIGNATURE], reader):
            continue
        e = f.records[c, HEAD]
        while e != NONE:
            g = t.partials[e, st.GROUP]
            if t.groups[g, st.INSIDE] == serial:
                combine(
                    t.program, closed.state, closed.floats, t.groups[g, st.POSITION], 0, t.partials, t.floats, e, st.OWN
                )
            else:
                # Of a group these say in which window it was written last, and in which line.
                t.groups[g, st.INSIDE], t.groups[g, st.POSITION] = serial, n_out
                closed.lines[n_out, WINDOW], closed.lines[n_out, BY_EPOCH], closed.lines[n_out, OF_READER] = k, by, r
                for c in range(t.scalars[st.KEYS]):
                    closed.lines[n_out, OF_KEY + c] = t.groups[g, st.KEY + c]
                for c in range(t.scalars[st.WIDTH]):
                    closed.state[n_out, c] = t.partials[e, st.OWN + c]
                n_out += 1
            e = t.partials[e, st.NEXT_IN_PANE]
    return n_out


@in_place
def sweep(t: st.Tables, f: Fragments, readers: Words) -> int:
    """Forget the fragments that no query needs any more; returns how many signatures are in use."""
    for s in range(f.scalars[SIGNATURES]):
        f.needed[s] = 2**62
        for r in range(len(readers)):
            if has_flag(f, s, readers[r]):
                f.needed[s] = min(f.needed[s], readers[r, NEXT] * readers[r, SLIDE])
    left, count, used = 0, f.scalars[FRAGMENTS], 0
    for k in range(count):
        c = f.order[k]
        if f.records[c, START] + f.records[c, GRAIN] > f.needed[f.records[c, SIGNATURE]]:
            f.order[left] = c
            left += 1
        else:
            free_fragment(t, f, c)
    f.newest[: f.scalars[SIGNATURES]] = NONE
    for k in range(left):
        s = f.records[f.order[k], SIGNATURE]
        used += f.newest[s] == NONE
        f.newest[s] = f.order[k]
    return used


@inner
def free_fragment(t: st.Tables, f: Fragments, c: int) -> None:
    """Forget a fragment with its partials; the order is put right by the caller."""
    e = f.records[c, HEAD]
    while e != NONE:
        following = t.partials[e, st.NEXT_IN_PANE]
        free_partial(t, e)
        e = following
    f.records[c, SIGNATURE] = NO_SIGNATURE
    give_back(f.records, f.scalars, FREE_FRAGMENT, FRAGMENTS, c)


@in_place
def held_by(f: Fragments, reader: Words) -> int:
    """The partials that a query still needs."""
    held = 0
    for k in range(f.scalars[FRAGMENTS]):
        c = f.order[k]
        needed = f.records[c, START] + f.records[c, GRAIN] > reader[NEXT] * reader[SLIDE]
        if needed and has_flag(f, f.records[c, SIGNATURE], reader):
            held += f.records[c, PARTIALS]
    return held


@in_place
def list_partials(t: st.Tables, f: Fragments, members: Words, at: Words, of: Words) -> int:
    """Write the partials of some fragments, and the fragment of each; returns how many there are."""
    n = 0
    for c in members:
        e = f.records[c, HEAD]
        while e != NONE:
            at[n], of[n] = e, c
            n += 1
            e = t.partials[e, st.NEXT_IN_PANE]
    return n


@in_place
def put_back(
    t: st.Tables, f: Fragments, start: int, grain: Words, signature: Words, keys: Words, key_rows: Words, state: Words,
    state_floats: Floats,
) -> None:  # fmt: skip
    """Make the fragments of a pane as they were persisted; what has become one by now is combined."""
    for p in range(len(state)):
        c = fragment_of(f, start, grain[p], signature[p])
        e = partial_in(t, f, c, group_of(t, keys, key_rows, p))
        combine(t.program, t.partials, t.floats, e, st.OWN, state, state_floats, p, 0)
