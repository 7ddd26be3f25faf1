"""The last version of every key, and the walk along event times that answers by it.

Invariant: after a walk up to some time a key has the newest of the versions that were there to be seen by then; so of a
key one version is kept, whatever the stream brought. It is let go when it is too old to answer anything.
"""

from __future__ import annotations

import numpy as np

from slackwater.core.batch import TS, Flags, Words
from slackwater.core.collections.numbering import NOBODY, Numbering
from slackwater.core.jit import in_place, inner
from slackwater.core.time import BEFORE_ALL

FOR_EVER = -1
"""In place of how much older a version may be."""
NOTHING_FOUND = -1
"""In place of the age of a version."""
FEWEST = 256
"""So many numbers of keys are not worth tidying up."""


@inner
def is_newer(last: Words, number: int, words: Words, i: int, carried: Words) -> bool:
    """Whether a version comes after the last one of its key: by time, and then by what it carries."""
    if words[TS, i] != last[number, 0]:
        return words[TS, i] > last[number, 0]
    for c in range(len(carried)):
        if words[carried[c], i] != last[number, 1 + c]:
            return words[carried[c], i] > last[number, 1 + c]
    return False


@in_place
def walk(
    order: Words, asks: Flags, words: Words, of: Words, carried: Words, within: int,
    last: Words, ages: Words, answers: Words,
) -> None:  # fmt: skip
    """Go along tuples of both streams: take a version over, or answer by the last one of the key (`of`)."""
    for i in order:
        number = of[i]
        if number == NOBODY:
            continue
        if asks[i]:
            age = words[TS, i] - last[number, 0]
            if last[number, 0] != BEFORE_ALL and (within == FOR_EVER or age <= within):
                ages[i] = age
                for c in range(len(carried)):
                    answers[c, i] = last[number, 1 + c]
        elif is_newer(last, number, words, i, carried):
            last[number, 0] = words[TS, i]
            for c in range(len(carried)):
                last[number, 1 + c] = words[carried[c], i]


def no_versions(size: int, carried: Words) -> Words:
    """Space for the versions of so many keys: a line for the number of a key has the time of its version, and what that
    carries."""
    last = np.zeros((size, 1 + len(carried)), np.int64)
    last[:, 0] = BEFORE_ALL
    return last


def answered_by(
    words: Words, of: Words, asks: Flags, seen_from: Words, carried: Words, within: int | None, last: Words
) -> tuple[Words, Words]:
    """How old the versions are that tuples find, or NOTHING_FOUND, and what they carry; `last` has the versions before,
    and then those after. `seen_from` is when a version can first be seen; one that can be seen at the time of a tuple
    that asks comes before it."""
    ages = np.full(len(asks), NOTHING_FOUND)
    answers = np.zeros((len(carried), len(asks)), np.int64)
    order = np.lexsort((asks, seen_from))
    oldest = FOR_EVER if within is None else within
    walk(order, asks, np.ascontiguousarray(words), of, carried, oldest, last, ages, answers)
    return ages, answers


class Versions:
    """The last version of every key.

    >>> versions = Versions(keys=1, carried=(2,), within=None)
    >>> tuples = np.array([[1, 3, 4], [0, 1, 2], [50, 60, 0], [7, 7, 7]])
    >>> ages, answers = versions.walk(tuples, tuples[3:], np.array([False, False, True]), tuples[0])
    >>> ages.tolist(), answers[0, 2]
    ([-1, -1, 1], np.int64(60))
    """

    def __init__(self, keys: int, carried: tuple[int, ...], within: int | None) -> None:
        self._keys = keys
        self._carried: Words = np.array(carried, np.int64)
        self._within = within
        self._numbers = Numbering(keys, nulls=False)
        self._last = no_versions(FEWEST, self._carried)

    def walk(self, words: Words, keys: Words, asks: Flags, seen_from: Words) -> tuple[Words, Words]:
        """As `answered_by`; from then on the versions among these tuples are there."""
        of = np.full(len(asks), NOBODY, np.int64)
        of[~asks] = self._numbers.of(np.ascontiguousarray(keys[:, ~asks]))
        of[asks] = self._numbers.of(np.ascontiguousarray(keys[:, asks]), adds=False)
        if self._numbers.count > len(self._last):
            more = no_versions(2 * self._numbers.count, self._carried)
            more[: len(self._last)] = self._last
            self._last = more
        return answered_by(words, of, asks, seen_from, self._carried, self._within, self._last)

    def expire(self, watermark: int) -> None:
        """Forget what is too old for whatever may still ask; and the keys, once most of them have nothing."""
        if self._within is None:
            return
        known = self._last[: self._numbers.count]
        known[known[:, 0] < watermark - self._within] = no_versions(1, self._carried)[0]
        if len(known) > FEWEST and 2 * len(self) < len(known):
            table = self.table
            self.table = table[table[:, self._keys] != BEFORE_ALL]

    def __len__(self) -> int:
        """Keys that have a version."""
        return int(np.count_nonzero(self._last[: self._numbers.count, 0] != BEFORE_ALL))

    @property
    def table(self) -> Words:
        """A line for every number: the key, the time of its version (BEFORE_ALL for none), what that carries."""
        return np.hstack([self._numbers.keys.T, self._last[: self._numbers.count]])

    @table.setter
    def table(self, lines: Words) -> None:
        self._numbers = Numbering(self._keys, nulls=False)
        self._numbers.of(np.ascontiguousarray(lines[:, : self._keys].T))
        self._last = no_versions(max(FEWEST, 2 * len(lines)), self._carried)
        self._last[: len(lines)] = lines[:, self._keys :]
