"""Shards of queries that a worker keeps from one micro-batch to the next, and how one is brought up to date.

Invariant: a worker that kept the shards of a task goes on with them; where other workers ran micro-batches in between,
it reads what those wrote and nothing else; a worker that has never seen them reads all, and so does one that is to go
on with another target. Shards are kept only once their micro-batch is written: one that failed half way is of no use.
A micro-batch makes the same of the same, so it does not matter which of its attempts a worker has kept.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

from slackwater.core.quality import clause
from slackwater.core.state import StateUpdate, decode_json, encode_json, state_update
from slackwater.language.dialect import parse_quality
from slackwater.operators.stages import Tells
from slackwater.plan.physical import PhysicalPlan
from slackwater.runtime.spark.exchange.packing import FoldersRead
from slackwater.runtime.spark.exchange.writer import PartialsHeader
from slackwater.runtime.spark.members import Group, Member
from slackwater.runtime.spark.state.checkpoint import Targets, is_target
from slackwater.runtime.spark.state.page_files import Mark
from slackwater.runtime.spark.state.pages import Account
from slackwater.runtime.spark.state.root import TaskLog
from slackwater.runtime.spark.state.shard import Block, Shard
from slackwater.runtime.spark.state.shared_shard import SharedShard

STATUS = "status"
Hosting = TypeVar("Hosting", Shard, SharedShard)


@dataclass(frozen=True)
class Status:
    """Whether a query takes part, in one shard, and the latest time that the shard was given."""

    paused: bool = False
    failure: str | None = None
    now: int | None = None
    """In microseconds; None where moments do not count."""

    def as_update(self) -> StateUpdate:
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
class Place(Generic[Hosting]):
    """A query in one shard, or those that are hosted together there, between two micro-batches."""

    shard: Hosting
    statuses: dict[str, Status] = field(default_factory=dict)
    """Of every query, by its key."""


Key = tuple[int, str]
"""A shard, and a query in it."""


class Cached(NamedTuple):
    """All shards of one task in this worker, between two micro-batches."""

    mark: Mark
    """What they are up to date with."""
    places: dict[Key, Place[Any]]
    """By the keys of queries that are alone in their shards, and of groups."""
    account: Account


class TaskState:
    """The entries of all queries in the shards of one task; read when they are first asked for."""

    def __init__(self, log: TaskLog, labels: Container[int], cached: Cached | None) -> None:
        self._log, self._labels = log, labels
        self._all: dict[Key, list[StateUpdate]] | None = None
        self._inherited: list[StateUpdate] = []
        missed: list[StateUpdate] | None = None
        if cached is not None and cached.mark.epoch == log.micro_batch - 1:
            # What this worker wrote itself is what there is, whoever wrote it as well.
            self.now: Mark | None = cached.mark
            log.pages.resume(cached.mark, cached.account)
            missed = []
        else:
            if cached is None:
                # In one run there are as many tasks as before.
                log.look_back()
            self.now = log.pages.mark(None if cached is None else cached.mark.epoch)
            if cached is not None and self.now is not None:
                log.pages.account = cached.account
                missed = log.pages.between(cached.mark, self.now)
        self.missed = None if missed is None else _by_key(missed)
        """What other workers have written since the cached shards were; None where all must be read."""
        self.places = {} if cached is None or self.missed is None else cached.places

    @property
    def all(self) -> dict[Key, list[StateUpdate]]:
        if self._all is None:
            self._inherited = self._log.inherited(self._labels)
            entries = self._inherited if self.now is None else self._log.pages.everything()
            self._all = _by_key(entries)
        return self._all

    def missed_by(self, key: Key) -> list[StateUpdate]:
        """What was written of a query in a shard since it was cached."""
        return (self.missed or {}).get(key, [])

    def status(self, key: Key) -> Status:
        """Where a query stands in a shard."""
        place, missed = self.places.get(key), self.missed_by(key)
        if place is not None and not any(map(is_status, missed)):
            return place.statuses.get(key[1], Status())
        return status_among(self.all.get(key, []) if place is None else missed)

    def shard(self, member: Member, label: int, target: str | None, read: FoldersRead | None) -> Shard:
        """A query as the last micro-batch left it; with another target from now on, where one is given."""
        key = (label, member.key)
        place: Place[Shard] | None = self.places.get(key)
        missed = self.missed_by(key)
        if place is not None and target is None and not any(map(is_target, missed)):
            # Of a query that has failed only that was written.
            news = [entry for entry in missed if not is_status(entry)]
            if news:
                place.shard.restore(news)
            return place.shard
        entries = self.all.get(key, [])
        targets = Targets.among(entries, clause(member.plan.quality)).asked(target)
        plan = aimed(member.plan, targets)
        make: Callable[..., Shard] = partial(Shard, plan, member.text_rows, member.structure)
        if member.fragment is not None:
            make = partial(member.fragment.shard, member, label, plan)
        shard = make(
            targets=targets,
            tells=_told_by(member, label),
            tuples_of=_tuples_of(member, label, read),
            among_shards=len(member.shards) > 1,
        )
        known = [entry for entry in entries if not is_status(entry)]
        if known:
            # A query that failed in its first micro-batch has a status alone.
            shard.restore(known)
        return shard

    def group(self, group: Group, label: int) -> Place[SharedShard]:
        """The queries of a group as the last micro-batch left them."""
        place: Place[SharedShard] | None = self.places.get((label, group.key))
        missed = {one.key: self.missed_by((label, one.key)) for one in group.members}
        shared = self.missed_by((label, group.key))
        if place is not None:
            if not shared and not any(missed.values()):
                return place
            told = {key: status_among(of) for key, of in missed.items() if any(map(is_status, of))}
            if not any(map(is_target, (one for of in missed.values() for one in of))) and place.shard.catch_up(shared):
                for key, of in missed.items():
                    place.shard.records[key].restore(one for one in of if not is_status(one))
                return replace(place, statuses=place.statuses | told)
        return self._group_anew(group, label)

    def _group_anew(self, group: Group, label: int) -> Place[SharedShard]:
        entries = {one.key: self.all.get((label, one.key), []) for one in group.members}
        targets, plans = {}, {}
        for one in group.members:
            targets[one.key] = Targets.among(entries[one.key], clause(one.plan.quality))
            plans[one.key] = aimed(one.plan, targets[one.key])
        shard = SharedShard(group, plans, targets)
        shared = self.all.get((label, group.key), [])
        if shared:
            shard.restore(shared)
        for key, of in entries.items():
            shard.records[key].restore(one for one in of if not is_status(one))
        return Place(shard, {key: status_among(of) for key, of in entries.items()})

    def write(self, changes: Iterable[StateUpdate], keys: Container[str]) -> tuple[Mark, Account]:
        """Write a micro-batch: what has changed, and what lets go of queries that are no more. What other tasks had is
        written whole."""
        if not self._log.lasts:
            return Mark(0, ""), Account()
        written = list(changes)
        if self.missed is None:
            known = {(one.namespace, one.key) for one in written}
            gone = [(key, one) for key, mine in self.all.items() if key[1] not in keys for one in mine]
            if self.now is not None:
                written += (replaced(key, one, None) for key, one in gone)
            else:
                others = {(replaced(key, one, None).namespace, one.key) for key, one in gone} | known
                written += (one for one in self._inherited if (one.namespace, one.key) not in others)
        mark = self._log.pages.write(self.now, written)
        assert self._log.pages.account is not None
        return mark, self._log.pages.account


def replaced(key: Key, entry: StateUpdate, value: bytes | None) -> StateUpdate:
    """An entry of a query in a shard as all of a task have it, with another value."""
    return StateUpdate(f"{key[0]}/{key[1]}/{entry.namespace}", entry.key, value)


def aimed(plan: PhysicalPlan, targets: Targets) -> PhysicalPlan:
    """A plan with the target that is in force."""
    if targets.in_force == clause(plan.quality):
        return plan
    return replace(plan, quality=parse_quality(targets.in_force))


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


def _by_key(entries: Iterable[StateUpdate]) -> dict[Key, list[StateUpdate]]:
    """Entries under their own names, by shard and query."""
    found: dict[Key, list[StateUpdate]] = {}
    for entry in entries:
        label, query, namespace = entry.namespace.split("/", 2)
        found.setdefault((int(label), query), []).append(StateUpdate(namespace, entry.key, entry.value))
    return found


class CachedShards:
    """What this worker keeps, by (run of a streaming query, who runs in it, task)."""

    def __init__(self) -> None:
        self._cached: dict[tuple[str, str, int], Cached] = {}

    def take(self, run: str, who: str, task: int) -> Cached | None:
        """The shards of a task, which are not kept until they are given back."""
        return self._cached.pop((run, who, task), None)

    def keep(self, run: str, who: str, task: int, cached: Cached) -> None:
        """Keep shards whose micro-batch is written, and nothing of earlier runs of the same streaming query."""
        query = run.partition("/")[0]
        for name in [name for name in self._cached if name[0] != run and name[0].partition("/")[0] == query]:
            del self._cached[name]
        if run:
            self._cached[run, who, task] = cached

    def forget_all(self) -> None:
        """Drop everything, as a new worker would begin."""
        self._cached.clear()

    def __len__(self) -> int:
        return len(self._cached)


CACHED = CachedShards()
