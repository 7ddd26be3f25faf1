"""Slots by open addressing and records in hash chains, both against a dict."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slackwater.core.collections.hash_table import mix, mixed, slot_for
from slackwater.core.collections.records import NONE, find, give_back, grown, hang, table, take_free, unhang
from slackwater.core.jit import in_place, inner

KEYS = st.tuples(st.integers(-5, 5), st.one_of(st.integers(0, 3), st.integers(-(2**63), 2**63 - 1)))
FREE_SLOT, KEY, ALSO, VALUE = -1, 1, 2, 3
FREE, USED = 0, 1
SIZE = 64


@inner
def stops_at(slots, at, a, b):
    return slots[at, 2] == FREE_SLOT or (slots[at, 0] == a and slots[at, 1] == b)


@in_place
def count_in_slots(slots, a, b, seen):
    """Count every pair in its slot; `seen` gets the count so far."""
    for i in range(len(a)):
        at = slot_for(stops_at, slots, mixed(a[i], b[i]), len(slots), a[i], b[i])
        if slots[at, 2] == FREE_SLOT:
            slots[at, 0], slots[at, 1], slots[at, 2] = a[i], b[i], 0
        slots[at, 2] += 1
        seen[i] = slots[at, 2]


@given(st.lists(KEYS, max_size=40))
def test_a_slot_is_found_again_by_what_was_put_there(keys):
    slots = np.full((SIZE, 3), FREE_SLOT, np.int64)
    a, b = np.array(keys, np.int64).reshape(-1, 2).T.copy()
    seen = np.zeros(len(keys), np.int64)
    count_in_slots(slots, a, b, seen)
    counts = {}
    for key, count in zip(keys, seen.tolist(), strict=True):
        counts[key] = counts.get(key, 0) + 1
        assert count == counts[key]
    assert np.count_nonzero(slots[:, 2] != FREE_SLOT) == len(counts)


@inner
def has_key(records, r, key, also, unused):
    return records[r, KEY] == key and records[r, ALSO] == also


@in_place
def follow(records, buckets, counts, steps, found):
    """A step adds to what stands under a key, or with 0 drops it; `found` gets what stood there before, or NONE."""
    for i in range(len(steps)):
        key, also, amount = steps[i, 0], steps[i, 1], steps[i, 2]
        b = mix(key) & 3
        r = find(has_key, records, buckets, 1, b, records, key, also, 0)
        found[i] = NONE if r == NONE else records[r, VALUE]
        if amount == 0:
            if r != NONE:
                unhang(records, buckets, 1, b, r)
                give_back(records, counts, FREE, USED, r)
            continue
        if r == NONE:
            r = take_free(records, counts, FREE, USED)
            records[r, KEY], records[r, ALSO], records[r, VALUE] = key, also, 0
            hang(records, buckets, 1, b, r)
        records[r, VALUE] += amount


AMOUNTS = st.lists(st.tuples(st.integers(-4, 4), st.integers(0, 1), st.integers(0, 2)), max_size=60)


def slow_table(model, steps):
    found = []
    for key, also, amount in steps:
        found.append(model.get((key, also), NONE))
        if amount:
            model[key, also] = model.get((key, also), 0) + amount
        else:
            model.pop((key, also), None)
    return found


@given(AMOUNTS, AMOUNTS)
def test_records_are_found_by_key_until_they_are_dropped_and_keep_their_numbers_when_the_table_grows(steps, more):
    records, buckets, counts, model = table(32, 4), np.full((2, 32), NONE, np.int64), np.zeros(2, np.int64), {}
    for part in (steps, more):
        found = np.zeros(len(part), np.int64)
        follow(records, buckets, counts, np.array(part, np.int64).reshape(-1, 3), found)
        assert found.tolist() == slow_table(model, part)
        assert counts[USED] == len(model)
        assert np.all(buckets[0] == NONE), "the buckets of another table"
        before = records[:, KEY:].copy()
        # In chains of one table a record is free or hangs in a bucket; growing keeps both.
        chains = records[:, 0].copy()
        records = grown(records, 2 * len(records), int(counts[FREE]))
        counts[FREE] = len(before)
        assert np.array_equal(records[: len(before), KEY:], before)
        assert np.array_equal(records[: len(before), 0], chains)
    free, at = [], int(counts[FREE])
    while at != NONE:
        free.append(at)
        at = int(records[at, 0])
    assert len(free) == len(set(free)) == len(records) - len(model)
