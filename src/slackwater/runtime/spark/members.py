"""The queries that run as one streaming query, each as its shards and its packers know it. One alone is a set of one.

Invariant: what a query of a set does, it does as it would alone: with its own plan, its own shards and its own state.
A query that needs one shard only is given one by its name, so that such queries spread over all shards.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import quote
from zlib import crc32

from pyspark.sql import DataFrame

from slackwater.core.errors import QueryError, SlackwaterError, UsageError
from slackwater.plan.physical import PhysicalPlan
from slackwater.runtime.spark.exchange.writer import Packing
from slackwater.runtime.spark.groups import terms_of
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
        """All that there are."""
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
        """The labels of its shards."""
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
