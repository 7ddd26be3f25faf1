"""Sums by (line, group) in one table, with the lines in a ring: the store behind `WindowLosses`.

Invariant: of every line that still has its place in the ring there is one record per group that was noted in it; a line
that a newer one has displaced is forgotten, and its records go when the table is tidied. A record has sums of its own,
or a chain of nodes, each with sums and a bin, the largest bin first.

A group is known by a hash of its key words. Two groups with one hash would be taken for one, in estimates only.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from slackwater.core.batch import Floats, Words
from slackwater.core.collections import ring
from slackwater.core.collections.hash_table import mixed, slot_for
from slackwater.core.collections.records import NONE
from slackwater.core.jit import in_place, inner

# Columns of `Table.records` and `Table.nodes`.
LINE, GROUP, NEXT, CHAIN = range(4)
BIN, BEHIND = range(2)
# Columns of `Table.lines`.
NUMBER, FIRST = range(2)
# Places in `Table.used`.
RECORDS, NODES = range(2)
NO_LINE = ring.NEVER
LINES_A_CHUNK = 64
"""Lines that are persisted together: late tuples touch old chunks seldom, so that few of them are written anew."""


class Table(NamedTuple):
    """Records found by hash, linked per line."""

    slots: Words
    """A record or NONE; a power of two of them, at most half taken."""
    records: Words
    sums: Floats
    nodes: Words
    node_sums: Floats
    lines: Words
    """The ring: a power of two of lines."""
    used: Words


def table(records: int, nodes: int, lines: int, components: int) -> Table:
    """An empty table for so many records and nodes."""
    of_lines = np.full((1 << max(0, lines - 1).bit_length(), 2), NO_LINE, np.int64)
    return Table(
        np.full(2 << max(1, records - 1).bit_length(), NONE, np.int64),
        np.zeros((records, 4), np.int64),
        np.zeros((records, components)),
        np.zeros((nodes, 2), np.int64),
        np.zeros((nodes, components)),
        of_lines,
        np.zeros(2, np.int64),
    )


@inner
def stops_at(t: Table, slot: int, line: int, group: int) -> bool:
    """Whether a slot is free, or that of a group in a line."""
    r = t.slots[slot]
    return r == NONE or (t.records[r, LINE] == line and t.records[r, GROUP] == group)


@inner
def find_slot(t: Table, line: int, group: int) -> int:
    """The slot of a group in a line, or the free one where it would go."""
    return slot_for(stops_at, t, mixed(line, group), len(t.slots), line, group)


@inner
def find(t: Table, line: int, group: int) -> int:
    """The record of a group in a line, or NONE."""
    return t.slots[find_slot(t, line, group)]


@inner
def place_of(t: Table, line: int) -> int:
    """The place of a line in the ring, or NONE where it is not in the ledger."""
    return ring.slot_of(t.lines[:, NUMBER], line)


@inner
def begin_line(t: Table, sequence: int) -> None:
    """A line has taken this place of the ring, and has no records."""
    t.lines[sequence, FIRST] = NONE


@inner
def found_or_made(t: Table, line: int, group: int) -> int:
    """The record of a group in a line, made if there is none; NONE where the line has been displaced."""
    at = ring.turn_to(begin_line, t.lines[:, NUMBER], t, line)
    if at == NONE:
        return NONE
    slot = find_slot(t, line, group)
    if t.slots[slot] != NONE:
        return t.slots[slot]
    r = t.slots[slot] = t.used[RECORDS]
    t.used[RECORDS] += 1
    t.records[r, LINE], t.records[r, GROUP] = line, group
    t.records[r, NEXT], t.records[r, CHAIN] = t.lines[at, FIRST], NONE
    t.lines[at, FIRST] = r
    for c in range(t.sums.shape[1]):
        t.sums[r, c] = 0.0
    return r


@inner
def first_record(t: Table, line: int) -> int:
    """The first record of a line, or NONE."""
    at = place_of(t, line)
    return NONE if at == NONE else t.lines[at, FIRST]


@inner
def node_of(t: Table, r: int, into: int) -> int:
    """The node of a bin in the chain of record r, made if there is none."""
    before, at = NONE, t.records[r, CHAIN]
    while at != NONE and t.nodes[at, BIN] > into:
        before, at = at, t.nodes[at, BEHIND]
    if at != NONE and t.nodes[at, BIN] == into:
        return at
    fresh = t.used[NODES]
    t.used[NODES] += 1
    t.nodes[fresh, BIN], t.nodes[fresh, BEHIND] = into, at
    for c in range(t.node_sums.shape[1]):
        t.node_sums[fresh, c] = 0.0
    if before == NONE:
        t.records[r, CHAIN] = fresh
    else:
        t.nodes[before, BEHIND] = fresh
    return fresh


@in_place
def move(old: Table, new: Table) -> None:
    """Take over what is in the ledger."""
    for r in range(old.used[RECORDS]):
        line = old.records[r, LINE]
        if place_of(old, line) == NONE:
            continue
        to = found_or_made(new, line, old.records[r, GROUP])
        for c in range(old.sums.shape[1]):
            new.sums[to, c] = old.sums[r, c]
        node = old.records[r, CHAIN]
        while node != NONE:
            copy = node_of(new, to, old.nodes[node, BIN])
            for c in range(old.node_sums.shape[1]):
                new.node_sums[copy, c] = old.node_sums[node, c]
            node = old.nodes[node, BEHIND]


@in_place
def live(t: Table) -> tuple[int, int]:
    """How many records and nodes are in the ledger."""
    records, nodes = 0, 0
    for r in range(t.used[RECORDS]):
        if place_of(t, t.records[r, LINE]) != NONE:
            records += 1
            node = t.records[r, CHAIN]
            while node != NONE:
                nodes += 1
                node = t.nodes[node, BEHIND]
    return records, nodes


def tidied(old: Table, records: int, nodes: int, lines: int = 0) -> Table:
    """The same ledger with room for so many more, and for as many again as there are, to put off the next tidying.

    The ring gets so many lines if these are more than it has.
    """
    has, has_nodes = live(old)
    new = table(2 * has + records, 2 * has_nodes + nodes, max(lines, len(old.lines)), old.sums.shape[1])
    move(old, new)
    return new


@in_place
def _list(t: Table, keys: Words, sums: Floats, owner: Words, bins: Words, node_sums: Floats) -> None:
    n = m = 0
    for r in range(t.used[RECORDS]):
        if place_of(t, t.records[r, LINE]) == NONE:
            continue
        keys[n, 0], keys[n, 1] = t.records[r, LINE], t.records[r, GROUP]
        for c in range(sums.shape[1]):
            sums[n, c] = t.sums[r, c]
        node = t.records[r, CHAIN]
        while node != NONE:
            owner[m], bins[m] = n, t.nodes[node, BIN]
            for c in range(sums.shape[1]):
                node_sums[m, c] = t.node_sums[node, c]
            node = t.nodes[node, BEHIND]
            m += 1
        n += 1


@in_place
def _refill(t: Table, keys: Words, sums: Floats, owner: Words, bins: Words, node_sums: Floats) -> None:
    m = 0
    for n in range(len(keys)):
        r = found_or_made(t, keys[n, 0], keys[n, 1])
        for c in range(sums.shape[1]):
            t.sums[r, c] = sums[n, c]
        while m < len(owner) and owner[m] == n:
            node = node_of(t, r, bins[m])
            for c in range(sums.shape[1]):
                t.node_sums[node, c] = node_sums[m, c]
            m += 1


def as_chunks(t: Table) -> dict[int, Words]:
    """What is in the ledger, packed by chunks of neighbouring lines: records, and their nodes by the record's place."""
    records, nodes = live(t)
    components = t.sums.shape[1]
    keys, sums = np.zeros((records, 2), np.int64), np.zeros((records, components))
    owner, bins, node_sums = np.zeros(nodes, np.int64), np.zeros(nodes, np.int64), np.zeros((nodes, components))
    _list(t, keys, sums, owner, bins, node_sums)
    order = np.argsort(keys[:, 0] // LINES_A_CHUNK, kind="stable")
    sequence = np.empty(records, np.int64)
    sequence[order] = np.arange(records)
    keys, sums = keys[order], sums[order]
    node_order = np.argsort(sequence[owner], kind="stable")
    owner, bins, node_sums = sequence[owner][node_order], bins[node_order], node_sums[node_order]
    numbers, first = np.unique(keys[:, 0] // LINES_A_CHUNK, return_index=True)
    found = {}
    for number, begin, end in zip(numbers.tolist(), first, np.append(first, records)[1:], strict=True):
        a, b = np.searchsorted(owner, [begin, end])
        found[number] = _packed(keys[begin:end], sums[begin:end], owner[a:b] - begin, bins[a:b], node_sums[a:b])
    return found


def _packed(keys: Words, sums: Floats, owner: Words, bins: Words, node_sums: Floats) -> Words:
    partitions = (np.array([len(keys), len(bins)]), keys, sums.view(np.int64), owner, bins, node_sums.view(np.int64))
    return np.concatenate([partition.ravel() for partition in partitions])


def _unpacked(chunk: Words, components: int) -> tuple[Words, Floats, Words, Words, Floats]:
    records, nodes = chunk[:2].tolist()
    ends = np.cumsum([2, 2 * records, components * records, nodes, nodes])
    _, keys, sums, owner, bins, node_sums = np.split(chunk, ends)
    return (
        keys.reshape(-1, 2), sums.view(np.float64).reshape(-1, components), owner, bins,
        node_sums.view(np.float64).reshape(-1, components),
    )  # fmt: skip


def refilled(lines: int, capacity: int, components: int, chunks: Iterable[Words]) -> Table:
    """A table with a ring of so many lines, with what `as_chunks` gave on its ledger."""
    partitions = [_unpacked(np.array(chunk), components) for chunk in chunks]
    records, nodes = (
        sum(len(partition[0]) for partition in partitions),
        sum(len(partition[3]) for partition in partitions),
    )
    t = table(2 * records + capacity, 2 * nodes + capacity, lines, components)
    for partition in partitions:
        _refill(t, *partition)
    return t
