"""How many periods of a ledger met their target.

A period counts once all of it is settled. Tuples may come later still, and what they cost changes the verdict for as
long as the ring has the period; it is worked out anew whenever somebody asks. When a period is about to leave the ring
its verdict becomes final, and what still falls into it is known as a number only.

Invariant: the true share of periods that met the target lies between `low` and `high`. Periods are whole buckets of
the ledger; the first begins with the oldest tuple, whenever that came: results that were lost before all others were
lost too. One without results is not measured, and one that the ledger lost sight of before it was settled is neither.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from slackwater.core.batch import Floats, Words
from slackwater.core.collections.ring import NEVER
from slackwater.quality.ledger.periods import Periods


class PeriodCounts(NamedTuple):
    """Periods measured, and how many of them met the target: probably, surely, and at most."""

    periods: float = 0.0
    met: float = 0.0
    most_periods: float = 0.0
    """Those that have results if every tuple beyond the retention horizon has cost as much as it can."""
    surely_met: float = 0.0
    fewest_periods: float = 0.0
    """Those that have results for sure."""
    perhaps_met: float = 0.0
    to_spare: float = 0.0
    """How many more results the periods that met could have lost, added up."""

    def plus(self, other: PeriodCounts) -> PeriodCounts:
        """The periods of both."""
        return PeriodCounts(*(a + b for a, b in zip(self, other, strict=True)))


class PeriodMeter:
    """Counts the periods that meet a target.

    >>> from slackwater.quality.ledger.periods import no_periods
    >>> ring = no_periods(8, 10)
    >>> ring.number[:], ring.made[:], ring.lost[:] = np.arange(8), [9, 9, 9, 5, 9, 9, 0, 0], [1, 1, 1, 5, 1, 1, 0, 0]
    >>> meter = PeriodMeter(0.8, 20, ring, longest_window=0)
    >>> meter.begin(0)
    >>> meter.settle(65)
    >>> counts, latest = meter.counts(factor=1.0)
    >>> counts.periods, counts.met, latest
    (5.0, 3.0, (18.0, 2.0))
    """

    def __init__(self, target: float, over: int, ring: Periods, longest_window: int) -> None:
        self._target, self._ring = target, ring
        self._length = max(1, round(over / ring.width))
        self._reach = longest_window // ring.width + 1 if longest_window else 0
        """By how many buckets a result may be later than a member of it."""
        self._next = NEVER
        """The bucket before which the first period ends whose verdict is not final."""
        self._settled = NEVER
        """The bucket before which the last period ends that counts."""
        self._asked = NEVER
        """Periods that end before this bucket are not asked about."""
        self._final = PeriodCounts()
        self._latest = (0.0, 0.0)
        ring.final[1] = self._length

    def begin(self, first: int) -> None:
        """There is a tuple of this event time: periods begin no later. Those already lost sight of have nothing yet."""
        end = max(first // self._ring.width + self._length, self._asked)
        if self._next == NEVER or end < self._ring.final[2]:
            self._ring.final[2] = end
            if self._ring.final[0] == NEVER:
                self._next = end

    def settle(self, settled: int) -> None:
        """All periods that end up to this event time count."""
        self._settled = max(self._settled, settled // self._ring.width)

    def reserve(self, newest: int, factor: float) -> None:
        """Something is to be noted for this event time: the verdicts on what it drives out become final."""
        newest_bucket = max(newest // self._ring.width, int(self._ring.number.max()))
        oldest = newest_bucket + self._reach - len(self._ring.number) + 1
        first = self._next - self._length
        if self._next == NEVER or oldest <= first:
            return
        # A good part of the ring at once, so that this is rarely due; what is not settled stays while it can.
        ahead = max(0, min(oldest + len(self._ring.number) // 8, self._settled - self._length + 1) - oldest)
        up_to = oldest + ahead + self._length
        counts, latest = self._between(self._next, min(up_to - 1, self._settled), factor)
        self._final = self._final.plus(counts)
        self._latest = latest or self._latest
        self._next = self._ring.final[0] = up_to

    def counts(self, factor: float) -> tuple[PeriodCounts, tuple[float, float]]:
        """All that was measured, and what was made and lost in the latest period with results.

        `factor` makes results of what the synopsis expects.
        """
        if self._next == NEVER:
            return PeriodCounts(), self._latest
        counts, latest = self._between(self._next, self._settled, factor)
        counts, latest = self._final.plus(counts), latest or self._latest
        return self._after_the_fact(counts, factor), latest

    def _after_the_fact(self, counts: PeriodCounts, factor: float) -> PeriodCounts:
        """With what fell into periods whose verdict is final. That it goes evenly against what they had to spare is a
        guess; that it has spoiled no more of them than it fell into is not."""
        times, results, expected = self._ring.beyond.tolist()
        if not times:
            return counts
        surely = max(0.0, counts.surely_met - times)
        gone = min(1.0, (results + factor * expected) / self._final.to_spare) if self._final.to_spare else 0.0
        met = max(surely, counts.met - gone * self._final.met)
        # One that had no results so far may have been missed: at the least, all of them.
        return counts._replace(met=met, surely_met=surely, most_periods=counts.most_periods + (0 if surely else times))

    def _between(self, first: int, last: int, factor: float) -> tuple[PeriodCounts, tuple[float, float] | None]:
        """The periods that end before these buckets, both included, as the ledger has them now."""
        ring = self._ring
        # By age, those first whose place is empty.
        order = np.argsort(ring.number)
        known = ring.number[order]
        ends = _ends_after(known[known != NEVER], self._length + self._reach, first, last)
        if not len(ends):
            return PeriodCounts(), None

        def sums(part: Floats, reach: int = 0) -> Floats:
            """What stands in the ledger for these periods, and so many buckets before them."""
            running = np.concatenate((np.zeros(1), np.cumsum(part[order])))
            begins = np.searchsorted(known, ends - self._length - reach)
            return np.asarray(running[np.searchsorted(known, ends)] - running[begins])

        made, lost, expected = sums(ring.made), sums(ring.lost), sums(ring.expected)
        lost = np.maximum(lost, 0.0)
        most = sums(ring.most, self._reach)
        likely = np.minimum(np.maximum(expected, 0.0) * factor, most)
        filled, full = made + lost > 0.5, made + lost + most > 0.5
        probable = filled | (likely > 0.5)
        needed = self._target
        met, surely, perhaps = (
            have & (made >= needed * (made + lost + more))
            for have, more in ((probable, likely), (filled, most), (filled, 0.0))
        )
        spare = np.where(met, made / needed - made - lost - likely, 0.0).sum() if needed else 0.0
        numbers = (float(np.count_nonzero(one)) for one in (probable, met, full, surely, filled, perhaps))
        at = np.flatnonzero(filled)
        latest = (float(made[at[-1]]), float(lost[at[-1]])) if len(at) else None
        return PeriodCounts(*(*numbers, float(spare))), latest

    def count_anew(self) -> None:
        """Another share is asked for from now on."""
        self._final = PeriodCounts()
        self._next = self._asked = max(self._next, self._settled + 1)
        self._ring.final[[0, 2]] = self._next
        self._ring.beyond[:] = 0.0

    def as_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """All state."""
        final = np.array([*self._final, *self._latest])
        marks = np.array([self._next, self._settled, self._asked, self._ring.final[0], self._ring.final[2]])
        return {"meter": marks, "final": final}

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take over what `as_arrays` gave."""
        self._next, self._settled, self._asked, self._ring.final[0], self._ring.final[2] = arrays["meter"].tolist()
        *final, made, lost = arrays["final"].tolist()
        self._final, self._latest = PeriodCounts(*final), (made, lost)


def _ends_after(buckets: Words, reach: int, first: int, last: int) -> Words:
    """Where periods end that have one of these buckets, which rise, rising and each once: there may be years between.

    >>> _ends_after(np.array([3, 4, 90]), 2, 5, 99).tolist()
    [5, 6, 91, 92]
    """
    begins = np.maximum(np.concatenate((buckets[:1], np.maximum(buckets[1:], buckets[:-1] + reach))) + 1, first)
    counts = np.maximum(np.minimum(buckets + reach, last) - begins + 1, 0)
    return np.repeat(begins - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())
