"""Queries over texts that come and go, driven by hand: locally, and as a shard whose state is a dictionary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from slackwater.core.batch import Batch
from slackwater.core.state import Emission, StateUpdate
from slackwater.operators.pipeline import Epochs
from slackwater.plan.physical import PhysicalPlan
from slackwater.plan.planner import plan
from slackwater.runtime.kernels import kernel_for
from slackwater.runtime.side_outputs.collectors import late_table
from slackwater.runtime.spark.exchange.format import parse_header
from slackwater.runtime.spark.exchange.writer import Packing, lines_of
from slackwater.runtime.spark.state.shard import Block, Shard
from slackwater.runtime.words_held import words_held
from slackwater.sinks.rows import RowMaker
from slackwater.sources.binding import bind_to_tables
from slackwater.sources.codebook import Codebook
from slackwater.sources.encode import GOOD
from slackwater.sources.ingest import ingest

COLUMNS = pa.schema([("ts", pa.int64()), ("name", pa.string()), ("note", pa.string()), ("v", pa.int64())])
Piece = dict[str, pa.Table]
"""What every stream brings in one epoch."""
Rows = list[tuple[Any, ...]]


def planned(query: str) -> PhysicalPlan:
    """A query over the streams a, b and c."""
    return plan(bind_to_tables(query, dict.fromkeys("abc", COLUMNS.empty_table()), "ts").query)


def pieces(seed: int, epochs: int, each: int = 12) -> list[Piece]:
    """Streams in some disorder; texts are of their time, of the epoch before, or come again and again."""
    rng = np.random.default_rng(seed)
    made = []
    for epoch in range(epochs):
        piece = {}
        for stream in "abc":
            ts = 1000 * epoch + rng.integers(-700, 1000, each)
            when = np.maximum(0, epoch - rng.integers(0, 2, each))
            pick = rng.integers(0, 4, (2, each))
            columns = [
                [None if p == 3 and w % 5 == 0 else f"often {p}" if p == 2 else f"text {p} of {w} é" for p, w in pairs]
                for pairs in (zip(row.tolist(), when.tolist(), strict=True) for row in pick)
            ]
            piece[stream] = pa.table([ts, *columns, rng.integers(0, 5, each)], schema=COLUMNS)
        made.append(piece)
    return made


def _reported(rows: RowMaker, physical: PhysicalPlan, book: Codebook, emissions: Iterator[Emission]) -> Iterator[Rows]:
    for emission in emissions:
        if len(emission.ts):
            yield [tuple(row.values()) for row in rows.table(emission).to_pylist()]
        if len(emission.late.ts):
            late = late_table(physical, emission.late, book)
            yield [("late", row["stream"], row["row"]) for row in late.to_pylist()]


def locally(query: str, parts: Sequence[Piece], sweeping: bool, each_tuple: bool = False) -> Counter[Any]:
    """All rows and late rows of a query whose codebook is swept after every epoch, or never."""
    physical, book = planned(query), Codebook()
    kernel = kernel_for(physical, Epochs(each_tuple=each_tuple), book)
    rows, found = RowMaker(physical, book), Counter[Any]()
    for number, piece in enumerate([*parts, None]):
        for position, one in enumerate(physical.inputs if piece is not None else ()):
            assert piece is not None
            table = piece[one.stream.source]
            taken = ingest(one, table, book, "ms", number * 1000)
            assert (taken.reasons == GOOD).all()
            words = np.zeros((physical.operator.rows, table.num_rows), np.int64)
            words[: len(taken.words)] = taken.words
            kernel.absorb(Batch(np.full(table.num_rows, position), words, taken.passes))
        for some in _reported(rows, physical, book, iter(kernel.advance(end=piece is None))):
            found.update(some)
        if sweeping:
            book.sweep(words_held(kernel))
    return found


def clashing(secret: int = 0) -> tuple[str, str]:
    """Two texts of one code, as somebody who knows the secret makes them."""
    whole = 2**64 - 1

    def mixed(z: int) -> int:
        z = z + 0x9E3779B97F4A7C15 & whole
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & whole
        z = (z ^ z >> 27) * 0x94D049BB133111EB & whole
        return z ^ z >> 31

    first, last = (int.from_bytes(some, "little") for some in (b"of equal", b" hash, 0"))
    begun = mixed(secret & whole ^ 16)
    for other in range(0x4141414141414141, first):
        end = last ^ mixed(begun ^ first) ^ mixed(begun ^ other)
        two = other.to_bytes(8, "little") + end.to_bytes(8, "little")
        if two.isascii() and two.decode().isprintable():
            return "of equal hash, 0", two.decode()
    raise AssertionError("no two texts of one code")


class Sharded:
    """One shard's state in a dictionary, and the shards that take turns with it."""

    def __init__(self, query: str) -> None:
        self.plan = planned(query)
        self.packings = [Packing(one, (), (0,), "ms", self.plan.options.max_ahead, tasks=1) for one in self.plan.inputs]
        self.state: dict[tuple[str, str], bytes] = {}
        self.log: list[list[tuple[str, str]]] = []
        self.found = Counter[Any]()

    def fresh(self) -> Shard:
        """A shard that knows nothing."""
        return Shard(self.plan, tuple(packing.text_rows for packing in self.packings), "the same query")

    def restarted(self) -> tuple[Shard, int]:
        """A shard that has read all state, and how many epochs that is."""
        shard = self.fresh()
        if self.log:
            shard.restore([StateUpdate(*place, value) for place, value in self.state.items()])
        return shard, len(self.log)

    def epoch(self, kept: tuple[Shard, int], piece: Piece | None) -> tuple[Shard, int]:
        """Let a shard that is up to date, or has fallen behind, take in an epoch; None ends the input."""
        shard, then = kept
        if then < len(self.log):
            touched = dict.fromkeys(place for places in self.log[then:] for place in places)
            shard.restore([StateUpdate(*place, self.state.get(place)) for place in touched])
        blocks = []
        for packing in self.packings:
            table = COLUMNS.empty_table() if piece is None else piece[packing.plan.stream.source]
            (line,) = lines_of(packing, table, piece is None, Codebook())
            assert line.header is not None
            blocks.append(Block(packing.plan.position, 0, parse_header(line.header), line.block))
        rows = RowMaker(self.plan, shard.codebook)
        for some in _reported(rows, self.plan, shard.codebook, shard.epoch(blocks)):
            self.found.update(some)
        places = []
        for change in shard.snapshot_delta():
            places.append((change.namespace, change.key))
            if change.value is None:
                self.state.pop(places[-1], None)
            else:
                self.state[places[-1]] = change.value
        self.log.append(places)
        return shard, len(self.log)

    @property
    def size(self) -> int:
        """Bytes of state."""
        return sum(map(len, self.state.values()))


def in_turns(query: str, parts: Sequence[Piece], who: Callable[[int], int]) -> Counter[Any]:
    """All rows of a query hosted by two shards that take turns, as `who` says (2: the first is started anew)."""
    hosted = Sharded(query)
    kept = [hosted.restarted(), hosted.restarted()]
    for number, piece in enumerate([*parts, None]):
        turn = who(number)
        if turn == 2:
            kept[0] = hosted.restarted()
        kept[turn % 2] = hosted.epoch(kept[turn % 2], piece)
    return hosted.found
