"""A history that goes before the streams of a query: what a user says of it, and how it is cut.

Invariant: a history is cut by event time, at the same times for all streams, so what has been read of it is whole up to
an event time. Nothing is learned from the order in which it is read. A row that is in the history and in the stream
counts once: that of the stream is left out, as rejected with the reason `in_history`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa

from slackwater.core.batch import Flags, Words
from slackwater.core.errors import UsageError
from slackwater.core.quality import Quality, Recall, RelativeError
from slackwater.core.schema import NULL_WORD, kind_of
from slackwater.core.time import MICROSECOND, SECOND, parse_duration
from slackwater.sources.codebook import Codebook
from slackwater.sources.encode import encode_column

MOST_ROWS = 1_000_000
"""Rows of all streams that are read together."""
APART = SECOND
"""By how much the event times of one row may differ, where its id tells that it is one."""


@dataclass(frozen=True)
class History:
    """What was before the streams; `slackwater.history` makes one."""

    streams: Mapping[str, Any]
    until: int | None = None
    id: str | None = None
    rows: int = MOST_ROWS
    prime: Any = None

    def slack(self, target: Quality) -> int:
        """What the streams begin with: as it was stated, or by an advice what this target asks for."""
        if self.prime is None or isinstance(self.prime, str):
            return 0 if self.prime is None else _micros(self.prime)
        share = 1.0
        if isinstance(target, Recall):
            share = target.target
        elif isinstance(target, RelativeError):
            share = target.confidence
        curve = self.prime.curve
        found = curve.least(share)
        return int(curve.slacks[-1] if found is None else found)

    def of(self, sources: Sequence[str]) -> dict[str, Any]:
        """The history of each stream that is read; None where nothing came before it."""
        strange = [name for name in self.streams if name not in sources]
        if strange:
            raise UsageError(f"history: there is no stream {strange[0]}; the query reads {', '.join(sources)}")
        missing = [name for name in sources if name not in self.streams]
        if missing:
            raise UsageError(
                f"history says nothing of stream {missing[0]}; give its rows too, or None if nothing came before it"
            )
        return {name: self.streams[name] for name in sources}


def history(
    streams: Mapping[str, Any],
    *,
    until: str | datetime | None = None,
    id: str | None = None,
    rows: int = MOST_ROWS,
    prime: Any = None,
) -> History:
    """What came before streams, by their names: it is read first, in the order of event time, and then the streams.

        past = sw.history({"i": spark.read.parquet("i"), "c": spark.read.parquet("c")}, until="2026-11-19 12:00")
        query = sw.start(spark, "SELECT ...", i=impressions, c=clicks, history=past, results="out/pairs")

    Rows that are in the history and in the stream count once. By time: the history is whole before `until`, and the
    stream's older rows are left out; without it, up to the newest row of each stream's history. By `id`: the column
    that names a row, in all streams. About so many `rows` are read together. `prime` is the slack to begin with, where
    a target learns it: a duration, or what `slackwater.advise` says of a recording.

    >>> history({"s": None}, until="2026-11-19 12:00").until
    1795089600000000
    """
    if not isinstance(streams, Mapping) or not streams:
        raise UsageError('name the streams: sw.history({"a": rows}, until="2026-11-19 12:00")')
    if rows < 1:
        raise UsageError(f"history: rows={rows}; at least one row is read at a time")
    if prime is not None and not isinstance(prime, str) and not hasattr(prime, "curve"):
        raise UsageError(f"history: prime={prime!r}; it is a duration such as '2 seconds', or what sw.advise gives")
    if isinstance(prime, str):
        _micros(prime)
    return History(dict(streams), None if until is None else _moment(until), id, rows, prime)


def as_history(given: History | Mapping[str, Any]) -> History:
    """What is given for a history, which may be a mapping of streams alone."""
    return given if isinstance(given, History) else history(given)


def _micros(prime: str) -> int:
    try:
        return parse_duration(prime)
    except ValueError as error:
        raise UsageError(f"history: prime={prime!r}: {error}") from None


def _moment(until: str | datetime) -> int:
    try:
        moment = datetime.fromisoformat(until) if isinstance(until, str) else until
        moment = moment.replace(tzinfo=moment.tzinfo or UTC)
    except (ValueError, AttributeError, TypeError):
        raise UsageError(f"history: until={until!r}; it is a time in ISO 8601, as in '2026-11-19 12:00'") from None
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * SECOND + since.microseconds * MICROSECOND


@dataclass(frozen=True)
class Cut:
    """Where a history is cut, and where it ends."""

    edges: tuple[int, ...]
    """Piece k has the event times before edge k that are in no piece before."""
    ends: Mapping[str, int | None]
    """By stream: up to where its history is whole; None where nothing came before it."""
    before: Mapping[str, int | None]
    """By stream: a row from here on is not in its history; None: no row is."""

    @property
    def pieces(self) -> int:
        """How many there are; none where there is no row at all."""
        return len(self.edges) + 1 if self.last is not None else 0

    @property
    def last(self) -> int | None:
        """Where the history of all streams ends."""
        return max((end for end in self.ends.values() if end is not None), default=None)

    def reached(self, piece: int) -> dict[str, int]:
        """Up to where the history of each stream is whole when a piece has been read. One without a history waits for
        nothing."""
        assert self.last is not None, "there is a piece"
        edge = self.edges[piece] if piece < len(self.edges) else self.last
        return {name: edge if end is None else min(edge, end) for name, end in self.ends.items()}


def cut_of(told: History, newest: Mapping[str, int | None], edges: Sequence[int]) -> Cut:
    """The cut of a history, by the newest row of each stream; None where it has no rows."""
    ends: dict[str, int | None] = {}
    before: dict[str, int | None] = {}
    for name, latest in newest.items():
        until = told.until if told.streams[name] is not None else None
        ends[name] = latest if until is None else until
        behind = None if latest is None else latest + 1
        if told.id is None:
            before[name] = behind if until is None else until
        else:
            before[name] = None if behind is None else behind + APART
    return Cut(tuple(edges), ends, before)


def edges_of(times: Words, rows: int) -> list[int]:
    """Where event times, in their order, are cut so that about so many are together.

    >>> edges_of(np.array([1, 2, 2, 3, 9]), 2)
    [2, 9]
    """
    edges = np.unique(times[rows::rows])
    return [int(edge) for edge in edges if edge > times[0]]


def id_words(column: pa.ChunkedArray) -> Words:
    """Ids as words, the same in every process."""
    kind = kind_of(column.type)
    assert kind is not None, "a column without a kind is refused"
    return encode_column(column, kind, Codebook())[0]


def are_among(ids: Words, known: Words) -> Flags:
    """Which ids are among those that are known, which are in order; null is no id."""
    if not len(known):
        return np.zeros(len(ids), np.bool_)
    place = np.minimum(np.searchsorted(known, ids), len(known) - 1)
    return np.asarray((known[place] == ids) & (ids != NULL_WORD), np.bool_)
