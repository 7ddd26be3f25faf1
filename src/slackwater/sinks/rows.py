"""Kernel output to Arrow: words get their names and types back.

Invariant: a table has the SELECT list in its order; a join adds `_ts` at the end. Where rows of open windows leave, the
error that is expected of them follows; where rows change what has left, what each does and its version come last.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from slackwater.core.batch import Words
from slackwater.core.emitting import AMENDS, CHANGE, CHANGES, CLOCK, EARLY, EXPECTED_ERROR, INSERT, VERSION
from slackwater.core.errors import DataError
from slackwater.core.schema import Kind
from slackwater.core.state import NO_LATE, Emission
from slackwater.core.time import SECOND
from slackwater.expressions.columnar import Coding
from slackwater.expressions.compile import compile_maps
from slackwater.expressions.computed import nulls_marked
from slackwater.plan.physical import OutputColumn, PhysicalPlan
from slackwater.sources.codebook import Codebook
from slackwater.sources.encode import UTC, decode_column

MOST = 2**63 - 1


class RowMaker:
    """Turns emissions of one plan into tables."""

    def __init__(self, plan: PhysicalPlan, codebook: Codebook) -> None:
        self._plan, self._codebook = plan, codebook
        places = {pair: i for i, pair in enumerate(plan.emitted)}
        computed = {column.name: column.expr for column in plan.outputs if column.expr is not None}
        maps = compile_maps(list(computed.values()), lambda stream, name: places[stream, name], Coding(codebook))
        self._maps = dict(zip(computed, maps, strict=True))

    def table(self, emission: Emission) -> pa.Table:
        # Event times stand in where every item of SELECT is a constant, which reads no column.
        computed = np.stack(emission.columns or (emission.ts,)) if self._maps else None
        arrays = [self._column(column, emission, computed) for column in self._plan.outputs]
        names = [column.name for column in self._plan.outputs]
        if self._plan.joins:
            arrays.append(pa.array(emission.ts).view(UTC))
            names.append("_ts")
        if self._plan.emit.kind == EARLY:
            arrays.append(_expected_errors(emission))
            names.append(EXPECTED_ERROR)
        if self._plan.emit.changes:
            arrays += _change_columns(emission)
            names += [CHANGE, VERSION]
        if self._plan.judged:
            arrays += _for_a_judge(emission)
            names += [AMENDS, CLOCK]
        return pa.table(arrays, names=names)

    def empty(self) -> pa.Table:
        """No results, with the right columns."""
        # A group key that is not selected has a kernel column but no output.
        sources = [column.source for column in self._plan.outputs if column.source is not None]
        width = len(self._plan.emitted)
        if not self._plan.joins:
            width = max(width, 1 + max(sources))
        nothing = np.zeros(0, np.int64)
        return self.table(Emission(nothing, (nothing,) * width, nothing, None, NO_LATE))

    def _column(self, column: OutputColumn, emission: Emission, computed: Words | None) -> pa.Array:
        if column.source is not None:
            words = emission.columns[column.source]
        else:
            assert computed is not None
            values = self._maps[column.name](computed, computed.view(np.float64), computed.shape[1])
            words = values.astype(np.int64, copy=False) if column.kind is not Kind.FLOAT else nulls_marked(values)
        return decode_column(words, column.kind, column.arrow, self._codebook)


def _expected_errors(emission: Emission) -> pa.Array:
    """How wrong each row is expected to be; null of final rows, and where nothing is known."""
    known = np.full(len(emission.ts), np.nan) if emission.expected_error is None else emission.expected_error
    return pa.array(known, pa.float64(), mask=~np.isfinite(known))


def _change_columns(emission: Emission) -> list[pa.Array]:
    """What each row does to its key, and how many of its key have left before."""
    count = len(emission.ts)
    change = np.full(count, INSERT) if emission.change is None else emission.change
    version = np.zeros(count, np.int64) if emission.version is None else emission.version
    words = pa.DictionaryArray.from_arrays(pa.array(change, pa.int8()), pa.array(CHANGES)).cast(pa.string())
    return [words, pa.array(version, pa.int64())]


def _for_a_judge(emission: Emission) -> list[pa.Array]:
    """Whether each row is another than the first answer, and the largest clock when it was emitted."""
    count = len(emission.ts)
    clock = pa.nulls(count, UTC) if emission.flushed else pa.array(emission.clock).view(UTC)
    return [pa.array(np.full(count, emission.amends)), clock]


class SecondCounts:
    """Results counted by the second of their timestamp."""

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}

    def note(self, emission: Emission) -> None:
        assert emission.multiplicity is not None
        seconds = emission.ts // SECOND
        edges = np.concatenate([[0], np.flatnonzero(np.diff(seconds)) + 1]) if len(seconds) else np.zeros(0, np.int64)
        ends = np.append(edges[1:], len(seconds))
        for begin, end in zip(edges.tolist(), ends.tolist(), strict=True):
            # Python integers do not overflow where a second has more results than a word can count.
            total = sum(emission.multiplicity[begin:end].tolist())
            second = int(seconds[begin])
            self._counts[second] = self._counts.get(second, 0) + total

    def table(self) -> pa.Table:
        """(second, count), in order."""
        seconds = sorted(self._counts)
        moments = pa.array([second * SECOND for second in seconds], pa.int64()).cast(UTC)
        counts = [self._counts[second] for second in seconds]
        if max(counts, default=0) > MOST:
            raise DataError("one second has more results than a 64-bit number can count")
        return pa.table({"second": moments, "count": pa.array(counts, pa.int64())})


def result_tables(plan: PhysicalPlan, codebook: Codebook, emissions: Iterable[Emission]) -> Iterator[pa.Table]:
    """The results in output order: a table per emission, or the counts alone at the end. There is always a table."""
    if plan.count_only:
        counts = SecondCounts()
        for emission in emissions:
            counts.note(emission)
        yield counts.table()
        return
    maker, nothing = RowMaker(plan, codebook), True
    for emission in emissions:
        nothing = False
        yield maker.table(emission)
    if nothing:
        yield maker.empty()
