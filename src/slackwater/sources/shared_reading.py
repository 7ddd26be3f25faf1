"""Sources of a set of queries: each read and encoded once, filters judged together.

`SharedIngest` takes rows of one source in, for any runtime; `SharedReading` replays recorded sources, each clock domain
in its own order of arrival, out of the same words.

Every condition that filters have in common is judged once, along their tree (`plan/sharing/global_plan.py`). Conditions
of one shape share their machine code, whatever constants they compare with, so a hundred filters take hardly longer to
compile than one. What looks into text is asked only about rows that the filters above have left; all else is computed
for all rows, which costs less than choosing them.

Invariant: a query finds the words, the verdicts of its filters and the rejected rows that `ingest` gives it alone. A
filter that can fail is judged by itself, conjunct by conjunct in its own order, so it fails for the rows that it fails
for alone. A filter or a computed row that fails, fails the queries that have it, and no other: a row is only computed
from tuples that one of its queries wants.

References: 004 §5.1: shared filters are evaluated once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from slackwater.core.batch import FIRST_COLUMN, TS, Batch, Flags, Words
from slackwater.core.errors import DataError
from slackwater.core.nested import column_at
from slackwater.expressions.columnar import Coding
from slackwater.expressions.compile import Map, compile_maps
from slackwater.expressions.computed import Taking
from slackwater.expressions.lower import EncodeText, Layout
from slackwater.expressions.tree import Expr, columns_of
from slackwater.operators.query_set.places import NO_FILTER, DomainPlan
from slackwater.plan.physical import PhysicalPlan
from slackwater.plan.query_set import QuerySetPlan, SourcePlan
from slackwater.plan.sharing.conjuncts import Conjunct, conjuncts_of
from slackwater.plan.sharing.global_plan import ROOT, Reader, filter_tree
from slackwater.sources.codebook import Codebook
from slackwater.sources.encode import GOOD, Reasons, encode_column
from slackwater.sources.ingest import Columns, encode_rows, with_reasons
from slackwater.sources.replay import Arrivals, arrivals

Usable = Callable[[int], Flags]
"""The rows that a filter may be asked about, by its number."""


class SharedFilters:
    """Judges filters, each with a number, over the words of some rows.

    >>> from slackwater.core.schema import Kind
    >>> from slackwater.expressions.functions import typed_call
    >>> from slackwater.expressions.tree import Column, Literal
    >>> above = [typed_call(">", (Column(0, "k", Kind.INT), Literal(at, Kind.INT))) for at in (1, 2)]
    >>> filters = SharedFilters({0: [above[0]], 7: [above[1]]}, lambda stream, name: 0, len)
    >>> passed, failed = filters.judge(np.array([[1, 2, 3]]), lambda number: np.ones(3, np.bool_))
    >>> {number: found.tolist() for number, found in passed.items()}, failed
    ({0: [False, True, True], 7: [False, False, True]}, {})
    """

    def __init__(self, filters: Mapping[int, Sequence[Expr]], layout: Layout, encode_text: EncodeText) -> None:
        conjuncts = {number: conjuncts_of(one) for number, one in filters.items()}
        risky = {number for number, own in conjuncts.items() if any(one.can_fail for one in own)}
        self._alone = {number: Taking(filters[number], (), layout, encode_text) for number in sorted(risky)}
        self._tree = filter_tree("", {Reader("", n): own for n, own in conjuncts.items() if n not in risky})
        self._occurs = Counter(one for node in self._tree.nodes for one in node.predicate)
        maps = compile_maps([one.expr for one in self._occurs], layout, encode_text)
        self._maps: dict[Conjunct, Map] = dict(zip(self._occurs, maps, strict=True))

    def judge(self, words: Words, usable: Usable) -> tuple[dict[int, Flags], dict[int, DataError]]:
        """The rows that pass every filter, and the filters that failed."""
        passed, failed = self._judge_tree(words, usable), {}
        for number, taking in self._alone.items():
            try:
                passed[number] = taking.take(words, usable(number))
            except DataError as error:
                failed[number] = error
        return passed, failed

    def _judge_tree(self, words: Words, usable: Usable) -> dict[int, Flags]:
        """From the source on down; what stands in several branches is kept for the next one."""
        kept: dict[Conjunct, Flags] = {}
        alive: dict[int, Flags] = {ROOT: np.ones(words.shape[1], np.bool_)}
        passed: dict[int, Flags] = {}
        for node in self._tree.nodes:
            if node.parent is not None:
                left = alive[node.parent]
                for one in node.predicate:
                    left = left & self._true(one, words, left, kept)
                alive[node.number] = left
            passed |= {reader.position: alive[node.number] & usable(reader.position) for reader in node.readers}
        return passed

    def _true(self, conjunct: Conjunct, words: Words, left: Flags, kept: dict[Conjunct, Flags]) -> Flags:
        if conjunct in kept:
            return kept[conjunct]
        compute = self._maps[conjunct]
        if conjunct.reads_text and not left.all():
            found = np.zeros(len(left), np.bool_)
            some = np.ascontiguousarray(words[:, left])
            found[left] = compute(some, some.view(np.float64), some.shape[1]) == 1
            return found
        found = compute(words, words.view(np.float64), words.shape[1]) == 1
        if self._occurs[conjunct] > 1:
            kept[conjunct] = found
        return found


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
