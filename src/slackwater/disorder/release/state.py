"""The state of a release loop, as named groups of arrays that compiled code can read and update in place."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slackwater.core.batch import Batch, Flags, Words
from slackwater.core.time import BEFORE_ALL, LONGEST
from slackwater.disorder.ordered_batch import OrderedTuples

# Places in `Clockwork.scalars`.
SLACK = 0
WATERMARK = 1
"""Epoch release: min(clock) - K, never going back. Tuple release: T-join."""
MAX_TS = 2
"""The largest stream clock."""
LARGEST_DELAY = 3
SEQUENCE = 4
"""Numbers the tuples, so that equal event times leave in arrival order."""
EPOCH_TUPLES = 5
EPOCH_CLOCK = 6
"""Largest clock when the epoch began."""
EPOCHS = 7
T_SYNC = 8
FREE = 9
"""How many slots of the pool are free."""
SLACK_CHANGES = 10
"""How many changes of K wait in `Clockwork.slack_log`."""
NOW = 11
"""When the latest tuple arrived; the largest clock if arrival times are not known."""
MAX_BEHIND = 12
"""A tuple further behind its stream's clock than this teaches nothing about delays."""
_SCALARS = 13

SLACK_LOG = 256
"""A loop pauses when this many changes of K have not been read."""


class Clockwork(NamedTuple):
    """Everything about time: one entry per stream, and the scalars."""

    clocks: Words
    before: Words
    """Each stream's clock when the epoch began; the delay that matters is against this one."""
    last_arrival: Words
    idle: Words
    timeouts: Words
    """How often a stream was no longer waited for because it was idle."""
    gaps: Words
    """How far each stream's clock moves with a tuple on average, times 64; what is older counts less."""
    scalars: Words
    slack_log: Words
    """Columns (largest clock, K from there on)."""
    partitions: Words
    """A column per partition of a stream, if streams have partitions: see the rows below."""
    slowest: Words
    """A line per stream: a tree over all partitions of the smallest clock among its own that are not idle, root at 1,
    leaves behind the middle; the largest of their clocks at 0. Not of use where it is of another size: see
    `rank_partitions`."""
    promised_watermark: Words
    """The watermark event of each stream: nothing older will come; BEFORE_ALL if it sends none."""
    readings: Words
    """What others have found the clocks to be, for the end of the epoch: a column each, see the rows below."""


# Rows of `Clockwork.partitions`.
PARTITION_STREAM, PARTITION_CLOCK, PARTITION_LAST_ARRIVAL, PARTITION_IDLE = range(4)
PARTITION_ROWS = 4
NO_PARTITION = -1
# Rows of `Clockwork.readings`; the moment is BEFORE_ALL where moments do not count.
READING_STREAM, READING_PARTITION, READING, READ_AT = range(4)
READING_ROWS = 4
UNTAUGHT = -1
"""In place of how far behind a tuple was."""


class Arrivals(NamedTuple):
    """A batch as compiled code sees it.

    `arrival_time` is empty if arrival times are not known, `partition` if streams have no partitions. `behind` is
    written: how far each tuple was behind its stream's clock at the beginning of the epoch, and so is `needed`: how far
    it was behind the slowest one; both are empty where nobody asks, and UNTAUGHT for a tuple that teaches nothing.
    `reading` is empty where every tuple moves its clock, `ends` where the loop itself says when an epoch ends.
    """

    stream: Words
    words: Words
    passes: Flags
    arrival_time: Words
    partition: Words
    behind: Words
    needed: Words
    reading: Words
    ends: Flags


class Policy(NamedTuple):
    """When an epoch ends and what is chosen then. 0 switches an epoch rule off, a negative timeout the idle rule."""

    epoch_tuples: int
    epoch_span: int
    ends_here: bool
    follow: bool
    idle_timeout: int
    idle_after: int
    """In 64ths of a stream's usual gap; 0: never."""
    pause_at: int
    external_sync: bool
    """Each stream leaves its slack buffer by itself, with watermark events; an external synchronizer merges them."""


class Buffers(NamedTuple):
    """Tuples being held: a pool of slots, and heaps over it (shape (heaps, capacity))."""

    ts: Words
    seq: Words
    slot: Words
    sizes: Words
    pool: Words
    stream: Words
    delay: Words
    free: Words


def clockwork(streams: int, slack: int, max_behind: int = LONGEST) -> Clockwork:
    """The clocks before the first arrival."""
    scalars = np.zeros(_SCALARS, np.int64)
    scalars[SLACK], scalars[MAX_BEHIND] = slack, max_behind
    scalars[[WATERMARK, MAX_TS, EPOCH_CLOCK, T_SYNC, NOW]] = BEFORE_ALL
    unheard = np.full(streams, BEFORE_ALL, np.int64)
    none = np.zeros(streams, np.int64)
    log = np.zeros((2, SLACK_LOG), np.int64)
    partitions = np.zeros((PARTITION_ROWS, 0), np.int64)
    return Clockwork(
        unheard,
        unheard.copy(),
        unheard.copy(),
        none,
        none.copy(),
        none.copy(),
        scalars,
        log,
        partitions,
        np.zeros((streams, 0), np.int64),
        unheard.copy(),
        np.zeros((READING_ROWS, 0), np.int64),
    )


def buffers(heaps: int, rows: int, capacity: int) -> Buffers:
    """An empty pool with its heaps; the caller sets scalars[FREE] to the capacity."""
    heap = np.empty((heaps, capacity), np.int64)
    single = np.empty(capacity, np.int64)
    return Buffers(
        heap,
        heap.copy(),
        heap.copy(),
        np.zeros(heaps, np.int64),
        np.empty((rows, capacity), np.int64),
        single,
        single.copy(),
        np.arange(capacity - 1, -1, -1, dtype=np.int64),
    )


def grown(old: Buffers, capacity: int, clock: Clockwork) -> Buffers:
    """The same held tuples with space for more."""
    new = buffers(len(old.sizes), old.pool.shape[0], capacity)
    before = old.pool.shape[1]
    for source, target in zip(old, new, strict=True):
        if source is not old.free and source is not old.sizes:
            target[..., :before] = source
    new.sizes[:] = old.sizes
    free = int(clock.scalars[FREE])
    added = capacity - before
    new.free[:added] = np.arange(capacity - 1, before - 1, -1)
    new.free[added : added + free] = old.free[:free]
    clock.scalars[FREE] = free + added
    return new


def arrivals(batch: Batch, partition: Words, asked: bool, ends: Flags | None = None) -> Arrivals:
    """A batch for compiled code; `asked`: note how far tuples were behind."""
    behind, needed = np.zeros((2, len(batch) if asked else 0), np.int64)
    arrival_time = np.empty(0, np.int64) if batch.arrival_time is None else batch.arrival_time
    reading = np.empty(0, np.int64) if batch.reading is None else batch.reading
    return Arrivals(
        batch.stream, np.ascontiguousarray(batch.words), batch.passes, arrival_time, partition, behind, needed, reading,
        np.empty(0, np.bool_) if ends is None else ends,
    )  # fmt: skip


def output_buffer(tuples: int, rows: int) -> OrderedTuples:
    """Space for a run of up to this many tuples."""
    return OrderedTuples(np.empty((rows, tuples), np.int64), *np.empty((5, tuples), np.int64))
