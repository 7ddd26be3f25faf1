"""The queries that run as one streaming query, each as its shards and its packers know it. One alone is a set of one.

Queries that read the same streams on the same terms, cut in the same way, are hosted together, as a group.

Invariant: what a query of a set does, it does as it would alone: with its own plan, its own shards and its own state.
A query that needs one shard only is given one by its name, so that such queries spread over all shards. Whether a query
may be hosted with others, and under which name, follows from the query alone, whoever else there is; so queries come
and go and no state is moved. All queries of a group find a tuple in the same shard, and the same rows of a stream are
good for all of them: the columns that may hold a value which no word can are a part of the terms.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from typing import Any, Protocol
from urllib.parse import quote
from zlib import crc32

import pyarrow as pa
from pyspark.sql import DataFrame

from slackwater.core.batch import TS
from slackwater.core.errors import QueryError, SlackwaterError, UsageError
from slackwater.core.schema import Kind
from slackwater.disorder.release.state import NO_PARTITION
from slackwater.operators.query_set.places import DomainPlan, QueryPlace
from slackwater.plan.physical import InputPlan, PhysicalPlan
from slackwater.plan.query_set import QuerySetPlan, Unencodable
from slackwater.runtime.spark.exchange.shared import SharedPacking, SharedStream, Wanting
from slackwater.runtime.spark.exchange.writer import Packing, aggregate_of
from slackwater.runtime.spark.query import check_plan, packings_of, planned_over
from slackwater.runtime.spark.state.checkpoint import structure

Texts = Mapping[str, str] | Iterable[tuple[str, str]]
ALONE = "query"
"""The name of a query that was not given one."""


@dataclass(frozen=True)
class KeyGroups:
    """Labels of shards, and the tasks that run them: task `label % tasks` runs one."""

    groups: int
    tasks: int

    @property
    def labels(self) -> range:
        return range(self.groups)

    def shards_of(self, name: str, plan: PhysicalPlan, groups: int | None = None) -> tuple[int, ...]:
        """The shards of a query, or of those that are hosted together under a name: as many as asked for, the first by
        the name, or that one alone.

        >>> KeyGroups(4, 2).labels[1:]
        range(1, 4)
        """
        wanted = plan.partitioning.shards(min(groups or self.groups, self.groups))
        first = 0 if name == ALONE else crc32(name.encode()) % self.groups
        labels = tuple(self.labels)
        return (labels[first:] + labels[:first])[:wanted]


class Fragment(Protocol):
    """A part of a query that runs in two stages."""

    def shard(self, one: Member, label: int, plan: PhysicalPlan, **more: Any) -> Any:
        """An empty shard of it; `more` is what every shard is given."""


@dataclass(frozen=True)
class Member:
    """One query of a set."""

    name: str
    generation: int
    """The number of the message that added it: tells it from an earlier query of the same name."""
    plan: PhysicalPlan
    packings: tuple[Packing, ...]
    """How each of its inputs is packed."""
    structure: str
    """What its state depends on."""
    timed: bool
    """Whether the silence of its streams is timed by the clock on the wall."""
    shares: str = ""
    """What those that it is hosted with have in common; empty where it is hosted alone."""
    fragment: Fragment | None = None
    """Which part of the query this is; None: all of it."""

    @property
    def key(self) -> str:
        """The name of its state and of its rows; it has no slash.

        >>> key_of("a/b", 3)
        'a%2Fb.3'
        """
        return key_of(self.name, self.generation)

    @property
    def shards(self) -> tuple[int, ...]:
        return self.packings[0].shards

    @property
    def text_rows(self) -> tuple[tuple[int, ...], ...]:
        """Of each input, the rows that hold text."""
        return tuple(packing.text_rows for packing in self.packings)


def key_of(name: str, generation: int) -> str:
    """See `Member.key`."""
    return f"{quote(name, safe='')}.{generation}"


def member(
    name: str,
    generation: int,
    plan: PhysicalPlan,
    cut: KeyGroups,
    time_unit: str,
    *,
    groups: int | None = None,
    live: bool = False,
    complete: bool = False,
    shared: bool = False,
) -> Member:
    """A query with its shards: so many key groups, or all; of a `live` query silence is timed by the clock on the
    wall, input that is `complete` is flushed, and one that is `shared` is hosted with others of its terms."""
    shares = (terms_of(plan) if shared else None) or ""
    own = cut.shards_of(shares or name, plan, groups)
    timed = live and not complete and plan.options.idle_timeout is not None
    try:
        check_plan(plan, timed)
    except UsageError as error:
        raise type(error)(f"{named(name)}{error}") from None
    packings = tuple(packings_of(plan, own, time_unit, cut.tasks, complete))
    return Member(name, generation, plan, packings, structure(plan, own, time_unit, timed), timed, shares)


def named(name: str) -> str:
    """How an error begins that is one of a query among others."""
    return "" if name == ALONE else f"query {name}: "


def named_texts(queries: Texts) -> dict[str, str]:
    """The texts by their names; two of one name are refused."""
    given = list(queries.items()) if isinstance(queries, Mapping) else list(queries)
    texts: dict[str, str] = {}
    for name, text in given:
        if not isinstance(name, str) or not name:
            raise UsageError(f"{name!r} is no name of a query; name it with a text that is not empty")
        if name in texts:
            raise UsageError(f"there are two queries of the name {name}; every query of a set needs a name of its own")
        texts[name] = text
    if not texts:
        raise UsageError("name at least one query: queries={'name': 'SELECT ...'}")
    return texts


def planned_members(
    texts: Mapping[str, str], streams: Mapping[str, DataFrame], time: str, time_unit: str
) -> dict[str, PhysicalPlan]:
    """The plan of every query; the error of one names it."""
    return dict(_planned(texts, streams, time, time_unit))


def _planned(
    texts: Mapping[str, str], streams: Mapping[str, DataFrame], time: str, time_unit: str
) -> Iterator[tuple[str, PhysicalPlan]]:
    for name, text in texts.items():
        try:
            yield name, planned_over(text, streams, time, time_unit, stacklevel=5)[1]
        except QueryError as error:
            raise QueryError(f"{named(name)}{error.message}", error.text, error.start, error.stop) from None
        except SlackwaterError as error:
            raise type(error)(f"{named(name)}{error}") from None


def columns_read(members: Sequence[Member], source: str, time: str, columns: Iterable[str]) -> list[str]:
    """Those of the columns of a source that some query reads; of one that none reads, its time."""
    names = [time]
    for one in members:
        for packing in one.packings:
            if packing.plan.stream.source == source:
                names += packing.read_from(columns)
    return list(dict.fromkeys(names))


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
        return self.members[0].shards

    @property
    def timed(self) -> bool:
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
