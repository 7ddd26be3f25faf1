"""A time step: what a program that asks a running query is given.

Invariant: a step holds every row of the query, whole or reduced, that stands at its time; no further one can come.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pyarrow as pa

from slackwater.core.errors import DataError
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
