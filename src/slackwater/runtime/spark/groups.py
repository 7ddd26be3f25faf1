"""Queries that are hosted together: those that read the same streams on the same terms, cut in the same way.

Invariant: whether a query may be hosted with others, and under which name, follows from the query alone, whoever else
there is; so queries come and go and no state is moved. All queries of a group find a tuple in the same shard, and the
same rows of a stream are good for all of them: the columns that may hold a value which no word can are a part of the
terms.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING

import pyarrow as pa

from slackwater.core.batch import TS
from slackwater.core.schema import Kind
from slackwater.disorder.release.state import NO_PARTITION
from slackwater.operators.query_set.places import DomainPlan, QueryPlace
from slackwater.plan.physical import InputPlan, PhysicalPlan
from slackwater.plan.query_set import QuerySetPlan, Unencodable
from slackwater.runtime.spark.exchange.partials import aggregate_of
from slackwater.runtime.spark.exchange.shared import SharedPacking, SharedStream, Wanting

if TYPE_CHECKING:
    from slackwater.runtime.spark.members import Member

ONE = "one"
"""The name of a query where its terms are asked for."""
SHORT = 16
"""Signs of a digest."""


def terms_of(plan: PhysicalPlan) -> str | None:
    """What queries must have in common to be hosted together, as one word; None for a query that is hosted alone."""
    # Without a key a tuple goes to several shards, or none of its results would be found; a graph orders its inputs
    # itself, so it would share nothing that is held.
    if plan.partitioning.rates or plan.release.external_sync or plan.nodes:
        return None
    whole = QuerySetPlan(unencodable=_may_be_unencodable(plan.inputs)).with_query(ONE, plan)
    keys = plan.partitioning.keys
    cut = None if keys is None else [[_at(whole, plan, s, row) for row in rows] for s, rows in enumerate(keys)]
    return sha256(repr((whole.places[ONE].domain, cut)).encode()).hexdigest()[:SHORT]


class Terms:
    """The terms of plans, each found once."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[PhysicalPlan, str | None]] = {}

    def of(self, plan: PhysicalPlan) -> str | None:
        """See `terms_of`."""
        if id(plan) not in self._known:
            self._known[id(plan)] = plan, terms_of(plan)
        return self._known[id(plan)][1]

    def alike(self, plan: PhysicalPlan, others: Iterable[PhysicalPlan]) -> list[PhysicalPlan]:
        """Those of other plans that have the same terms."""
        terms = self.of(plan)
        return [one for one in others if one is not plan and terms is not None and self.of(one) == terms]

    def shared(self, plan: PhysicalPlan, others: Iterable[PhysicalPlan]) -> bool:
        """Whether a query that is added is hosted as one of a group, given the other queries that there are then. One
        whose tuples travel as partial results is alone where it is the only one of its kind."""
        return self.of(plan) is not None and (aggregate_of(plan) is None or bool(self.alike(plan, others)))


def _may_be_unencodable(inputs: Iterable[InputPlan]) -> Unencodable:
    """Per source, the columns that may hold a value which no word can."""
    found: dict[str, frozenset[str]] = {}
    for one in inputs:
        names = {name for name, kind, _ in one.columns if _may_hold_unencodable(kind, one.stream.schema[name].arrow)}
        found[one.stream.source] = found.get(one.stream.source, frozenset()) | names
    return found


def _may_hold_unencodable(kind: Kind, arrow: pa.DataType) -> bool:
    if kind is Kind.INT:
        return bool(pa.types.is_uint64(arrow) or pa.types.is_int64(arrow))
    return kind in (Kind.TIME, Kind.DECIMAL)


def _at(whole: QuerySetPlan, plan: PhysicalPlan, stream: int, row: int) -> object:
    """What a row of a query is, whatever other rows there are."""
    source = plan.inputs[stream].stream.source
    at = _row_of_source(whole, ONE, stream, row)
    return "time" if at == TS else whole.sources[source].shipped[at - 2]


def _row_of_source(whole: QuerySetPlan, name: str, stream: int, row: int) -> int:
    """The row of a source that one of a query is."""
    place = whole.places[name]
    return whole.domains[place.domain].rows[stream][int(place.view.rows[stream, row])]


@dataclass(frozen=True)
class Group:
    """Queries that one kernel hosts in each of their shards."""

    key: str
    """The name of their common state; that of no query is like it."""
    members: tuple[Member, ...]

    @property
    def shards(self) -> tuple[int, ...]:
        """The labels of its shards."""
        return self.members[0].shards

    @property
    def timed(self) -> bool:
        """Whether the clock on the wall tells silence."""
        return self.members[0].timed

    @cached_property
    def plan(self) -> QuerySetPlan:
        """The queries by their keys, laid out together."""
        unencodable: dict[str, frozenset[str]] = {}
        for one in self.members:
            for source, names in _may_be_unencodable(one.plan.inputs).items():
                unencodable[source] = unencodable.get(source, frozenset()) | names
        return QuerySetPlan.of({one.key: one.plan for one in self.members}, unencodable)

    @property
    def domain(self) -> DomainPlan:
        """Their only clock domain."""
        return self.plan.domains[self.place(self.members[0]).domain]

    def place(self, one: Member) -> QueryPlace:
        """Where one of them finds its own."""
        return self.plan.places[one.key]

    @cached_property
    def streams(self) -> tuple[SharedStream, ...]:
        """How every stream of the domain is packed."""
        first = self.members[0]
        keys = first.plan.partitioning.keys
        found = []
        for s, source in enumerate(self.domain.sources):
            one = first.plan.inputs[s]
            cut = () if keys is None else tuple(_row_of_source(self.plan, first.key, s, row) for row in keys[s])
            slot = one.partition_slot
            partition = NO_PARTITION if slot == NO_PARTITION else _row_of_source(self.plan, first.key, s, slot)
            wanting = tuple(self._wanting(member, s) for member in self.members)
            texts = _text_rows(self.plan, source, self.domain.rows[s])
            found.append(
                SharedStream(
                    s, source, self.domain.rows[s], cut, partition, one.partition_kind is Kind.TEXT, wanting, texts
                )
            )
        return tuple(found)

    def _wanting(self, one: Member, stream: int) -> Wanting:
        mine, packing = one.plan.inputs[stream], one.packings[stream]
        names = (mine.stream.schema.time, *(name for name, _, _ in mine.columns))
        number = self.place(one).filters[stream]
        return Wanting(one.key, mine.stream.alias, number, tuple(dict.fromkeys(names)), packing.granularity)

    def packing(self, source: str) -> SharedPacking | None:
        """How a source is packed for all of them; None where they do not read it."""
        streams = tuple(one for one in self.streams if one.source == source)
        if not streams:
            return None
        some = self.members[0].packings[0]
        return SharedPacking(
            self.key, self.plan.sources[source], streams, self.shards, some.tasks, some.time_unit, some.max_ahead,
            some.complete, secrets.token_hex(8),
        )  # fmt: skip

    def planned(self, plans: Mapping[str, PhysicalPlan]) -> QuerySetPlan:
        """The same with other targets."""
        return replace(self.plan, queries={**self.plan.queries, **plans})


def _text_rows(plan: QuerySetPlan, source: str, rows: Sequence[int]) -> tuple[int, ...]:
    """Where tuples of a domain have text."""
    shipped = plan.sources[source].shipped

    def is_text(row: int) -> bool:
        what = shipped[row - 2]
        return (what[1] if isinstance(what[0], str) else what[0].kind) is Kind.TEXT

    return tuple(at for at, row in enumerate(rows) if row >= 2 and is_text(row))


def groups_of(members: Iterable[Member]) -> tuple[Group, ...]:
    """Those of queries that are hosted together, in the order of their first queries."""
    found: dict[str, list[Member]] = {}
    for one in members:
        if one.shares:
            labels = sha256(repr(one.shards).encode()).hexdigest()[:4]
            found.setdefault(f"shared-{one.shares}-{labels}", []).append(one)
    return tuple(Group(key, tuple(mine)) for key, mine in found.items())
