"""Disorder as a value: what happens to tuples between their source and the query, put together with `+` and applied to
tables.

Invariant: an `AddedDelay` moves arrivals only, never to before the event; what a tuple says of its time (`stamp`) is
changed by clocks alone, and which tuples there are by duplicates and stops alone. Everything random comes from the one
generator that is handed in, in the order of the sum, so `x` and `x + y` share the delays of `x`. Tables that are given
together have one order, by the time of arrival; ties go by stream, then by row. What happens at a time (a burst, a lag)
happens to all streams at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import cast, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.core.errors import UsageError
from slackwater.workloads.workload import Flags, Floats, Integers, generator

Rng = np.random.Generator


@dataclass(frozen=True)
class Sent:
    """Tuples on their way, a row each. Lengths of time are seconds from the start of the streams, stamps are ms."""

    row: Integers
    """Which row of the table it is; a duplicate has the row of its original."""
    at: Floats
    """When it happened."""
    stamp: Integers
    """When its source says that it happened: milliseconds since 1970-01-01 UTC."""
    moment: Floats
    """When it arrives."""
    source: Integers
    stream: Integers

    def take(self, rows: Integers | Flags) -> Sent:
        return Sent(
            self.row[rows], self.at[rows], self.stamp[rows], self.moment[rows], self.source[rows], self.stream[rows]
        )

    def some_sources(self, rng: Rng, share: float) -> Flags:
        """The tuples of so many of the sources (at least one), chosen by lot."""
        known = np.unique(self.source)
        return np.isin(self.source, rng.choice(known, max(1, round(share * len(known))), replace=False))


class Disorder:
    """Something that happens to streams; `one + other` lets both happen, in this order."""

    def __init__(self, change: Callable[[Rng, Sent], Sent]) -> None:
        self.change = change

    def __add__(self, other: Disorder) -> Disorder:
        return Disorder(lambda rng, sent: other.change(rng, self.change(rng, sent)))


class AddedDelay(Disorder):
    """Tuples come later than they were sent, by `draw(rng, sent)` seconds each; their event times stay as they are."""

    def __init__(self, draw: Callable[[Rng, Sent], Floats]) -> None:
        super().__init__(self._delayed)
        self.draw = draw

    @overload
    def __add__(self, other: AddedDelay) -> AddedDelay: ...
    @overload
    def __add__(self, other: Disorder) -> Disorder: ...
    def __add__(self, other: Disorder) -> Disorder:
        if isinstance(other, AddedDelay):
            # Added up they are delays still, which can be scaled and drawn.
            return AddedDelay(lambda rng, sent: self.draw(rng, sent) + other.draw(rng, sent))
        return super().__add__(other)

    def scaled(self, factor: Callable[[Floats], Floats]) -> AddedDelay:
        """The same delays, times `factor(at)`."""
        return AddedDelay(lambda rng, sent: factor(sent.at) * self.draw(rng, sent))

    def __mul__(self, times: float) -> AddedDelay:
        return self.scaled(lambda at: np.full(len(at), times))

    def during(self, begin: float, end: float) -> AddedDelay:
        """Only for what happens in `[begin, end)`.

        >>> from slackwater.workloads import disorder
        >>> jam = disorder.delays(lambda rng, at: np.full(len(at), 5.0)).during(10, 20)
        >>> disorder.drawn(jam, [9, 10, 19, 20]).tolist()
        [0.0, 5.0, 5.0, 0.0]
        """
        return self.scaled(lambda at: ((at >= begin) & (at < end)).astype(np.float64))

    def of(self, sources: Callable[[Integers], Flags]) -> AddedDelay:
        """Only for the sources that are named, as in `.of(lambda source: source == 7)`."""
        return AddedDelay(lambda rng, sent: np.where(sources(sent.source), self.draw(rng, sent), 0.0))

    def _delayed(self, rng: Rng, sent: Sent) -> Sent:
        seconds = np.asarray(self.draw(rng, sent), np.float64)
        if seconds.shape != sent.at.shape or not (seconds >= 0).all():
            raise UsageError("a delay model gives one delay a tuple, of 0 seconds or more")
        return replace(sent, moment=sent.moment + seconds)


def delays(draw: Callable[[Rng, Floats], Floats]) -> AddedDelay:
    """A delay model of your own: from a generator of random numbers and event times (s) to as many delays (s)."""
    return AddedDelay(lambda rng, sent: draw(rng, sent.at))


def apply(table: pa.Table, model: Disorder, seed: int = 0, *, time: str = "ts", source: str = "source") -> pa.Table:
    """The rows of a table as they arrive.

    `time` names the column of event times: timestamps, or whole milliseconds. `source` names the column that says who
    sent a row; without one, all come from the same. Two columns are added: `arrival` counts rows, and `moment` is when
    each arrived, on the event times' own scale.

    >>> from slackwater.workloads import disorder
    >>> table = pa.table({"ts": np.arange(0, 3000, 1000), "v": [1.5, 2.5, 3.5]})
    >>> late = disorder.delays(lambda rng, at: np.array([2.5, 0.0, 0.0]))
    >>> disorder.apply(table, late).to_pydict()
    {'ts': [1000, 2000, 0], 'v': [2.5, 3.5, 1.5], 'arrival': [0, 1, 2], 'moment': [1000, 2000, 2500]}
    """
    return apply_to_all({"table": table}, model, seed, time=time, source=source)["table"]


def apply_to_all(
    tables: Mapping[str, pa.Table], model: Disorder, seed: int = 0, *, time: str = "ts", source: str = "source"
) -> dict[str, pa.Table]:
    """Like `apply`, for streams that go the same way: what happens to one at a time happens to the others as well."""
    names = list(tables)
    sizes = [tables[name].num_rows for name in names]
    stamps = [_stamps(tables[name], time) for name in names]
    start = min((int(stamp.min()) for stamp in stamps if len(stamp)), default=0)
    stamp = np.concatenate(stamps)
    at = (stamp - start) / 1000
    sent = Sent(
        np.concatenate([np.arange(size) for size in sizes]),
        at,
        stamp,
        at.copy(),
        _sources([tables[name] for name in names], source),
        np.repeat(np.arange(len(names)), sizes),
    )
    sent = model.change(generator(seed), sent)
    arriving = np.lexsort((sent.row, sent.stream, sent.moment))
    sent = sent.take(arriving)
    found = {}
    for number, name in enumerate(names):
        mine = np.flatnonzero(sent.stream == number)
        found[name] = _arrived(tables[name], sent.take(mine), mine, start, time)
    return found


def drawn(model: AddedDelay, at: npt.ArrayLike, seed: int = 0, source: npt.ArrayLike | None = None) -> Floats:
    """The delays (s) that a model gives tuples of these event times (s): to look at, or to plot."""
    times = np.asarray(at, np.float64)
    who = np.zeros(len(times), np.int64) if source is None else np.asarray(source, np.int64)
    nothing = np.zeros(len(times), np.int64)
    return model.draw(generator(seed), Sent(np.arange(len(times)), times, nothing, times, who, nothing))


def _stamps(table: pa.Table, time: str) -> Integers:
    if time not in table.column_names:
        raise UsageError(f"there is no column '{time}' of event times; there are {', '.join(table.column_names)}")
    column = table[time]
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("ms", column.type.tz), safe=False)
    elif not pa.types.is_integer(column.type):
        raise UsageError(f"event times are timestamps or whole milliseconds, and '{time}' is {column.type}")
    if column.null_count:
        raise UsageError(f"'{time}' has nulls, and a tuple without a time can be given no delay")
    return np.asarray(column.cast(pa.int64()).to_numpy(), np.int64)


def _sources(tables: list[pa.Table], source: str) -> Integers:
    if not all(source in table.column_names for table in tables):
        return np.zeros(sum(table.num_rows for table in tables), np.int64)
    columns = [chunk for table in tables for chunk in table[source].chunks]
    column = pa.chunked_array(columns, type=tables[0][source].type)
    if pa.types.is_integer(column.type):
        return np.asarray(column.cast(pa.int64()).to_numpy(), np.int64)
    return np.asarray(pc.dictionary_encode(column).combine_chunks().indices.to_numpy(), np.int64)


def _arrived(table: pa.Table, sent: Sent, arrival: Integers, start: int, time: str) -> pa.Table:
    rows = table.take(pa.array(sent.row))
    column, kind = table.column_names.index(time), table[time].type
    moment = start + np.rint(1000 * sent.moment).astype(np.int64)
    rows = rows.set_column(column, time, _timed(sent.stamp, kind))
    rows = rows.drop_columns([name for name in ("arrival", "moment") if name in rows.column_names])
    return rows.append_column("arrival", pa.array(arrival)).append_column("moment", _timed(moment, kind))


def _timed(milliseconds: Integers, kind: pa.DataType) -> pa.Array:
    if pa.types.is_timestamp(kind):
        return cast(pa.Array, pa.array(milliseconds).cast(pa.timestamp("ms", kind.tz)).cast(kind))
    return cast(pa.Array, pa.array(milliseconds).cast(kind))
