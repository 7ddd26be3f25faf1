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

from slackwater.core.batch import FIRST_COLUMN, TS, Batch, Flags, Words
from slackwater.core.errors import DataError
from slackwater.core.nested import column_at
from slackwater.expressions.columnar import Coding
from slackwater.expressions.computed import Taking
from slackwater.expressions.tree import Expr, columns_of
from slackwater.operators.query_set.places import NO_FILTER, DomainPlan
from slackwater.plan.physical import PhysicalPlan
from slackwater.plan.query_set import QuerySetPlan, SourcePlan
from slackwater.sources.codebook import Codebook
from slackwater.sources.encode import GOOD, Reasons, encode_column
from slackwater.sources.ingest import Columns, encode_rows, with_reasons
from slackwater.sources.replay import Arrivals, arrivals
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
        return with_reasons(self.reasons, (self.bad[column] for column in columns if column in self.bad))


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
        columns = Columns(table, self._codebook, self._time_unit)
        wanted = [(name, plan.read[name], row) for name, row in self._rows.items()]
        reasons, bad = encode_rows(words, columns, plan.time, wanted, first_row)
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
        unencodable = zip(domain.sources, domain.unencodable, strict=True)
        reasons = [self.ingested[name].reasons_for(columns) for name, columns in unencodable]
        found = arrivals(domain.sources, self.sources, reasons, self._time_unit, self._arrival_time, self._ranks)
        self.notes |= dict.fromkeys(found.notes)
        return DomainReplay(self, found)


@dataclass
class DomainReplay:
    """The arrivals of one clock domain, in order."""

    reading: SharedReading
    arrivals: Arrivals
    done: int = 0
    """Arrivals handed out."""

    def __len__(self) -> int:
        return len(self.arrivals)

    def next(self, domain: DomainPlan, size: int) -> tuple[Batch, Words]:
        """The next arrivals, as the plan of the domain lays them out now, and the filters that they have passed."""
        some = self.arrivals.some(slice(self.done, self.done + size))
        self.done += len(some)
        ingested = [self.reading.ingested[name] for name in domain.sources]
        words = np.zeros((domain.width, len(some)), np.int64)
        passed = np.zeros((max(len(one.passed) for one in ingested), len(some)), np.int64)
        for s, mine, there in some.by_input(len(ingested)):
            for d, of_source in enumerate(domain.rows[s]):
                words[d, mine] = ingested[s].words[of_source, there]
            for f in range(len(ingested[s].passed)):
                passed[f, mine] = ingested[s].passed[f, there]
        return Batch(some.stream, words, np.ones(len(some), np.bool_), some.arrival_time), passed
