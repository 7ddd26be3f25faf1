"""How a query is doing, as one value: shards report it, their sum is that of the query, and every view reads it.

A kernel and the shard or run around it make it; `+` adds shards; pages, metrics, logs, notebooks and the demo read it.
A number that is added here, or in what a kernel observes, is carried by all of that.

Invariant: inside, event times and durations are whole microseconds. Properties give event times as `datetime` in UTC
and durations as `timedelta`; what is not known is None. Counts are those of the whole query since it was first started,
over restarts, unless they say otherwise. The size is bounded: MOST_PARTITIONS clocks of partitions a stream, 64 buckets
of delays, few rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Self

from slackwater.core.emitting import ON_ARRIVAL, ONCE
from slackwater.core.engines import EnginesSeen
from slackwater.core.options import Options
from slackwater.core.outlook import Outlook as Foreseen
from slackwater.core.rates import Resize
from slackwater.core.state import Observation
from slackwater.core.time import AFTER_ALL, BEFORE_ALL
from slackwater.core.trade_off import TradeOff
from slackwater.core.values import Value, as_json, first, of_json, over_shards
from slackwater.core.wrong_clocks import WrongClock
from slackwater.observe.delays import Buckets, added
from slackwater.observe.foreseen import how_often, unreachable
from slackwater.observe.imbalance import HotKey, ShardLoad, hot_keys_of, shares_of
from slackwater.observe.waiting import PARTS, Slowest, Waiting, advice, mostly_for_a_stream

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LATE = "late"
MOST_PARTITIONS = 24
MOST_SAMPLES = 6
MOST_TEXT = 400
"""A row that is shown is cut to so many characters."""


@dataclass(frozen=True)
class Sample(Value):
    """A row that came late or was rejected, as JSON."""

    reason: str
    row: str

    @classmethod
    def of(cls, reason: str, row: str) -> Self:
        """The row, cut where it is long.

        >>> len(Sample.of(LATE, "x" * 1000).row), Sample.of(LATE, "short").row
        (401, 'short')
        """
        return cls(reason, row if len(row) <= MOST_TEXT else f"{row[:MOST_TEXT]}…")


def _one_a_reason(one: tuple[Sample, ...], other: tuple[Sample, ...]) -> tuple[Sample, ...]:
    known = {sample.reason for sample in one}
    return one + tuple(sample for sample in other if sample.reason not in known)


@dataclass(frozen=True)
class StreamProgress(Value):
    """One input."""

    reached: int = field(default=BEFORE_ALL, metadata=over_shards(first))
    """Its clock in microseconds."""
    rows: int | None = None
    """Rows that have arrived."""
    rejected: Mapping[str, int] = field(default_factory=dict)
    """By reason."""
    idle: bool = False
    """Whether the others wait for it no longer, because it is silent."""
    parts: Mapping[str, int] = field(default_factory=dict, metadata=over_shards(lambda one, other: one or other))
    """The clocks of its slowest partitions in microseconds, where it has partitions: one shard reports them."""
    partitions_in_all: int = field(default=0, metadata=over_shards(max))
    samples: tuple[Sample, ...] = field(default=(), metadata=over_shards(_one_a_reason))
    """The newest rows that came late or were rejected."""

    @property
    def clock(self) -> datetime | None:
        """The largest event time that is believed."""
        return event_time(self.reached)

    @property
    def partitions(self) -> dict[str, datetime | None]:
        """The clocks of its slowest partitions, where it has partitions."""
        return {name: event_time(clock) for name, clock in self.parts.items()}

    @property
    def example(self) -> str | None:
        """A row that was rejected in this micro-batch, as JSON."""
        return next((one.row for one in self.samples if one.reason != LATE), None)

    @property
    def late_example(self) -> str | None:
        """A tuple that came late in this micro-batch, as JSON."""
        return next((one.row for one in self.samples if one.reason == LATE), None)


@dataclass(frozen=True)
class IdleOptions(Value):
    """What was said of silent streams."""

    idle_timeout: int | None = field(default=None, metadata=over_shards(first))
    idle_after: float | None = field(default=None, metadata=over_shards(first))


@dataclass(frozen=True)
class Latency:
    """How long results of this micro-batch waited, in event time, and for what, on average."""

    average: timedelta
    p95: timedelta | None
    """Of the shard where it is largest."""
    slack: timedelta
    """Waiting for tuples that are late."""
    slowest_stream: timedelta
    """Waiting for the next tuple of the stream whose clock is behind the others."""
    micro_batch: timedelta
    """Waiting for the end of the micro-batch."""
    stream: str | None = None
    """The slowest stream; None where no stream is behind the others."""
    advice: str | None = None
    """What helps, where results wait mostly for the slowest stream."""


@dataclass(frozen=True)
class Outlook:
    """Whether the target can be met with the most slack that may be chosen, by what the recent past asks for."""

    cap: timedelta
    """The most slack that may be chosen."""
    stated: bool
    """Whether the query states it (AT MOST), or it is the default."""
    bound: float | None
    """The share of choices in which the cap was less than the target asked for."""
    needed: timedelta | None
    """The slack that the target asks for; None where it is not known, or no slack that was seen would do."""
    reached: float | None
    """What the cap reaches: recall, or the share of windows within the bound."""
    unreachable: bool
    said: str | None
    """The sentence that says so, where the target cannot be met."""
    how_often: str
    """The sentence that says how often the cap bound."""


@dataclass(frozen=True)
class Quality:
    """What was measured of the target."""

    of: str
    """`results` of a join, or `windows` of an aggregate."""
    target: float
    measured: float | None
    low: float | None
    high: float | None
    latest: float | None
    """Over the latest period that is settled."""
    fulfilment: float | None
    """The share of periods that met the target."""
    provisional_from: datetime | None
    """From this event time on late tuples may still come."""
    after_corrections: float | None
    """What is measured is that of the first answer; this is that of the answer with its corrections."""
    corrections_expected: float | None
    """How many more corrections late tuples will probably bring."""


@dataclass(frozen=True, kw_only=True)
class QueryProgress(Value):
    """One query after one epoch or micro-batch, or one shard of it."""

    query: str = ""
    """Its name, or its id where it has none."""
    target: str = field(default="", metadata=over_shards(first))
    emit: str = field(default=str(ONCE), metadata=over_shards(first))
    """When results leave: IN ORDER, ON ARRIVAL, or EARLY; with corrections or without."""
    amends: str | None = field(default=None, metadata=over_shards(first))
    """What rows beside the first answer are called; None where there are none."""
    observed: Observation
    """What kernels observe; counts of it are attributes of this value too."""
    streams: Mapping[str, StreamProgress] = field(default_factory=dict)
    batch: int = field(default=0, metadata=over_shards(max))
    """Epochs or micro-batches so far."""
    time: float | None = field(default=None, metadata=over_shards(max))
    """Seconds since 1970 when the micro-batch began, or this was made."""
    seconds: float = field(default=0.0, metadata=over_shards(max))
    """What the micro-batch took, or the work since the progress before."""
    rows_per_second: float | None = field(default=None, metadata=over_shards(max))
    """Rows taken in a second of work."""
    rejected: Mapping[str, int] = field(default_factory=dict)
    """By reason."""
    waiting: Waiting = field(default_factory=Waiting)
    """What results of this micro-batch waited for."""
    idle_options: IdleOptions | None = field(default=None, metadata=over_shards(first))
    """Where something can be advised to who waits for a stream."""
    trade_off: TradeOff | None = None
    """The slack that other targets would ask for, where that is known."""
    delays: Buckets = field(default_factory=dict, metadata=over_shards(lambda one, other: added([one, other])))
    """How late the tuples of each stream came in this micro-batch, in the buckets of `observe.delays`."""
    wrong_clocks: tuple[WrongClock, ...] = field(default=(), metadata=over_shards(first))
    """Partitions of streams whose clocks are wrong, so that they are not waited for; each has `remedy`."""
    lagging: tuple[WrongClock, ...] = field(default=(), metadata=over_shards(first))
    """Partitions that are far behind most others of their stream, and are waited for; each has `remedy`."""
    resizes: tuple[tuple[int, Resize], ...] = ()
    """What came into force in this micro-batch in windows that follow rates, each with the number of its join."""
    shards: tuple[ShardLoad, ...] = ()
    """The work of each shard in this micro-batch."""
    paused: bool = False
    passed_by: int = 0
    """Of a query in a set: tuples that came while it was paused."""
    failure: str | None = field(default=None, metadata=over_shards(first))
    """Why it has stopped."""
    over: bool = False
    """The query runs no more; this is its last progress."""

    def as_json(self) -> dict[str, Any]:
        """As plain data, for `of_json` in another process.

        >>> made = QueryProgress(query="q", observed=nothing_observed(2))
        >>> QueryProgress.of_json(made.as_json()) == made
        True
        """
        written: dict[str, Any] = as_json(self)
        return written

    @classmethod
    def of_json(cls, data: Mapping[str, Any]) -> Self:
        """The inverse of `as_json`."""
        return of_json(cls, data)

    def after(self, earlier: QueryProgress) -> QueryProgress:
        """This progress in place of itself and an earlier one, which is forgotten: no arrival is lost."""
        return replace(self, delays=added([earlier.delays, self.delays]))

    @property
    def at(self) -> datetime | None:
        """When the micro-batch began, by the clock on the wall."""
        return None if self.time is None else datetime.fromtimestamp(self.time, UTC)

    @property
    def duration(self) -> timedelta:
        """What the micro-batch took."""
        return timedelta(seconds=self.seconds)

    @property
    def watermark(self) -> datetime | None:
        """Up to where everything has been emitted; None before anything was, and once the input has ended."""
        return event_time(self.observed.watermark)

    @property
    def clock(self) -> datetime | None:
        """The largest clock of all streams."""
        return event_time(max(self.observed.clocks, default=BEFORE_ALL))

    @property
    def ended(self) -> bool:
        """Whether the query has ended, or its input has, and all of it was emitted."""
        return self.over or self.observed.watermark == AFTER_ALL

    @property
    def slack(self) -> timedelta:
        """How long tuples are held back for late ones; or, on arrival, stay findable beyond their windows."""
        return timedelta(microseconds=self.observed.slack)

    @property
    def latency(self) -> Latency | None:
        """How long results waited, and for what; None where nothing was emitted."""
        parts = self.waiting.average()
        if parts is None:
            return None
        slowest, helps = self._slowest(), None
        if self.idle_options is not None and not self.on_arrival and mostly_for_a_stream(parts):
            options = Options(idle_timeout=self.idle_options.idle_timeout, idle_after=self.idle_options.idle_after)
            helps = advice(slowest, options, in_epochs=True, arrival_times=True)
        average, slack, behind, epoch = (
            timedelta(microseconds=round(part)) for part in (sum(parts.values()), *(parts[name] for name in PARTS))
        )
        p95 = None if self.waiting.p95 is None else timedelta(microseconds=round(self.waiting.p95))
        return Latency(average, p95, slack, behind, epoch, None if slowest is None else slowest.stream, helps)

    def _slowest(self) -> Slowest | None:
        """The stream that is behind the others now."""
        clocks = self.observed.clocks
        slowest, largest = min(clocks), max(clocks)
        if slowest == largest:
            return None
        behind = None if slowest == BEFORE_ALL else float(largest - slowest)
        return Slowest([*self.streams][clocks.index(slowest)], 1.0, behind)

    @property
    def emitted(self) -> int:
        """Results of this micro-batch."""
        return self.waiting.results

    @property
    def results(self) -> int:
        return self.observed.results

    @property
    def amended(self) -> int:
        """Rows beside the first answer: corrections, and rows of open windows."""
        return self.observed.amended

    @property
    def on_arrival(self) -> bool:
        """Whether no result waits, so that slack is how long beyond its window a tuple stays findable."""
        return self.emit == ON_ARRIVAL

    @property
    def in_time(self) -> int:
        return self.observed.in_time

    @property
    def history(self) -> int:
        return self.observed.history

    @property
    def late(self) -> int:
        return self.observed.late

    @property
    def filtered(self) -> int:
        return self.observed.filtered

    @property
    def held(self) -> int:
        """Tuples that are held back until it is known that no older one comes."""
        return self.observed.held

    @property
    def late_share(self) -> float | None:
        """Late tuples among those that are in time or late."""
        judged = self.in_time + self.late
        return self.late / judged if judged else None

    @property
    def state_rows(self) -> int:
        """Rows in windows, or held."""
        return self.observed.state_rows + self.observed.held

    @property
    def state_bytes(self) -> int:
        """Bytes in windows."""
        return 0 if self.observed.memory is None else self.observed.memory.query.bytes

    @property
    def quality(self) -> Quality | None:
        """What was measured of the target."""
        seen = self.observed.quality
        if seen is None:
            return None
        since = None if seen.provisional_from is None else event_time(seen.provisional_from)
        awaited = None if seen.corrected is None else seen.expected
        return Quality(
            seen.of, seen.target, seen.share, seen.low, seen.high, seen.latest, seen.fulfilment, since,
            seen.share_corrected, awaited,
        )  # fmt: skip

    @property
    def outlook(self) -> Outlook | None:
        """Whether the target can be met; None where slack has no cap, or nothing was chosen yet."""
        seen: Foreseen | None = self.observed.outlook
        if seen is None:
            return None
        # It knows the language, which those that make progress do not need.
        from slackwater.language.dialect import parse_quality

        return Outlook(
            timedelta(microseconds=seen.cap), seen.stated, seen.bound / seen.choices if seen.choices else None,
            None if seen.needed is None else timedelta(microseconds=seen.needed), seen.reached, seen.unreachable,
            unreachable(parse_quality(self.target), seen), how_often(seen),
        )  # fmt: skip

    @property
    def engines(self) -> EnginesSeen | None:
        """Of a query over windows that slide together: which engines compute it, in all shards."""
        return self.observed.engines

    @property
    def taken(self) -> int:
        """Tuples of this micro-batch that reached the shards; where shards have copies of tuples, with these."""
        return sum(one.taken for one in self.shards)

    @property
    def shares(self) -> tuple[float, ...]:
        """Of the tuples of this micro-batch, those of each shard that runs beside the others; empty where none came."""
        return shares_of([one for one in self.shards if not one.is_upper])

    @property
    def imbalance(self) -> float | None:
        """How many tuples the busiest shard had, for one of the average shard; None where there were no tuples."""
        shares = self.shares
        return max(shares) * len(shares) if shares else None

    @property
    def hot_keys(self) -> tuple[HotKey, ...]:
        """Keys that brought a large share of this micro-batch, the largest first, eight at most."""
        return hot_keys_of(self.shards)

    @property
    def key_groups(self) -> int:
        """Parts that the state is kept in; where the last operator has shards of its own, that of the others."""
        return sum(not one.is_upper for one in self.shards)

    def _repr_html_(self) -> str:
        from slackwater.observe.views import progress_html

        return progress_html([self])


def nothing_observed(inputs: int) -> Observation:
    """What is observed before anything has come in."""
    return Observation((BEFORE_ALL,) * inputs, 0, BEFORE_ALL, *(0,) * 9)


def event_time(micros: int) -> datetime | None:
    """An event time; None where it is none, or where no calendar has it.

    >>> str(event_time(1_500_000)), event_time(BEFORE_ALL)
    ('1970-01-01 00:00:01.500000+00:00', None)
    """
    if micros in (BEFORE_ALL, AFTER_ALL):
        return None
    try:
        return EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        return None


_INSIDE = frozenset(("observed", "reached", "parts", "time", "seconds", "waiting", "idle_options", "resizes", "over"))
"""Fields that others are made of."""


@cache
def attributes(kind: type) -> tuple[str, ...]:
    """The names of what users read of a value: its fields and properties.

    >>> attributes(StreamProgress)
    ('rows', 'rejected', 'idle', 'partitions_in_all', 'samples', 'clock', 'partitions', 'example', 'late_example')
    """
    names = [*kind.__dataclass_fields__, *(name for name, one in vars(kind).items() if isinstance(one, property))]  # type: ignore[attr-defined]
    return tuple(name for name in names if name not in _INSIDE)
