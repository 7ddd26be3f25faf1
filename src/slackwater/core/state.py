"""What a kernel and the runtime that hosts it hand each other: emissions, observations, and entries of state.

A kernel (`operators.pipeline.Pipeline`) is a pure state machine: no threads, no wall clock, no Spark. A frozen spec
describes it; `spec.build()` makes the mutable half. Its state leaves as (namespace, key, bytes) entries, which hold
arrays or JSON; an entry whose value is None is dropped.
"""

from __future__ import annotations

import json
import struct
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from slackwater.core.batch import Batch, Floats, Words
from slackwater.core.engines import EnginesSeen
from slackwater.core.measured import MeasuredQuality
from slackwater.core.memory import Memory
from slackwater.core.outlook import Outlook
from slackwater.core.rates import RatesSeen
from slackwater.core.results import OrderingSeen
from slackwater.core.values import Value, first, over_shards
from slackwater.core.wrong_clocks import OddClock, PartitionClock

_LENGTH = struct.Struct("<I")


@dataclass(frozen=True)
class InForce:
    """What was in force when results were emitted: enough to say afterwards what each of them has waited for.

    These are facts about the release, not about results. Durations are in microseconds of event time.
    """

    slack: int
    lag: int
    """How far the watermark was behind the largest clock when the last epoch ended."""
    epoch: int = 0
    """How far the largest clock came in an epoch; 0 where every tuple is emitted by itself."""
    moved: int = 0
    """How far the watermark came in an epoch."""
    known: bool = True
    """Whether this holds of every epoch that emitted results, and not of several on average."""

    @property
    def at_once(self) -> InForce:
        """The same for results that wait for nobody's clock, but for the end of their epoch."""
        return InForce(0, 0, self.epoch, self.epoch, self.known)


NOTHING_IN_FORCE = InForce(0, 0)
"""No slack, and every tuple by itself."""


@dataclass(frozen=True)
class StateUpdate:
    """One entry of persisted state: what to write under (namespace, key), or to drop where value is None."""

    namespace: str
    key: str
    value: bytes | None


@dataclass(frozen=True)
class Late:
    """Tuples that came behind the watermark."""

    stream: Words
    row: Words
    ts: Words
    delay: Words
    watermark: Words
    words: Words
    """The tuples themselves, shape (rows, tuples)."""


NOTHING: Words = np.zeros(0, np.int64)
NO_LATE = Late(NOTHING, NOTHING, NOTHING, NOTHING, NOTHING, NOTHING)


@dataclass(frozen=True)
class Emission:
    """What one `advance` emitted, in timestamp order.

    `columns` are word arrays in the order the spec names them. `clock` is the largest stream clock when each result was
    emitted. `multiplicity` says how many results a line represents (1 each, unless results are only counted).
    """

    ts: Words
    columns: tuple[Words, ...]
    clock: Words
    multiplicity: Words | None
    late: Late
    flushed: bool = False
    emit_time: Words | None = None
    """When each result was emitted, by the arrival times of tuples, where these are known."""
    in_force: InForce = NOTHING_IN_FORCE
    """What they had to wait for."""
    change: Words | None = None
    """What each line does to its key (`core.emitting`); None: all insert."""
    version: Words | None = None
    """How many lines of its key have left before; None: none."""
    amends: bool = False
    """Whether the lines are corrections, or rows of open windows: not the first answer."""
    expected_error: Floats | None = None
    """Of rows of open windows, how wrong they are expected to be; NaN where nothing is known."""


@dataclass(frozen=True)
class Observation(Value):
    """What a kernel reports of itself between two epochs. Times are microseconds. All shards have the same clocks;
    counts add up, and what is not said of one kernel alone is that of the first.
    """

    clocks: tuple[int, ...] = field(metadata=over_shards(first))
    slack: int = field(metadata=over_shards(max))
    watermark: int = field(metadata=over_shards(min))
    tuples: int
    in_time: int
    late: int
    filtered: int
    ahead: int
    held: int
    """Tuples in slack buffers, synchronizer and clock guard."""
    state_rows: int
    """Tuples in join windows, or partial aggregates in panes."""
    results: int
    amended: int = field(kw_only=True, default=0)
    """Rows beside the first answer: corrections, and rows of open windows."""
    history: int = field(kw_only=True, default=0)
    """Of the tuples those that came out of a history."""
    epochs: int = field(metadata=over_shards(max))
    idle: tuple[int, ...] = field(default=(), metadata=over_shards(first))
    """How often each stream fell silent for longer than the idle timeout."""
    quality: MeasuredQuality | None = None
    """How good the answers were, where a target was stated and can be measured."""
    ordering: OrderingSeen | None = field(default=None, metadata=over_shards(first))
    """How results are brought into order, where that is not always done in one way."""
    waited: float | None = field(default=None, metadata=over_shards(first))
    """How long tuples waited to be processed, on average, by arrival times, where these are known."""
    rates: tuple[RatesSeen, ...] = field(default=(), metadata=over_shards(first))
    """What is in force in each join whose windows follow rates."""
    engines: EnginesSeen | None = None
    """Which engines compute a query over instantaneous windows."""
    memory: Memory | None = None
    """What is in the windows and can still be joined, in tuples and bytes."""
    parts: tuple[PartitionClock, ...] = field(default=(), metadata=over_shards(first))
    """How far every part has come of the streams that have parts."""
    odd_clocks: tuple[OddClock, ...] = field(default=(), metadata=over_shards(first))
    """The partitions whose clocks are far from those of most others."""
    outlook: Outlook | None = None
    """Whether the target can be met, where slack may not grow for ever."""


def updated(before: Iterable[StateUpdate], changes: Iterable[StateUpdate]) -> list[StateUpdate]:
    """Entries of state, some replaced by others; those that were dropped are left out."""
    entries = {(one.namespace, one.key): one for one in (*before, *changes)}
    return [one for one in entries.values() if one.value is not None]


def state_update(namespace: str, key: str, value: bytes | None) -> StateUpdate:
    """A state entry to write, or to drop.

    >>> state_update("clocks", "all", None).value is None
    True
    """
    return StateUpdate(namespace, key, value)


WINDOW = "window"
"""The namespace of tuples in windows: an entry is seldom written again before it is dropped."""


def is_lasting(entry: StateUpdate) -> bool:
    """Whether an entry will probably stay as it is for long."""
    return entry.namespace.rpartition("/")[2] == WINDOW


def under(part: str, entries: Iterable[StateUpdate]) -> Iterator[StateUpdate]:
    """The entries of a part, by names that begin with the part's."""
    return (StateUpdate(f"{part}/{one.namespace}", one.key, one.value) for one in entries)


def by_part(entries: Iterable[StateUpdate]) -> defaultdict[str, list[StateUpdate]]:
    """The inverse: entries by part, under their own names; a part without names is its own name.

    >>> by_part([*under("release", [state_update("heap", "0", None)])])["release"][0].namespace
    'heap'
    """
    parts: defaultdict[str, list[StateUpdate]] = defaultdict(list)
    for one in entries:
        part, _, namespace = one.namespace.partition("/")
        parts[part].append(StateUpdate(namespace or part, one.key, one.value))
    return parts


def encode_json(value: dict[str, Any]) -> bytes:
    """Small state as JSON."""
    return json.dumps(value, sort_keys=True).encode()


def decode_json(value: bytes) -> dict[str, Any]:
    """The inverse of `encode_json`."""
    decoded: dict[str, Any] = json.loads(value)
    return decoded


def encode_words(columns: dict[str, Words]) -> bytes:
    """Arrays of equal length as bytes: their names and types, then one after the other. An epoch writes many small
    ones, for which Arrow's own format costs ten times as much.

    >>> decode_words(encode_words({"a": np.array([1, 2])}))["a"].tolist()
    [1, 2]
    """
    arrays = {name: np.ascontiguousarray(array) for name, array in columns.items()}
    length = len(next(iter(arrays.values()), ()))
    head = json.dumps([length, [(name, array.dtype.str) for name, array in arrays.items()]]).encode()
    return b"".join([_LENGTH.pack(len(head)), head, *(array.data for array in arrays.values())])


def decode_words(value: bytes) -> dict[str, Words]:
    """The inverse of `encode_words`."""
    (size,) = _LENGTH.unpack_from(value)
    at = _LENGTH.size + size
    length, fields = json.loads(value[_LENGTH.size : at])
    found = {}
    for name, kind in fields:
        found[name] = np.frombuffer(value, kind, length, at).copy()
        at += found[name].nbytes
    return found


def encode_array(array: npt.NDArray[Any]) -> bytes:
    """One array of any shape as bytes: shape, type, and then the items.

    >>> encode_array(np.ones((2, 1)))[:8], decode_array(encode_array(np.ones((2, 3)))).shape
    (b'2,1;<f8;', (2, 3))
    """
    return f"{','.join(map(str, array.shape))};{array.dtype.str};".encode() + array.tobytes()


def decode_array(value: bytes) -> npt.NDArray[Any]:
    """The inverse of `encode_array`."""
    shape, kind, items = value.split(b";", 2)
    return np.frombuffer(items, kind.decode()).reshape([int(n) for n in shape.split(b",")]).copy()


def encode_batch(batch: Batch, **extra: Words) -> bytes:
    """A batch, and arrays of the same length that belong to its tuples, as bytes."""
    columns = {f"w{r}": batch.words[r] for r in range(batch.words.shape[0])}
    columns |= {"stream": batch.stream, "passes": batch.passes.astype(np.int64)}
    if batch.arrival_time is not None:
        columns["heard"] = batch.arrival_time
    return encode_words(columns | {f"x_{name}": array for name, array in extra.items()})


def decode_batch(value: bytes) -> tuple[Batch, dict[str, Words]]:
    """The inverse of `encode_batch`."""
    columns = decode_words(value)
    rows = sum(name[0] == "w" for name in columns)
    words = np.stack([columns[f"w{r}"] for r in range(rows)])
    batch = Batch(columns["stream"], words, columns["passes"].astype(np.bool_), columns.get("heard"))
    return batch, {name[2:]: array for name, array in columns.items() if name.startswith("x_")}
