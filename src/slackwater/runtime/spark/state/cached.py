"""Shards of queries that a worker keeps from one micro-batch to the next, and how one is brought up to date.

Invariant: a worker that kept a shard goes on with it; where other workers ran micro-batches in between, it reads what
those wrote and nothing else; a worker that has never seen the shard reads all of it, and so does one that is to go on
with another target. A shard is kept only once its micro-batch is written: one that failed half way is of no use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import NamedTuple

from slackwater.core.quality import clause
from slackwater.core.state import StateUpdate, decode_json, encode_json, state_update
from slackwater.language.clauses import parse_quality
from slackwater.operators.guarded_query import Tells
from slackwater.runtime.spark.exchange.packing import FoldersRead
from slackwater.runtime.spark.exchange.partials import PartialsHeader
from slackwater.runtime.spark.members import Member
from slackwater.runtime.spark.state.checkpoint import Targets, is_target
from slackwater.runtime.spark.state.pages import Account, Mark, PageStore
from slackwater.runtime.spark.state.shard import Block, Shard

STATUS = "status"


@dataclass(frozen=True)
class Status:
    """Whether a query takes part, in one shard, and the latest moment that the shard was told."""

    paused: bool = False
    failure: str | None = None
    now: int | None = None
    """In microseconds; None where moments do not count."""

    def as_update(self) -> StateUpdate:
        """As an entry of state."""
        return state_update(STATUS, "", encode_json(asdict(self)))


def status_among(entries: Iterable[StateUpdate]) -> Status:
    """The status that entries tell."""
    for entry in entries:
        if is_status(entry) and entry.value is not None:
            return Status(**decode_json(entry.value))
    return Status()


def is_status(entry: StateUpdate) -> bool:
    """Whether an entry of state is a status."""
    return entry.namespace == STATUS


@dataclass(frozen=True)
class Place:
    """One query in one shard, between two micro-batches."""

    shard: Shard
    status: Status


class Cached(NamedTuple):
    """The queries of one shard in this worker, between two micro-batches."""

    mark: Mark
    """What they are up to date with."""
    places: dict[str, Place]
    account: Account


class ShardState:
    """The entries of all queries in one shard, by the key of each query; read when they are first asked for."""

    def __init__(self, store: PageStore, cached: Cached | None) -> None:
        self._store, self.now = store, store.mark()
        self._all: dict[str, list[StateUpdate]] | None = None
        missed = None
        if cached is not None and self.now is not None:
            store.account = cached.account
            missed = store.between(cached.mark, self.now)
        self.missed = None if missed is None else _by_query(missed)
        """What other workers have written since the cached shards were; None where all must be read."""
        self.places = {} if cached is None or self.missed is None else cached.places

    @property
    def all(self) -> dict[str, list[StateUpdate]]:
        """Everything."""
        if self._all is None:
            self._all = _by_query([] if self.now is None else self._store.everything())
        return self._all

    def missed_by(self, key: str) -> list[StateUpdate]:
        """What was written of one query since it was cached."""
        return (self.missed or {}).get(key, [])

    def status(self, key: str) -> Status:
        """Where a query stands."""
        place, missed = self.places.get(key), self.missed_by(key)
        if place is not None and not any(map(is_status, missed)):
            return place.status
        return status_among(self.all.get(key, []) if place is None else missed)

    def shard(self, member: Member, label: int, target: str | None, read: FoldersRead | None) -> Shard:
        """A query as the last micro-batch left it; with another target from now on, where one is given."""
        place, missed = self.places.get(member.key), self.missed_by(member.key)
        if place is not None and target is None and not any(map(is_target, missed)):
            if missed:
                place.shard.restore(entry for entry in missed if not is_status(entry))
            return place.shard
        entries = self.all.get(member.key, [])
        targets = Targets.among(entries, clause(member.plan.quality)).asked(target)
        plan = member.plan
        if targets.in_force != clause(plan.quality):
            plan = replace(plan, quality=parse_quality(targets.in_force))
        shard = Shard(
            plan,
            member.text_rows,
            member.structure,
            targets=targets,
            tells=_told_by(member, label),
            tuples_of=_tuples_of(member, label, read),
        )
        if entries:
            shard.restore(entry for entry in entries if not is_status(entry))
        return shard

    def gone(self, members: Iterable[str]) -> list[StateUpdate]:
        """What lets go of the entries of queries that are no more; they are looked for where all is read."""
        if self.missed is not None:
            return []
        known = set(members)
        return [
            StateUpdate(f"{key}/{one.namespace}", one.key, None)
            for key, mine in self.all.items()
            if key not in known
            for one in mine
        ]


def _told_by(member: Member, label: int) -> Tells | None:
    """Of which tuples a shard tells; None: of all that it has."""
    cut = member.plan.partitioning.cut(len(member.shards))
    return None if cut is None else partial(cut.tells, member.shards.index(label))


def _tuples_of(member: Member, label: int, read: FoldersRead | None) -> Callable[[Block], bytes | None] | None:
    """Reads again what a block of a shard was made of."""
    if read is None:
        return None

    def again(block: Block) -> bytes | None:
        told = PartialsHeader.of_json(block.header["partials"])
        return read.block_again(told, member.packings[block.stream], label)

    return again


def of_query(key: str, changes: Iterable[StateUpdate]) -> Iterable[StateUpdate]:
    """Entries as all queries of a shard have them together."""
    return (StateUpdate(f"{key}/{one.namespace}", one.key, one.value) for one in changes)


def _by_query(entries: Iterable[StateUpdate]) -> dict[str, list[StateUpdate]]:
    """Entries without the key of their query, by that key."""
    found: dict[str, list[StateUpdate]] = {}
    for entry in entries:
        key, _, namespace = entry.namespace.partition("/")
        found.setdefault(key, []).append(StateUpdate(namespace, entry.key, entry.value))
    return found


class CachedShards:
    """What this worker keeps, by (run of a streaming query, who runs in it, shard)."""

    def __init__(self) -> None:
        self._cached: dict[tuple[str, str, int], Cached] = {}

    def take(self, run: str, who: str, label: int) -> Cached | None:
        """A shard, which is not kept until it is given back."""
        return self._cached.pop((run, who, label), None)

    def keep(self, run: str, who: str, label: int, cached: Cached) -> None:
        """Keep a shard whose micro-batch is written, and nothing of earlier runs of the same streaming query."""
        query = run.partition("/")[0]
        for name in [name for name in self._cached if name[0] != run and name[0].partition("/")[0] == query]:
            del self._cached[name]
        if run:
            self._cached[run, who, label] = cached

    def forget_all(self) -> None:
        """Let go of everything, as a new worker would begin."""
        self._cached.clear()

    def __len__(self) -> int:
        return len(self._cached)


CACHED = CachedShards()
