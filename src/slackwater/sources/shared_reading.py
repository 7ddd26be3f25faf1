"""Sources of a set of queries: each read and encoded once, filters judged together.

`SharedIngest` takes rows of one source in, for any runtime; `SharedReading` replays recorded sources, each clock domain
in its own order of arrival, out of the same words.

Invariant: a query finds the words, the verdicts of its filters and the rejected rows that `ingest` gives it alone. A
filter or a computed row that fails, fails the queries that have it, and no other: a row is only computed from tuples
that one of its queries wants.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from slackwater.core.batch import FIRST_COLUMN, ROW, TS, Batch, Flags, Words
from slackwater.core.errors import DataError
from slackwater.core.nested import column_at
from slackwater.expressions.columnar import Coding
from slackwater.expressions.computed import Taking
from slackwater.expressions.tree import Expr, columns_of
from slackwater.operators.query_set.places import NO_FILTER, DomainPlan
from slackwater.plan.physical import PhysicalPlan
from slackwater.plan.query_set import QuerySetPlan, SourcePlan
from slackwater.sources.codebook import Codebook
from slackwater.sources.encode import GOOD, Reasons, encode_column, encode_time
from slackwater.sources.replay import interleaved, moments
from slackwater.sources.shared_filters import SharedFilters

BITS = 64
"""So many filters have their verdicts in one word."""


@dataclass(frozen=True)
class SharedIngested:
    """Rows of a source, ready for all queries."""

    words: Words
    """Shape (rows of the source's plan, table rows)."""
    passed: Words
    """Bit f of the words of a row: it has passed filter f."""
    reasons: Reasons
    """Why a row has no event time."""
    bad: Mapping[str, Reasons]
    """Columns in which some row has no word, and why."""
    failed: Mapping[str, DataError] = field(default_factory=dict)
    """The queries that failed by what they ask of these rows."""

    def reasons_for(self, columns: tuple[str, ...] | frozenset[str]) -> Reasons:
        """Why each row is rejected by whoever reads these columns."""
        reasons = self.reasons
        for column in columns:
            if column in self.bad:
                reasons = np.where(reasons == GOOD, self.bad[column], reasons)
        return reasons


class SharedIngest:
    """Takes rows of one source in."""

    def __init__(self, plan: SourcePlan, codebook: Codebook, time_unit: str) -> None:
        self._plan, self._codebook, self._time_unit = plan, codebook, time_unit
        shipped = {what[0]: FIRST_COLUMN + at for at, what in enumerate(plan.shipped) if isinstance(what[0], str)}
        behind = (name for name in plan.read if name not in shipped)
        self._rows = shipped | {name: plan.rows + at for at, name in enumerate(behind)}
        places = self._rows | {plan.time: TS}
        coding = Coding(codebook)
        wanted = {number: plan.filters[number] for number, queries in plan.wanted.items() if queries}
        self._filters = SharedFilters(wanted, lambda stream, column: places[column], coding)
        self._computed = [
            (Taking((), (row.computed,), lambda stream, column: places[column], coding), row)
            for row in plan.computed
            if row.wanted_by
        ]

    def take(self, table: pa.Table, first_row: int = 0) -> SharedIngested:
        """Encode rows, judge every filter, compute what the queries want of what they choose."""
        plan, n = self._plan, table.num_rows
        words = np.zeros((plan.rows + len(self._rows), n), np.int64)
        words[TS], reasons = encode_time(column_at(table, plan.time), self._time_unit)
        words[ROW] = np.arange(first_row, first_row + n)
        bad: dict[str, Reasons] = {}
        for name, row in self._rows.items():
            words[row], wrong = encode_column(column_at(table, name), plan.read[name], self._codebook)
            if wrong.any():
                bad[name] = wrong
        verdicts, broken = self._filters.judge(words, lambda number: _usable(reasons, bad, plan.filters[number]))
        failed = {name: error for number, error in broken.items() for name in plan.wanted[number]}
        verdicts[NO_FILTER] = reasons == GOOD
        for taking, shared in self._computed:
            usable = _usable(reasons, bad, (shared.computed.expr,))
            asked = {number: verdicts[number] & usable for _, number in shared.wanted_by if number in verdicts}
            self._compute(taking, shared.wanted_by, words, asked, failed)
        passed = np.zeros((-(-len(plan.filters) // BITS), n), np.int64)
        for number, verdict in verdicts.items():
            if number != NO_FILTER:
                passed[number // BITS] |= verdict.astype(np.int64) << (number % BITS)
        return SharedIngested(words[: plan.rows], passed, reasons, bad, failed)

    def _compute(
        self,
        taking: Taking,
        wanted_by: tuple[tuple[str, int], ...],
        words: Words,
        verdicts: Mapping[int, Flags],
        failed: dict[str, DataError],
    ) -> None:
        """One row, for all tuples that somebody wants; where it fails, those are found out that it fails for."""
        while True:
            left = [(name, number) for name, number in wanted_by if name not in failed]
            if not left:
                return
            wanted = np.zeros(words.shape[1], np.bool_)
            for _, number in left:
                wanted |= verdicts[number]
            try:
                taking.take(words, wanted)
                return
            except DataError:
                for name, number in left:
                    try:
                        taking.take(words.copy(), verdicts[number])
                    except DataError as error:
                        failed[name] = error


def _usable(reasons: Reasons, bad: Mapping[str, Reasons], exprs: Sequence[Expr]) -> Flags:
    """The rows from which some expressions can be computed."""
    usable: Flags = reasons == GOOD
    for name in {name for expr in exprs for _, name in columns_of(expr)} & bad.keys():
        usable &= bad[name] == GOOD
    return usable


class SharedReading:
    """Recorded sources of a set, encoded once."""

    def __init__(
        self,
        sources: Mapping[str, pa.Table],
        time_unit: str,
        arrival_time: str | None = None,
        ranks: Mapping[str, Words] | None = None,
    ) -> None:
        self.sources, self.codebook = sources, Codebook()
        self._time_unit, self._arrival_time, self._ranks = time_unit, arrival_time, ranks
        self.ingested: dict[str, SharedIngested] = {}
        self._by: dict[str, SourcePlan] = {}
        self._judged: dict[tuple[str, str], bool] = {}
        self.notes: dict[str, None] = {}
        """What is unencodable about the order of arrival."""

    def unencodable(self, plans: Iterable[PhysicalPlan]) -> dict[str, frozenset[str]]:
        """Per source, the columns among those read in which some row has no word."""
        found: dict[str, frozenset[str]] = {}
        for one in (one for plan in plans for one in plan.inputs):
            source = one.stream.source
            for name, kind, _ in one.columns:
                if (source, name) not in self._judged:
                    wrong = encode_column(column_at(self.sources[source], name), kind, self.codebook)[1]
                    self._judged[source, name] = bool(wrong.any())
                if self._judged[source, name]:
                    found[source] = found.get(source, frozenset()) | {name}
        return found

    def read(self, plan: QuerySetPlan) -> dict[str, DataError]:
        """Encode what a plan asks for and was not encoded yet; returns the queries that fail by it."""
        failed: dict[str, DataError] = {}
        for name, source in plan.sources.items():
            if self._by.get(name) != source:
                self.ingested[name] = SharedIngest(source, self.codebook, self._time_unit).take(self.sources[name])
                self._by[name] = source
                failed |= self.ingested[name].failed
        return failed

    def replay(self, domain: DomainPlan) -> DomainReplay:
        """The arrivals of a domain."""
        if len(domain.sources) == 1:
            row = np.arange(self.sources[domain.sources[0]].num_rows)
            stream = np.zeros(len(row), np.int64)
        else:
            stream, row, notes = interleaved(domain.sources, self.sources, self._ranks)
            self.notes |= dict.fromkeys(notes)
        good = np.zeros(len(row), np.bool_)
        for s, name in enumerate(domain.sources):
            mine = stream == s
            good[mine] = self.ingested[name].reasons_for(domain.unencodable[s])[row[mine]] == GOOD
        stream, row = stream[good], row[good]
        tables = [self.sources[name] for name in domain.sources]
        arrived = moments(domain.sources, tables, stream, row, self._arrival_time, self._time_unit)
        return DomainReplay(self, stream, row, arrived)


@dataclass
class DomainReplay:
    """The arrivals of one clock domain, in order."""

    reading: SharedReading
    stream: Words
    row: Words
    arrival_time: Words | None
    done: int = 0
    """Arrivals handed out."""

    def __len__(self) -> int:
        return len(self.stream)

    def without(self, gone: Flags) -> DomainReplay:
        """Without some arrivals."""
        arrived = None if self.arrival_time is None else self.arrival_time[~gone]
        return DomainReplay(self.reading, self.stream[~gone], self.row[~gone], arrived)

    def next(self, domain: DomainPlan, size: int) -> tuple[Batch, Words]:
        """The next arrivals, as the plan of the domain lays them out now, and the filters that they have passed."""
        begin, end = self.done, min(self.done + size, len(self))
        self.done = end
        stream, row = self.stream[begin:end], self.row[begin:end]
        ingested = [self.reading.ingested[name] for name in domain.sources]
        words = np.zeros((domain.width, end - begin), np.int64)
        passed = np.zeros((max(len(one.passed) for one in ingested), end - begin), np.int64)
        for s, one in enumerate(ingested):
            if len(ingested) == 1 and end > begin and row[-1] - row[0] + 1 == len(row):
                there: slice | Words = slice(int(row[0]), int(row[-1]) + 1)
                mine: slice | Words = slice(0, len(row))
            else:
                mine = np.flatnonzero(stream == s)
                there = row[mine]
            for d, of_source in enumerate(domain.rows[s]):
                words[d, mine] = one.words[of_source, there]
            for f in range(len(one.passed)):
                passed[f, mine] = one.passed[f, there]
        arrived = None if self.arrival_time is None else self.arrival_time[begin:end]
        return Batch(stream, words, np.ones(end - begin, np.bool_), arrived), passed
