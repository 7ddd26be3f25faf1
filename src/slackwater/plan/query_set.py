"""A set of queries over the same streams, laid out to be read, encoded and filtered once.

Per source: the columns and computed rows that any query ships, one row each, and its distinct filters by number. Per
clock domain (queries that read the same sources, in the same order, on the same terms): the rows that its queries ship.
Per query: which row of its domain each of its own rows is, and by which filter of each source its tuples are chosen.

Invariant: plans are only ever added to or taken away from; rows and filters keep their numbers (`with_query`,
`without`), so what is held from before keeps its meaning. Two filters are one where they say the same in the same
order: what an earlier conjunct drops is not shown to a later one, and may not fail it.

A row that holds a value that no word can is rejected by the queries that read it, and moves no clock of theirs. So
queries of one domain must reject the same rows: `unencodable` names the columns in which there are such rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256

import numpy as np

from slackwater.core.batch import FIRST_COLUMN, ROW, TS
from slackwater.core.errors import UsageError
from slackwater.core.schema import Kind
from slackwater.disorder.release.state import NO_PARTITION
from slackwater.disorder.sharing.clock_domain import ClockTerms
from slackwater.disorder.sharing.run_order import NOWHERE, View
from slackwater.expressions.computed import PARTITION, Computed
from slackwater.expressions.tree import Expr, with_columns
from slackwater.operators.query_set.places import NO_FILTER, DomainPlan, QueryPlace
from slackwater.plan.physical import InputPlan, PhysicalPlan
from slackwater.plan.sharing.panes import shared_panes

Filter = tuple[Expr, ...]
Unencodable = Mapping[str, frozenset[str]]
"""Per source, the columns in which some row holds a value that no word can."""


@dataclass(frozen=True)
class SharedRow:
    """A computed row of a source, and the (query, filter) that want it: only for what they choose is it computed."""

    computed: Computed
    wanted_by: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class SourcePlan:
    """What all queries together take from a source."""

    name: str
    time: str
    """The column of event time."""
    shipped: tuple[tuple[str, Kind] | tuple[Expr, str], ...] = ()
    """What stands in the rows from FIRST_COLUMN on: a column, or an expression and its role."""
    computed: tuple[SharedRow, ...] = ()
    filters: tuple[Filter, ...] = ()
    read: Mapping[str, Kind] = field(default_factory=dict)
    """All columns that are read, those of filters among them."""
    wanted: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    """The queries that have each filter; one that nobody has any more is not judged."""

    @property
    def rows(self) -> int:
        return FIRST_COLUMN + len(self.shipped)


@dataclass(frozen=True)
class QuerySetPlan:
    """Everything that queries have in common, and where each of them finds its own.

    `queries` has the plan of each by its name, `places` where it stands.
    """

    queries: Mapping[str, PhysicalPlan] = field(default_factory=dict)
    sources: Mapping[str, SourcePlan] = field(default_factory=dict)
    domains: Mapping[str, DomainPlan] = field(default_factory=dict)
    places: Mapping[str, QueryPlace] = field(default_factory=dict)
    unencodable: Unencodable = field(default_factory=dict)

    @classmethod
    def of(cls, plans: Mapping[str, PhysicalPlan], unencodable: Unencodable | None = None) -> QuerySetPlan:
        """A set of these queries."""
        made = cls(unencodable=unencodable or {})
        for name, plan in plans.items():
            made = made.with_query(name, plan)
        return made

    def with_query(self, name: str, plan: PhysicalPlan) -> QuerySetPlan:
        """With one more; what was there keeps its numbers."""
        if name in self.queries:
            raise UsageError(f"there is a query {name} already; every query of a set needs a name of its own")
        sources = dict(self.sources)
        for one in plan.inputs:
            sources[one.stream.source] = _taking(sources.get(one.stream.source), name, one)
        domain, place = self._placed(plan, sources)
        return replace(
            self,
            queries={**self.queries, name: plan},
            sources=sources,
            domains={**self.domains, place.domain: domain},
            places={**self.places, name: place},
        )

    def without(self, name: str) -> QuerySetPlan:
        """Without one; its rows stay, because tuples that have them may be held for others."""
        if name not in self.queries:
            raise unknown(name, self.queries)
        sources = {}
        for key, source in self.sources.items():
            computed = tuple(
                replace(row, wanted_by=tuple(pair for pair in row.wanted_by if pair[0] != name))
                for row in source.computed
            )
            wanted = {number: tuple(q for q in names if q != name) for number, names in source.wanted.items()}
            sources[key] = replace(source, computed=computed, wanted=wanted)
        queries = {key: plan for key, plan in self.queries.items() if key != name}
        places = {key: place for key, place in self.places.items() if key != name}
        return replace(self, queries=queries, sources=sources, places=places)

    def with_plan(self, name: str, plan: PhysicalPlan) -> QuerySetPlan:
        """With another plan for a query that differs in its target alone."""
        if name not in self.queries:
            raise unknown(name, self.queries)
        return replace(self, queries={**self.queries, name: plan})

    def _placed(self, plan: PhysicalPlan, sources: Mapping[str, SourcePlan]) -> tuple[DomainPlan, QueryPlace]:
        # Which clock is asked first depends on the order of FROM, and a far one follows another: so order counts.
        inputs = plan.inputs
        names = tuple(one.stream.source for one in inputs)
        partitions = tuple(_partition(one) for one in inputs)
        options = plan.options
        unencodable = tuple(
            tuple(sorted(self.unencodable.get(one.stream.source, frozenset()) & _read(one).keys())) for one in inputs
        )
        # A stream read twice is one table: what one reading rejects the other must, too.
        terms = (
            names,
            options.max_ahead,
            options.max_behind,
            options.idle_timeout,
            options.idle_after,
            partitions,
            unencodable,
        )
        key = f"{'+'.join(names)}-{sha256(repr(terms).encode()).hexdigest()[:12]}"
        before = self.domains.get(key)
        rows = [list(of) for of in before.rows] if before is not None else [[TS, ROW] for _ in inputs]
        width = max(plan.operator.rows, *(one.rows for one in inputs))
        view = np.full((len(inputs), width), NOWHERE, np.int64)
        for s, one in enumerate(inputs):
            for own, row in _rows_of(one, sources[one.stream.source]).items():
                if row not in rows[s]:
                    rows[s].append(row)
                view[s, own] = rows[s].index(row)
        slots = tuple(
            NO_PARTITION if what is None else rows[s].index(_row_of(sources[names[s]], what))
            for s, what in enumerate(partitions)
        )
        clock_terms = ClockTerms(
            len(inputs), options.max_ahead, options.max_behind, options.idle_timeout, options.idle_after,
            slots if any(slot != NO_PARTITION for slot in slots) else (),
        )  # fmt: skip
        domain = DomainPlan(key, names, clock_terms, tuple(map(tuple, rows)), unencodable)
        filters = tuple(
            sources[name].filters.index(_filter_of(one)) if one.stream.filters else NO_FILTER
            for name, one in zip(names, inputs, strict=True)
        )
        panes = shared_panes(plan, lambda row: int(view[0, row]))
        return domain, QueryPlace(key, View(np.arange(len(inputs)), view[:, : plan.operator.rows]), filters, panes)


def unknown(name: str, queries: Mapping[str, object]) -> UsageError:
    """There is no such query."""
    known = ", ".join(queries) or "none"
    return UsageError(f"there is no query {name}; known are: {known}")


def _taking(source: SourcePlan | None, name: str, one: InputPlan) -> SourcePlan:
    """A source from which one more input is taken."""
    time = one.stream.schema.time
    if source is None:
        source = SourcePlan(one.stream.source, time)
    if source.time != time:
        raise UsageError(
            f"query {name} takes {time} as the event time of stream {one.stream.source}, and others {source.time}; all"
            " queries of a set read a stream by one time"
        )
    filters, number, wanted = source.filters, NO_FILTER, dict(source.wanted)
    if one.stream.filters:
        chosen = _filter_of(one)
        filters = filters if chosen in filters else (*filters, chosen)
        number = filters.index(chosen)
        wanted[number] = tuple(dict.fromkeys((*wanted.get(number, ()), name)))
    shipped = list(source.shipped)
    for column, kind, row in one.columns:
        if row < one.rows and (column, kind) not in shipped:
            shipped.append((column, kind))
    computed = list(source.computed)
    for each in one.computed:
        what = (_on_its_own(each.expr), each.role)
        if what not in shipped:
            shipped.append(what)
            computed.append(SharedRow(Computed(*what[:1], FIRST_COLUMN + len(shipped) - 1, what[1]), ()))
        row = FIRST_COLUMN + shipped.index(what)
        at = next(at for at, shared in enumerate(computed) if shared.computed.row == row)
        wanted_of = NO_FILTER if each.role == PARTITION else number
        pairs = dict.fromkeys((*computed[at].wanted_by, (name, wanted_of)))
        computed[at] = replace(computed[at], wanted_by=tuple(pairs))
    return SourcePlan(
        source.name, time, tuple(shipped), tuple(computed), filters, {**source.read, **_read(one)}, wanted
    )


def _rows_of(one: InputPlan, source: SourcePlan) -> dict[int, int]:
    """The row of the source for each row that an input ships."""
    rows = {TS: TS, ROW: ROW}
    rows |= {row: _row_of(source, (name, kind)) for name, kind, row in one.columns if row < one.rows}
    return rows | {each.row: _row_of(source, (_on_its_own(each.expr), each.role)) for each in one.computed}


def _row_of(source: SourcePlan, what: tuple[object, object]) -> int:
    return FIRST_COLUMN + list(source.shipped).index(what)  # type: ignore[arg-type]


def _read(one: InputPlan) -> dict[str, Kind]:
    return {name: kind for name, kind, _ in one.columns}


def _partition(one: InputPlan) -> tuple[str, Kind] | tuple[Expr, str] | None:
    """What names the partition of a tuple, as `SourcePlan.shipped` has it."""
    for name, kind, row in one.columns:
        if row == one.partition_slot:
            return name, kind
    return next(((_on_its_own(each.expr), each.role) for each in one.computed if each.row == one.partition_slot), None)


def _filter_of(one: InputPlan) -> Filter:
    return tuple(_on_its_own(conjunct) for conjunct in one.stream.filters)


def _on_its_own(expr: Expr) -> Expr:
    """An expression over one stream, wherever that stands in FROM."""
    return with_columns(expr, lambda column: replace(column, stream=0))
