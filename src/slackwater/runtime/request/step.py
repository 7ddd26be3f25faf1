"""A time step, which is what a program that asks a running query is given, and the results it may be made of.

Invariant: a step holds every row of the query, whole or reduced, that stands at its time; no further one can come. Of
all results before the watermark, which are final, only those of the freshest event time are kept; of the others all,
and those stand at the watermark. So what is kept is the results of two event times, however long the query runs and
however seldom it is asked. What is let go without having been given is counted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Generic, TypeVar

import numpy as np
import pyarrow as pa

from slackwater.core.batch import Words
from slackwater.core.errors import DataError
from slackwater.core.state import Emission
from slackwater.core.time import BEFORE_ALL
from slackwater.sinks.folder import plain_text

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Step:
    """All result rows that stand at one event time."""

    time: datetime
    rows: pa.Table
    degraded: bool = False
    """Whether the query was answered without some of its streams."""
    missing: tuple[str, ...] = ()
    """The streams it was answered without; what the rows would hold of them is null."""


def moment_of(micros: int) -> datetime:
    """An event time as a datetime.

    >>> moment_of(1_500_000).isoformat()
    '1970-01-01T00:00:01.500000+00:00'
    """
    try:
        return _EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        raise DataError("a result stands at a time that no calendar has; set time_unit, or reject such rows") from None


def micros_of(moment: datetime) -> int:
    """The inverse of `moment_of`; a moment without a zone is in UTC.

    >>> micros_of(datetime(1970, 1, 1, 0, 0, 2))
    2000000
    """
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (aware - _EPOCH) // timedelta(microseconds=1)


def joined(tables: Sequence[pa.Table]) -> pa.Table:
    """Tables of results as one."""
    return pa.concat_tables(plain_text(list(tables)))


Rows = TypeVar("Rows")


class Fresh(Generic[Rows]):
    """Results of a running query; `take` picks lines of a piece of them.

    >>> fresh = Fresh(lambda rows, index: rows[index])
    >>> fresh.add(np.array([1, 2, 2, 3]), np.array([10, 20, 21, 30]))
    >>> fresh.settle(3)
    >>> fresh.time, [rows.tolist() for rows in fresh.rows()], fresh.passed_over
    (2, [[20, 21]], 1)
    """

    def __init__(self, take: Callable[[Rows, Words], Rows]) -> None:
        self._take = take
        self._open: list[tuple[Words, Rows]] = []
        self._final: list[Rows] = []
        self._count = 0
        self._given = False
        self.time = BEFORE_ALL
        """The event time of the freshest final results."""
        self.passed_over = 0
        """Result rows that fresher ones replaced before anybody asked for them."""

    def add(self, ts: Words, rows: Rows) -> None:
        if len(ts):
            self._open.append((ts, rows))

    def settle(self, watermark: int) -> None:
        """No result before the watermark can come any more."""
        freshest = max((int(ts[ts < watermark].max(initial=BEFORE_ALL)) for ts, _ in self._open), default=BEFORE_ALL)
        if freshest == BEFORE_ALL:
            return
        if not self._given:
            self.passed_over += self._count
        waiting, self._final, self._count = self._open, [], 0
        self._open, self._given, self.time = [], False, freshest
        for ts, rows in waiting:
            mine, later = np.flatnonzero(ts == freshest), np.flatnonzero(ts >= watermark)
            self.passed_over += len(ts) - len(mine) - len(later)
            self._count += len(mine)
            if len(mine):
                self._final.append(self._take(rows, mine))
            if len(later):
                self._open.append((ts[later], self._take(rows, later)))

    def rows(self) -> list[Rows]:
        return self._final

    def give(self) -> None:
        self._given = True


def lines_of(emission: Emission, index: Words) -> Emission:
    """Some results of an emission."""
    columns = tuple(column[index] for column in emission.columns)
    multiplicity = None if emission.multiplicity is None else emission.multiplicity[index]
    return Emission(emission.ts[index], columns, emission.clock[index], multiplicity, emission.late, emission.flushed)
