"""What a micro-batch brings to one task, sorted by shard and by query: rows, changes to hear, and rows that only pass
through; and what a query reports once it is done.

Invariant: a header comes once a task, with the line of the first of its shards that a query has there; all shards of
the query hear it, and only the query's first shard counts what it counts. Messages are heard in the order of their
numbers.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from slackwater.observe.imbalance import ShardLoad
from slackwater.observe.value import QueryProgress
from slackwater.runtime.side_outputs.collectors import REJECTED, example_of
from slackwater.runtime.spark.control import END, FAIL, PAUSE, PIECE, RESUME, TARGET, Message
from slackwater.runtime.spark.exchange.format import FAILED, UNCOUNTED, parse_header
from slackwater.runtime.spark.exchange.packing import NOW, PASSED, TAPPED
from slackwater.runtime.spark.members import Member
from slackwater.runtime.spark.output_schema import Emitted
from slackwater.runtime.spark.state.cached import Status
from slackwater.runtime.spark.state.record import QueryRecord
from slackwater.runtime.spark.state.shard import Block

HEARD = (PAUSE, RESUME, TARGET, FAIL, PIECE, END)
"""Messages that shards hear; the others are for whoever starts queries."""


class Reader(Protocol):
    """A query, or a group of queries that are hosted together."""

    @property
    def key(self) -> str:
        """The name of its state."""

    @property
    def shards(self) -> tuple[int, ...]:
        """The labels of its shards."""


@dataclass
class Delivery:
    """What one micro-batch brings for one query in one shard."""

    blocks: list[Block] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    failure: str | None = None
    """Why the query has failed where its rows were packed."""

    @property
    def pieces(self) -> list[Message]:
        """The pieces of a history that it brings."""
        return [one for one in self.messages if one.kind == PIECE]


class _Header(NamedTuple):
    counted: dict[str, Any]
    uncounted: dict[str, Any]
    rejected_rows: Any


class _Tuples(NamedTuple):
    block: Any
    partials: Any


NOTHING = _Tuples(None, None)
Lot = tuple[str, int]
"""The readers of a table that was packed, and its number."""


class Inbox:
    """The lines of one task; bytes stay where they are."""

    def __init__(self, members: Sequence[Reader], batches: Iterable[pa.RecordBatch]) -> None:
        self._members = members
        self.messages: list[Message] = []
        """Control messages, for whoever hears them."""
        self._headers: dict[Lot, _Header] = {}
        self._tuples: dict[int, dict[Lot, _Tuples]] = defaultdict(dict)
        self._readers: dict[str, dict[str, list[int]]] = {}
        self.tapped: list[tuple[str, Any]] = []
        """Rows of sources on their way to the driver."""
        self.passed: list[Emitted] = []
        """What a stage below has emitted for others."""
        self.now: int | None = None
        """When the micro-batch began, in microseconds, where its lines tell that."""
        self.is_heartbeat = False
        """Whether all tasks got it."""
        for batch in batches:
            self._sort(batch)

    def _sort(self, batch: pa.RecordBatch) -> None:
        names = ("shard", "readers", "part", "header")
        bytes_of = (_buffers(batch.column(name)) for name in ("block", "partials", "rejected_rows"))
        columns = (batch.column(name).to_pylist() for name in names)
        if NOW in batch.schema.names and batch.num_rows:
            self.now = batch.column(NOW)[0].as_py()
        for shard, readers, part, header, block, partials, away in zip(*columns, *bytes_of, strict=True):
            if readers is None:
                self.messages.append(Message.of_json(header))
            elif readers == PASSED:
                query, kind, note = json.loads(header)
                self.passed.append(Emitted(query, kind, note, block=None if block is None else block.to_pybytes()))
            elif readers == NOW:
                self.is_heartbeat = True
            elif readers == TAPPED:
                self.tapped.append((header, block))
            else:
                lot = (readers, part)
                if header is not None:
                    told = parse_header(header)
                    self._headers[lot] = _Header(told, told | UNCOUNTED, away)
                if block is not None or partials is not None:
                    self._tuples[shard][lot] = _Tuples(block, partials)

    def of(self, label: int) -> dict[str, Delivery]:
        """What there is for one shard, by the keys of queries; nothing for those that have no shard there."""
        found: dict[str, Delivery] = {}
        mine = {one.key: label == one.shards[0] for one in self._members if label in one.shards}
        for message in self.messages:
            for key in mine if message.kind in (PIECE, END) else mine.keys() & {message.key}:
                if message.kind in HEARD:
                    found.setdefault(key, Delivery()).messages.append(message)
        tuples = self._tuples.get(label, {})
        for lot, header in self._headers.items():
            readers, part = lot
            own = tuples.get(lot, NOTHING)
            for key, streams in self._who(readers).items():
                if key not in mine:
                    continue
                delivery = found.setdefault(key, Delivery())
                if FAILED in header.counted:
                    delivery.failure = header.counted[FAILED]
                    continue
                told, away = (header.counted, header.rejected_rows) if mine[key] else (header.uncounted, None)
                delivery.blocks += (Block(stream, part, told, own.block, away, own.partials) for stream in streams)
        return found

    def _who(self, readers: str) -> dict[str, list[int]]:
        if readers not in self._readers:
            found: dict[str, list[int]] = defaultdict(list)
            for key, stream in json.loads(readers):
                found[key].append(stream)
            self._readers[readers] = dict(found)
        return self._readers[readers]


def _buffers(column: pa.Array) -> list[Any]:
    return [one.as_buffer() for one in column] if column.null_count < len(column) else [None] * len(column)


MakesProgress = Callable[[ShardLoad, Mapping[str, str]], QueryProgress]
"""The progress of a query, given where it ran and a row of each stream that could not be used."""


@dataclass(frozen=True)
class Reporting:
    """One query in one shard, after a micro-batch."""

    member: Member
    label: int
    delivery: Delivery
    status: Status
    named: bool
    """Whether its progress says which query it is."""
    record: QueryRecord
    made: MakesProgress

    @property
    def key(self) -> str:
        return self.member.key

    def progress(self, load: ShardLoad) -> QueryProgress:
        known = self.made(load, examples_of(self.delivery, self.member))
        query = self.key if self.named else ""
        return replace(known, query=query, paused=self.status.paused, failure=self.status.failure)


def examples_of(delivery: Delivery, member: Member) -> dict[str, str]:
    """A row of each stream that could not be used."""
    return {
        member.plan.inputs[one.stream].stream.alias: example_of(one.rejected_rows)
        for one in delivery.blocks
        if one.rejected_rows is not None
    }


def rejected_rows(key: str, delivery: Delivery) -> Iterator[Emitted]:
    """Rows that could move no clock, on their way out."""
    for block in delivery.blocks:
        if block.rejected_rows is not None:
            yield Emitted(key, REJECTED, rows=pa.ipc.open_stream(block.rejected_rows).read_all())


def combined(status: Status, delivery: Delivery, stated: str) -> tuple[Status, str | None, bool]:
    """What is in force in a micro-batch, the target that was set in it, and whether the input has ended."""
    target, end = None, False
    for one in sorted(delivery.messages, key=lambda message: message.number):
        if one.kind in (PAUSE, RESUME):
            status = replace(status, paused=one.kind == PAUSE)
        elif one.kind == TARGET and one.text == stated:
            target = one.target
        elif one.kind == FAIL and status.failure is None:
            status = replace(status, failure=one.reason)
        end = end or one.kind == END
    if delivery.failure is not None and status.failure is None and not status.paused:
        status = replace(status, failure=delivery.failure)
    return status, target, end
