"""The tuples that were answered, with all that may answer them, for as long as a late tuple may change their answers.

Invariant: of every tuple that is kept all versions are there that it may have, late ones included: of those that can be
seen before everything that is kept the newest of every key. So an answer over them is that of all tuples that came.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from slackwater.core.batch import TS, Flags, Words
from slackwater.core.collections.numbering import NOBODY, Numbering
from slackwater.core.time import AFTER_ALL, BEFORE_ALL
from slackwater.operators.asof.spec import LEFT, RIGHT, AsOfJoin
from slackwater.operators.asof.versions import NOTHING_FOUND, answered_by, no_versions

CAME_BEFORE = -1
"""In place of where a tuple stands in a run."""
FEWEST = 512
"""So many are not worth looking through for what may go."""


@dataclass(frozen=True)
class Turned:
    """The tuples of both streams whose turn has come in a run, and those of the first that came late."""

    words: Words
    asks: Flags
    late: Flags
    place: Words
    """Where each stands in the run, or CAME_BEFORE."""
    seen_from: Words
    """From when on a version was seen by what was answered."""
    ages: Words
    """How old the version is that each was answered with, or NOTHING_FOUND."""
    answers: Words
    left: Flags
    """Whether a row of it has left."""

    def and_then(self, more: Turned) -> Turned:
        """Those and others."""
        both = zip(vars(self).values(), vars(more).values(), strict=True)
        return Turned(*(np.concatenate(one, axis=-1) for one in both))


@dataclass(frozen=True)
class Affected:
    """Tuples whose answers may have changed in a run, and what they are now."""

    at: Words
    """Where they are kept."""
    found: Flags
    answers: Words
    by: Words
    """Where the late tuple stands in the run that changed it; of the others anything."""


class Columns:
    """Words that columns are put behind, and taken out of.

    >>> columns = Columns(2)
    >>> columns.append(np.array([[1, 2], [3, 4]]))
    >>> columns.only(np.array([False, True]))
    >>> columns.words.tolist(), len(columns)
    ([[2], [4]], 1)
    """

    def __init__(self, rows: int) -> None:
        self._room: Words = np.zeros((rows, FEWEST), np.int64)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def words(self) -> Words:
        """All of them."""
        return self._room[:, : self._count]

    def append(self, more: Words) -> None:
        """Put columns behind the others."""
        count = self._count + more.shape[1]
        if count > self._room.shape[1]:
            room = np.zeros((len(self._room), 2 * count), np.int64)
            room[:, : self._count] = self.words
            self._room = room
        self._room[:, self._count : count] = more
        self._count = count

    def only(self, which: Flags) -> None:
        """Take out the others."""
        kept = self.words[:, which]
        self._count = kept.shape[1]
        self._room[:, : self._count] = kept


class Answered:
    """Answered tuples and versions; `notes` are words of each answered one for its owner."""

    def __init__(self, spec: AsOfJoin, notes: int) -> None:
        self._spec = spec
        self._numbers = Numbering(len(spec.keys), nulls=False)
        self._number = spec.rows
        """The row of the number of a key; behind it stand, of what was answered, how old its version was, what that
        carries, and notes; of a version when it can be seen, and where it stands in the run at hand."""
        carried = len(spec.carried)
        self._answer = slice(spec.rows + 2, spec.rows + 2 + carried)
        self._notes = slice(self._answer.stop, self._answer.stop + notes)
        self._asked, self._versions = Columns(self._notes.stop), Columns(spec.rows + 3)
        self._sides = [np.array(rows, np.int64) for rows in (spec.shard_rows or ((), ()))]
        self._look_at = FEWEST

    def take(
        self, turned: Turned, seen: Words, counts: Flags, notes: Words, since: int = BEFORE_ALL
    ) -> Affected | None:
        """Take in what a run has answered; which answers late tuples may have changed, of those `since` some time.

        `seen` says from when on a version is seen now, and `counts` which tuples of the first stream are answered
        although they came late. Answered tuples are kept with their notes, a column for each tuple.
        """
        asks = turned.asks
        numbers = self._numbers_of(turned.words, asks)
        mine, other = asks & (~turned.late | counts), ~asks & (numbers != NOBODY)
        first = len(self._asked)
        found = np.vstack([turned.ages, turned.answers])[:, mine]
        self._asked.append(np.vstack([turned.words[:, mine], numbers[mine], found, notes[:, mine]]))
        place = np.where(turned.late, turned.place, CAME_BEFORE)
        self._versions.append(np.vstack([turned.words, numbers, seen, place])[:, other])
        late = turned.late & (mine | other)
        if not late.any():
            return None
        found_late = np.flatnonzero(turned.late[mine]) + first
        affected = self._affected(numbers[late], np.where(asks, AFTER_ALL - 1, seen)[late], found_late, since)
        # What came late has changed its own answer, whatever that is.
        affected.by[np.searchsorted(affected.at, found_late)] = turned.place[mine & turned.late]
        self._versions.words[-1] = CAME_BEFORE
        return affected

    def _numbers_of(self, words: Words, asks: Flags) -> Words:
        keys = np.where(asks, words[self._sides[LEFT]], words[self._sides[RIGHT]])
        return self._numbers.of(np.ascontiguousarray(keys), words.shape[1])

    def _affected(self, numbers: Words, times: Words, found_late: Words, since: int) -> Affected:
        """The answers of all with one of these keys, from these times on, and of those that came late."""
        spec = self._spec
        known = numbers != NOBODY
        oldest = np.full(self._numbers.count + 1, AFTER_ALL)
        np.minimum.at(oldest, numbers[known], times[known])
        asked, versions = self._asked.words, self._versions.words
        touched = asked[TS] >= np.maximum(oldest[asked[self._number]], since)
        touched[found_late] = True
        at = np.flatnonzero(touched)
        by = np.flatnonzero(oldest[versions[self._number]] < AFTER_ALL)
        rank = np.cumsum(oldest[:-1] < AFTER_ALL) - 1
        # The last row of versions is carried like a column, so that an answer tells which late version it is from.
        words = np.zeros((spec.rows + 1, len(at) + len(by)), np.int64)
        words[:-1, : len(at)], words[:-1, len(at) :] = asked[: spec.rows, at], versions[: spec.rows, by]
        words[-1, len(at) :] = versions[-1, by]
        of = np.concatenate([asked[self._number, at], versions[self._number, by]])
        of = np.where(of == NOBODY, NOBODY, rank[of]) if len(rank) else of
        asks = np.arange(len(of)) < len(at)
        seen = np.concatenate([asked[TS, at], versions[-2, by]])
        carried = np.array([*spec.carried, spec.rows], np.int64)
        last = no_versions(max(1, len(rank) and int(rank[-1]) + 1), carried)
        ages, answers = answered_by(words, of, asks, seen, carried, spec.within, last)
        return Affected(at, ages[: len(at)] >= 0, answers[:-1, : len(at)], answers[-1, : len(at)])

    def words(self, at: Words) -> Words:
        """Answered tuples."""
        return self._asked.words[: self._spec.rows, at]

    def answers(self, at: Words) -> tuple[Flags, Words]:
        """What was answered, as far as it was told here."""
        return self._asked.words[self._number + 1, at] >= 0, self._asked.words[self._answer, at]

    def answer(self, at: Words, found: Flags, answers: Words) -> None:
        """Something else is answered from now on."""
        self._asked.words[self._number + 1, at] = np.where(found, 0, NOTHING_FOUND)
        self._asked.words[self._answer, at] = answers

    @property
    def notes(self) -> Words:
        """The notes of all, to be read and changed."""
        return self._asked.words[self._notes]

    def forget(self, since: int) -> None:
        """What lies before some time may go; it goes once that is worth the work."""
        if self.held >= self._look_at:
            self._drop(since)
            self._look_at = FEWEST + 2 * self.held

    def _drop(self, since: int) -> None:
        spec = self._spec
        self._asked.only(self._asked.words[TS] >= since)
        versions = self._versions.words
        carried = [versions[row] for row in reversed(spec.carried)]
        order = np.lexsort((*carried, versions[TS], versions[self._number]))
        order = order[versions[-2, order] < since]
        number = versions[self._number, order]
        newest = order[np.append(number[1:] != number[:-1], True)[: len(order)]]
        keep = versions[-2] >= since
        keep[newest] = spec.within is None or versions[TS, newest] >= since - spec.within
        self._versions.only(keep)
        self._number_anew()

    def _number_anew(self) -> None:
        self._numbers = Numbering(len(self._spec.keys), nulls=False)
        for columns, asks in ((self._versions.words, False), (self._asked.words, True)):
            columns[self._number] = self._numbers_of(columns, np.full(columns.shape[1], asks))

    @property
    def held(self) -> int:
        """Answered tuples and versions that are kept."""
        return len(self._asked) + len(self._versions)

    @property
    def weight(self) -> tuple[int, int]:
        """In words, by stream."""
        return self._asked.words.size, self._versions.words.size

    @property
    def held_by_stream(self) -> tuple[int, int]:
        """The same by stream."""
        return len(self._asked), len(self._versions)

    def times(self) -> list[Words]:
        """The event times of all, by stream."""
        return [self._asked.words[TS], self._versions.words[TS]]

    def drop(self, since: Words) -> None:
        """What lies before some time, the same of both streams, goes."""
        self._drop(int(since[LEFT]))

    def as_arrays(self) -> dict[str, Words]:
        """All state."""
        marks = np.array([self._look_at])
        return {"asked": self._asked.words.T, "seen": self._versions.words.T, "look_at": marks}

    def restore(self, arrays: Mapping[str, Words]) -> None:
        """Take over what `as_arrays` gave."""
        for name, columns in (("asked", self._asked), ("seen", self._versions)):
            columns.only(np.zeros(len(columns), np.bool_))
            columns.append(arrays[name].T)
        self._look_at = int(arrays["look_at"][0])
        self._number_anew()
