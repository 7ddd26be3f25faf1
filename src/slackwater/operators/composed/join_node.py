"""A join in the order of arrival: every true result once, with its last member to arrive, whatever was late.

The join of a query makes a result when its last member is processed, in time. Here nothing is held back and nothing is
late: a tuple is combined with all that have arrived before it. So what comes out are the true results, each with the
place of the arrival that completes it.

Invariant: every combination whose members lie within the retention comes out exactly once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from slackwater.core.batch import TS, Words
from slackwater.core.jit import in_place, inner
from slackwater.core.time import BEFORE_ALL
from slackwater.disorder.ordered_batch import OrderedTuples
from slackwater.expressions.compile import Condition, refine_listed_at
from slackwater.operators.join.arrival import ArrivalProbe
from slackwater.operators.join.eager_probe import LEAST, Combining, Lines, combine
from slackwater.operators.join.loop import PASSES_BY, PROBES, nothing_after, place_probe_insert
from slackwater.operators.join.operator import WindowJoin
from slackwater.operators.join.search import Probes, Search
from slackwater.operators.join.store import BEGIN, END, Windows, insert, place
from slackwater.operators.join.unordered_probe import Reach

CHUNKS = 16
"""Into how many pieces of event time what is kept is cut, to be persisted: only the newest change much."""


@in_place
def meet(
    condition: int, plan: Probes, new: OrderedTuples, begin: int, w: Windows, search: Search, reach: Reach, found: Lines
) -> tuple[int, int]:
    """Arrivals from `begin` on, until their end or until one's results have no room; returns (arrivals, status).

    What lies before its watermark at arrival has nothing left that it could be joined with.
    """
    found.state[LEAST] = BEFORE_ALL
    job = Combining(refine_listed_at(condition), plan, w, search, reach, found, new.emit_time, new.emit_time)
    return place_probe_insert(place, insert, admit, combine, nothing_after, job, new, begin)


@inner
def admit(job: Combining, new: OrderedTuples, i: int) -> int:
    """Every tuple probes."""
    return PASSES_BY if new.words[TS, i] < new.watermark_at_arrival[i] else PROBES


class JoinNode:
    """The tuples of all inputs of one join, as they arrived. A tuple has one row more than the join knows: its mark."""

    def __init__(self, spec: WindowJoin, condition: Condition) -> None:
        self.spec = spec
        self._windows = np.array(spec.windows, np.int64)
        self._probe = ArrivalProbe(spec, condition, count_only=False, rows=spec.rows + 1)
        self._store = self._probe.store

    def take(self, stream: Words, words: Words, since: int) -> tuple[Words, Words, Words]:
        """Arrivals in their order; `since`: what newer ones have left behind by more than the windows may be forgotten.

        Returns for every result its timestamp, the place of its last arrival, and a line per input of its marks.
        """
        spec, store = self.spec, self._store
        horizon = np.maximum(since, BEFORE_ALL) - self._windows
        store.reserve(np.bincount(stream, minlength=spec.streams), horizon)
        new = OrderedTuples.of(stream, words, horizon[stream]).contiguous()
        parts = [(found.ts, found.by, found.slots) for _, _, found in self._probe.combine(new, meet)]
        if not parts:
            nothing = np.zeros(0, np.int64)
            return nothing, nothing, np.zeros((spec.streams, 0), np.int64)
        ts, by, slots = (np.concatenate(part, axis=-1) for part in zip(*parts, strict=True))
        return ts, by, slots

    def of(self, input_: int, row: int, slots: Words) -> Words:
        """A row of one member of every result that `take` has just returned."""
        return np.asarray(self._store.words[row, slots[input_]])

    def as_arrays(self, since: int) -> dict[str, npt.NDArray[Any]]:
        """The tuples that are kept, by input and bucket of event time."""
        found: dict[str, npt.NDArray[Any]] = {}
        for s in range(self.spec.streams):
            begin, end = self._store.regions[s, [BEGIN, END]]
            words = self._store.words[:, begin:end]
            words = words[:, words[TS] >= since - self._windows[s]]
            if words.shape[1] == 0:
                continue
            span = int(words[TS].max() - words[TS].min()) + 1
            # A power of two, so that buckets have the same borders the next time.
            number = words[TS] >> max(1, (span // CHUNKS).bit_length())
            for one in np.unique(number).tolist():
                found[f"{s}_{one}"] = words[:, number == one].copy()
        return found

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take over what `as_arrays` gave."""
        none = np.full(self.spec.streams, BEFORE_ALL, np.int64)
        self._store.take_all()
        for name, words in arrays.items():
            self._store.put_back(int(name.partition("_")[0]), np.array(words), none)
