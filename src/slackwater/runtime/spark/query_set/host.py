"""The shards of many queries under one key of the stateful operator.

Every query has a `Shard` of its own, which is given the lines that name it as their reader and nothing else. So
results, late rows and counts of a query are those of the query alone, over the same micro-batches.

Invariant: a query takes part in a micro-batch that brings lines or a message for it, and in no other. State has the
entries of each query under its key, and is written once a micro-batch for all of them. A query that fails emits nothing
of the micro-batch it failed in, and its state stays as it was before; the others go on. Entries of queries that are no
longer in the set are dropped.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar, NamedTuple

import pyarrow as pa

from slackwater.core.quality import clause
from slackwater.core.state import StateUpdate, decode_json, encode_json, state_update
from slackwater.core.time import DAY, MILLISECOND
from slackwater.observe.imbalance import ShardLoad
from slackwater.runtime.side_outputs.rows import REJECTED, example_of
from slackwater.runtime.spark.exchange.format import as_bytes
from slackwater.runtime.spark.folders import WRITTEN, Folder, TaskFiles
from slackwater.runtime.spark.functions import Shipped, register_here
from slackwater.runtime.spark.output_schema import LATENCY, METRICS
from slackwater.runtime.spark.query_set.control import END, FAIL, PAUSE, RESUME, TARGET, SetMessage
from slackwater.runtime.spark.query_set.members import Member
from slackwater.runtime.spark.query_set.packing import FAILED, FAILURES, reason_of
from slackwater.runtime.spark.state.pages import Account, Mark, PageStore
from slackwater.runtime.spark.state.shard import Block, Shard
from slackwater.runtime.spark.state.shard_task import (
    current,
    emitted_tables,
    forget_earlier_runs,
    query_run,
    task_number,
)

EMITTED = "query string, kind string, note string, block binary"
"""As of a query alone, with the key of the query."""
EmittedLine = tuple[str, str, str, bytes | None]
"""A row of them."""
STANDING = "standing"
MOST_WAITING = 1 << 22
"""Bytes of blocks that are gathered before they leave."""
Output = tuple[str, str]
"""The key of a query, and a kind of rows."""
HEARD = (PAUSE, RESUME, TARGET, FAIL, END)
"""Messages that shards hear; the others are for whoever starts the set."""
Emitted = tuple[str, str, pa.Table | None]
"""Kind, note and rows."""


@dataclass(frozen=True)
class HostedSet:
    """A set of queries as its shards know it."""

    members: tuple[Member, ...]
    functions: tuple[Shipped, ...] = ()
    folders: Mapping[Output, Folder] = field(default_factory=dict)
    """Outputs that shards write themselves."""
    emits_all: bool = True
    """Whether the rows of those are handed on as well."""
    tells_latency: bool = False
    """Whether shards say how long results have waited, for a report."""
    takes: ClassVar[tuple[str, ...]] = ("readers", "part", "header", "block", "rejected_rows")
    emits: ClassVar[str] = EMITTED

    def host(self, store: PageStore, files: TaskFiles) -> SetHost:
        """What runs one shard of every query, over the state of that key; `files` take what goes to folders."""
        return SetHost(self, store, files)

    def written(self, output: Output, name: str) -> EmittedLine:
        """The line that tells of a file with the rows of an output."""
        return output[0], WRITTEN, f"{output[1]}/{name}", None


@dataclass(frozen=True)
class Standing:
    """Whether a query takes part, in one shard."""

    paused: bool = False
    failure: str | None = None
    wake: int | None = None
    """When, in microseconds, its streams would be silent for too long; None where that is not timed."""


@dataclass(frozen=True)
class Place:
    """One query in one shard, between two micro-batches."""

    shard: Shard
    standing: Standing


@dataclass
class Heard:
    """What one micro-batch brings for one query."""

    blocks: list[Block] = field(default_factory=list)
    messages: list[SetMessage] = field(default_factory=list)
    failure: str | None = None


@dataclass(frozen=True)
class Turned:
    """What one query makes of one micro-batch."""

    place: Place | None
    """None where nobody has looked at its state."""
    emitted: list[Emitted] = field(default_factory=list)
    changes: list[StateUpdate] = field(default_factory=list)


class Kept(NamedTuple):
    """The queries of one shard in this worker, between two micro-batches."""

    mark: Mark
    """What they are up to date with."""
    places: dict[str, Place]
    account: Account


_kept: dict[tuple[str, str], Kept] = {}
"""By (query run, shard)."""


class SetState:
    """The entries of all queries under one key, by the key of each query; read when they are first asked for."""

    def __init__(self, store: PageStore, kept: Kept | None, now: Mark | None) -> None:
        self._store, self.now = store, now
        self._all: dict[str, list[StateUpdate]] | None = None
        missed = None
        if kept is not None and now is not None:
            store.account = kept.account
            missed = store.between(kept.mark, now)
        self.missed = None if missed is None else _by_query(missed)
        """What other workers have written since the kept shards were; None where all must be read."""
        self.places = {} if kept is None or self.missed is None else kept.places

    @property
    def all(self) -> dict[str, list[StateUpdate]]:
        """Everything."""
        if self._all is None:
            self._all = _by_query([] if self.now is None else self._store.everything())
        return self._all


@dataclass(frozen=True)
class QueryEntries:
    """The entries of one query, as its shard knows them."""

    state: SetState
    key: str

    def everything(self) -> list[StateUpdate]:
        """All entries."""
        return self.state.all.get(self.key, [])

    def between(self, then: Mark, now: Mark) -> list[StateUpdate] | None:
        """What was written since the shards were kept."""
        return None if self.state.missed is None else self.state.missed.get(self.key, [])


class SetHost:
    """One key of the stateful operator in one task."""

    def __init__(self, hosted: HostedSet, store: PageStore, files: TaskFiles) -> None:
        register_here(hosted.functions)
        self._files = files
        self._hosted = hosted
        self._members = {one.key: one for one in hosted.members}
        self._store = store

    def take_in(self, label: int, lines: Iterable[tuple[Any, ...]], now: int | None) -> Iterator[list[EmittedLine]]:
        """A micro-batch with these lines; `now` is the moment where moments count."""
        yield from self._turn(label, lines, now)

    def on_processing_time(self, label: int, now: int) -> Iterator[list[EmittedLine]]:
        """A micro-batch in which nothing arrived."""
        yield from self._turn(label, (), now)

    def wake_at(self, now: int) -> int:
        """When, in milliseconds, some query would take its streams for silent."""
        timeouts = [one.plan.options.idle_timeout or DAY for one in self._members.values() if one.beats]
        return (now + min(timeouts, default=DAY)) // MILLISECOND + 1

    def _turn(self, label: int, lines: Iterable[tuple[Any, ...]], now: int | None) -> Iterator[list[EmittedLine]]:
        mine = [one for one in self._members.values() if label in one.shards]
        heard = _heard({one.key for one in mine}, lines)
        name = (query_run(), str(label))
        before = self._store.mark()
        # Shards are kept again only once their micro-batch is written: one that failed half way is of no use.
        kept = _kept.pop(name, None)
        state = SetState(self._store, kept, before)
        # Who reads all entries sees those of queries that are gone.
        changes = _gone(state.all, self._members) if state.missed is None else []
        places: dict[str, Place] = {}
        waiting: list[EmittedLine] = []
        for one in mine:
            turned = turn(one, label, heard.get(one.key), state, now if one.beats else None)
            if self._hosted.tells_latency and turned.emitted and turned.place is not None:
                turned.emitted.append((LATENCY, json.dumps(turned.place.shard.latency.reported()), None))
            waiting += self._handed_on(one.key, turned.emitted)
            # Few large frames in place of many small ones: each is a message to the JVM.
            if sum(len(line[3] or b"") for line in waiting) >= MOST_WAITING:
                yield waiting
                waiting = []
            changes += (StateUpdate(f"{one.key}/{entry.namespace}", entry.key, entry.value) for entry in turned.changes)
            if turned.place is not None:
                places[one.key] = turned.place
        if waiting:
            yield waiting
        mark = self._store.write(before, changes)
        if name[0]:
            forget_earlier_runs(_kept, name[0])
            assert self._store.account is not None
            _kept[name] = Kept(mark, places, self._store.account)

    def _handed_on(self, key: str, emitted: Sequence[Emitted]) -> Iterator[EmittedLine]:
        """The lines of what a query emits, once that which goes to folders is written."""
        for kind, note, rows in emitted:
            folder = self._hosted.folders.get((key, kind))
            if folder is not None and rows is not None:
                self._files.add((key, kind), folder, rows)
            if rows is None or self._hosted.emits_all or (key, kind) not in self._hosted.folders:
                yield key, kind, note, None if rows is None else as_bytes(rows)


def _heard(members: set[str], lines: Iterable[tuple[Any, ...]]) -> dict[str, Heard]:
    """The lines of a micro-batch, by the query that reads them."""
    heard: dict[str, Heard] = {}
    for readers, part, header, block, away in lines:
        if readers is None:
            message = SetMessage.of_json(header)
            for key in members if message.kind == END else members & {message.key or ""}:
                if message.kind in HEARD:
                    heard.setdefault(key, Heard()).messages.append(message)
            continue
        told = json.loads(header)
        for key, stream in json.loads(readers):
            if key not in members:
                continue
            mine = heard.setdefault(key, Heard())
            if FAILED in told:
                mine.failure = told[FAILED]
            else:
                mine.blocks.append(Block(int(stream), int(part), told, block, away))
    return heard


def turn(member: Member, label: int, heard: Heard | None, state: SetState, now: int | None) -> Turned:
    """One query in one micro-batch of one shard; `now` is the moment where moments count for it."""
    entries, place = QueryEntries(state, member.key), state.places.get(member.key)
    missed = (state.missed or {}).get(member.key, [])
    if heard is None and now is None:
        return Turned(None if missed else place)
    if place is not None and not any(map(_is_standing, missed)):
        before = place.standing
    else:
        before = _standing(entries.everything())
    if heard is None and (before.wake is None or now is None or now < before.wake):
        return Turned(None if missed else place)
    after, target, end = _combined(before, heard or Heard(), clause(member.plan.quality))
    known = None if place is None or state.now is None else (state.now, place.shard)

    def shard_now(target: str | None = None) -> Shard:
        there = state.now if known is not None or entries.everything() else None
        return current(member.hosted, entries, known, there, target, label)

    shard = shard_now(target)
    emitted: list[Emitted] = []
    changes: list[StateUpdate] = []
    if after.failure is None and not after.paused:
        try:
            emitted = list(_epoch(shard, heard, now, end))
            changes = list(shard.snapshot_delta())
            if now is not None:
                after = replace(after, wake=now + (member.plan.options.idle_timeout or DAY))
        except FAILURES as error:
            # As it was before the micro-batch, by what is written.
            known = None
            shard, emitted, after = shard_now(), [], replace(after, failure=reason_of(error))
    elif target is not None or (after.paused and after.failure is None):
        # Who rests keeps its clocks right, so that it knows the time when it goes on.
        if after.failure is None and heard is not None:
            emitted = list(_rejected_rows(heard))
            shard.pass_by(heard.blocks, now)
        changes = list(shard.snapshot_delta())
    if after != before:
        changes.append(state_update(STANDING, "", encode_json(asdict(after))))
    blocks = [] if heard is None else heard.blocks
    examples = {
        member.plan.inputs[one.stream].stream.alias: example_of(one.rejected_rows)
        for one in blocks
        if one.rejected_rows is not None
    }
    progress = replace(
        shard.progress(ShardLoad(label, task_number()), examples),
        query=member.key, paused=after.paused, failure=after.failure,
    )  # fmt: skip
    emitted.append((METRICS, json.dumps(progress.as_json()), None))
    return Turned(Place(shard, after), emitted, changes)


def _epoch(shard: Shard, heard: Heard | None, now: int | None, end: bool) -> Iterator[Emitted]:
    if heard is None:
        assert now is not None
        emissions = shard.on_processing_time(now)
    else:
        yield from _rejected_rows(heard)
        emissions = shard.epoch(heard.blocks, now, end)
    for kind, rows in emitted_tables(shard, emissions):
        yield kind, "", rows


def _rejected_rows(heard: Heard) -> Iterator[Emitted]:
    for block in heard.blocks:
        if block.rejected_rows is not None:
            yield REJECTED, "", pa.ipc.open_stream(block.rejected_rows).read_all()


def _combined(standing: Standing, heard: Heard, stated: str) -> tuple[Standing, str | None, bool]:
    """What is in force in a micro-batch, the target that was set in it, and whether the input has ended."""
    target, end = None, False
    for one in sorted(heard.messages, key=lambda message: message.number):
        if one.kind in (PAUSE, RESUME):
            standing = replace(standing, paused=one.kind == PAUSE)
        elif one.kind == TARGET and one.text == stated:
            target = one.target
        elif one.kind == FAIL and standing.failure is None:
            standing = replace(standing, failure=one.reason)
        end = end or one.kind == END
    if heard.failure is not None and standing.failure is None and not standing.paused:
        standing = replace(standing, failure=heard.failure)
    return standing, target, end


def _standing(entries: Iterable[StateUpdate]) -> Standing:
    for entry in entries:
        if _is_standing(entry) and entry.value is not None:
            return Standing(**decode_json(entry.value))
    return Standing()


def _is_standing(entry: StateUpdate) -> bool:
    return entry.namespace == STANDING


def _by_query(entries: Iterable[StateUpdate]) -> dict[str, list[StateUpdate]]:
    """Entries without the key of their query, by that key."""
    found: dict[str, list[StateUpdate]] = {}
    for entry in entries:
        key, _, namespace = entry.namespace.partition("/")
        found.setdefault(key, []).append(StateUpdate(namespace, entry.key, entry.value))
    return found


def _gone(entries: dict[str, list[StateUpdate]], members: Iterable[str]) -> list[StateUpdate]:
    """What lets go of the entries of queries that are not in the set."""
    known = set(members)
    return [
        StateUpdate(f"{key}/{one.namespace}", one.key, None)
        for key, mine in entries.items()
        if key not in known
        for one in mine
    ]
