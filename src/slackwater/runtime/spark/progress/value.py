"""The progress of a streaming query after one micro-batch, added up over its shards.

Invariant: times are `datetime` in UTC, durations are `timedelta`, shares are floats; what is not known is None. Counts
are those of the whole query since it was first started, over restarts, unless they say otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from slackwater.core.engines import EnginesSeen, of_all_shards
from slackwater.core.measured import MeasuredQuality, together
from slackwater.core.memory import Memory
from slackwater.core.options import Options
from slackwater.core.outlook import Outlook as Foreseen
from slackwater.core.outlook import worst
from slackwater.core.quality import Quality as Target
from slackwater.core.time import AFTER_ALL, BEFORE_ALL
from slackwater.core.trade_off import TradeOff, strictest
from slackwater.core.wrong_clocks import WrongClock
from slackwater.language.clauses import parse_quality
from slackwater.observe.delays import Buckets, added
from slackwater.observe.foreseen import how_often, unreachable
from slackwater.observe.waiting import PARTS, Slowest, advice, averaged, mostly_for_a_stream

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Metrics = Mapping[str, Any]
"""What one shard says of itself after a micro-batch, as it travels: JSON with times in microseconds. A clock or
watermark that has not moved yet is null; whoever computes with it reads it as before all time."""


@dataclass(frozen=True)
class StreamProgress:
    """One input."""

    clock: datetime | None
    """The largest event time that is believed."""
    rows: int
    rejected: Mapping[str, int]
    """By reason."""
    example: str | None = None
    """A row that was rejected in this micro-batch, as JSON."""
    late_example: str | None = None
    """A tuple that came late in this micro-batch, as JSON."""
    idle: bool = False
    """Whether nobody waits for it, because it is silent."""
    partitions: Mapping[str, datetime | None] = field(default_factory=dict)
    """The clocks of its slowest parts, where it has parts."""
    partitions_in_all: int = 0


@dataclass(frozen=True)
class Latency:
    """How long results of this micro-batch waited, in event time, and for what, on average."""

    average: timedelta
    p95: timedelta
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


@dataclass(frozen=True)
class Progress:
    """One micro-batch of one query."""

    query: str
    """Its name, or its id where it has none."""
    batch: int
    at: str
    """When the micro-batch began, as Spark tells it."""
    duration: timedelta
    rows_per_second: float
    """Rows taken in a second of work."""
    streams: Mapping[str, StreamProgress]
    watermark: datetime | None
    """Up to where everything has been emitted; None before anything was, and once the input has ended."""
    ended: bool
    slack: timedelta
    latency: Latency | None
    """None where the micro-batch emitted nothing."""
    emitted: int
    """Results of this micro-batch."""
    results: int
    in_time: int
    late: int
    filtered: int
    rejected: Mapping[str, int]
    """By reason."""
    held: int
    """Tuples that wait for their turn."""
    state_rows: int
    state_bytes: int
    target: str
    quality: Quality | None
    outlook: Outlook | None = None
    """None where slack has no cap, or nothing was chosen yet."""
    engines: EnginesSeen | None = None
    """Of a query over windows that slide together: which engines compute it, in all shards."""
    paused: bool = False
    """Of a query in a set: whether it is paused."""
    passed_by: int = 0
    """Of a query in a set: tuples that came while it was paused."""
    failure: str | None = None
    """Of a query in a set: why it has stopped."""
    delays: Buckets = field(default_factory=dict)
    """How late the tuples of each stream came in this micro-batch, in the buckets of `observe.delays`."""
    trade_off: TradeOff | None = None
    """The slack that other targets would ask for, where that is known."""
    wrong_clocks: tuple[WrongClock, ...] = ()
    """Parts of streams whose clocks are wrong."""

    @property
    def late_share(self) -> float | None:
        """Late tuples among those that are in time or late."""
        judged = self.in_time + self.late
        return self.late / judged if judged else None

    def _repr_html_(self) -> str:
        from slackwater.runtime.spark.progress.history import History

        return History((self,))._repr_html_()


def progress_of(shards: Sequence[Metrics], aliases: Sequence[str], spark: Mapping[str, Any]) -> Progress:
    """What the shards said after a micro-batch, added up; `spark` is what Spark's own progress says of it."""
    clocks = clocks_of(shards[0])
    slack = max(one["slack"] for one in shards)
    watermark = min(watermark_of(one) for one in shards)
    measured = together([MeasuredQuality.of_counts(one["quality"]["counts"]) for one in shards if one["quality"]])
    memory = [Memory.of_json(one["memory"]).query for one in shards if one["memory"]]
    target = parse_quality(shards[0]["target"])
    rejected = _added(reasons for one in shards for reasons in one["rejected_by"].values())

    def total(name: str) -> int:
        return sum(one[name] for one in shards)

    return Progress(
        query=spark.get("name") or str(spark.get("id", "")),
        batch=int(spark.get("batchId", 0)),
        at=str(spark.get("timestamp", "")),
        duration=timedelta(milliseconds=float(spark.get("batchDuration") or 0)),
        # Spark itself tells listeners more digits than who asks.
        rows_per_second=round(float(spark.get("processedRowsPerSecond") or 0.0), 1),
        streams={
            alias: StreamProgress(
                _moment(clocks[position]),
                sum(one["rows"].get(alias, 0) for one in shards),
                _added(one["rejected_by"].get(alias, {}) for one in shards),
                next((one["examples"][alias] for one in shards if alias in one["examples"]), None),
                next((one["late_examples"][alias] for one in shards if alias in one["late_examples"]), None),
                shards[0]["idle_now"][position],
                _partitions(shards, alias),
                max(one["partitions_in_all"][position] for one in shards),
            )
            for position, alias in enumerate(aliases)
        },
        watermark=_moment(watermark),
        ended=watermark == AFTER_ALL,
        slack=timedelta(microseconds=slack),
        latency=_latency(shards, clocks, aliases),
        emitted=total("emitted"),
        results=total("results"),
        in_time=total("in_time"),
        late=total("late"),
        filtered=total("filtered"),
        rejected=rejected,
        held=total("held"),
        state_rows=total("state_rows") + total("held"),
        state_bytes=sum(one.bytes for one in memory),
        target=str(target),
        quality=None if measured is None else _quality(measured),
        outlook=_outlook(shards, target),
        engines=of_all_shards([EnginesSeen.of_json(one["engines"]) for one in shards if one.get("engines")]),
        paused=any(one.get("paused", False) for one in shards),
        passed_by=sum(one.get("passed_by", 0) for one in shards),
        failure=next((one["failure"] for one in shards if one.get("failure")), None),
        delays=added([one["delays"] for one in shards]),
        trade_off=strictest([TradeOff.of_json(one["trade_off"]) for one in shards if one["trade_off"]]),
        wrong_clocks=tuple(WrongClock(*one) for one in shards[0]["wrong_clocks"]),
    )


def _partitions(shards: Sequence[Metrics], alias: str) -> dict[str, datetime | None]:
    """The clocks that the shard tells which counts the rows of streams."""
    told: Any = next((one["partitions"] for one in shards if one["partitions"]), [])
    return {name: None if clock is None else _moment(clock) for stream, name, clock in told if stream == alias}


def _latency(shards: Sequence[Metrics], clocks: Sequence[int], aliases: Sequence[str]) -> Latency | None:
    """The waiting, and its parts by cause, which add up to it."""
    parts = averaged([one["latency_by"] for one in shards])
    if parts is None:
        return None
    slowest = _slowest(clocks, aliases)
    options = Options(**shards[0]["idle_options"])
    helps = advice(slowest, options, in_epochs=True, arrival_times=True) if mostly_for_a_stream(parts) else None
    slowest_p95 = 1000 * max(one["latency_ms"]["p95"] for one in shards if one["emitted"])
    average, p95, slack, behind, epoch = (
        timedelta(microseconds=round(part))
        for part in (sum(parts.values()), slowest_p95, *(parts[name] for name in PARTS))
    )
    return Latency(average, p95, slack, behind, epoch, None if slowest is None else slowest.stream, helps)


def _slowest(clocks: Sequence[int], aliases: Sequence[str]) -> Slowest | None:
    """The stream that is behind the others now."""
    slowest, largest = min(clocks), max(clocks)
    if slowest == largest:
        return None
    behind = None if slowest == BEFORE_ALL else float(largest - slowest)
    return Slowest(aliases[list(clocks).index(slowest)], 1.0, behind)


def _outlook(shards: Sequence[Metrics], target: Target) -> Outlook | None:
    seen = worst([Foreseen.of_json(one["outlook"]) for one in shards if one["outlook"]])
    if seen is None:
        return None
    return Outlook(
        timedelta(microseconds=seen.cap), seen.stated, seen.bound / seen.choices if seen.choices else None,
        None if seen.needed is None else timedelta(microseconds=seen.needed), seen.reached, seen.unreachable,
        unreachable(target, seen), how_often(seen),
    )  # fmt: skip


def _quality(measured: MeasuredQuality) -> Quality:
    since = measured.provisional_from
    return Quality(
        measured.of, measured.target, measured.share, measured.low, measured.high, measured.latest, measured.fulfilment,
        None if since is None else _moment(since),
    )  # fmt: skip


def _moment(micros: int) -> datetime | None:
    """An event time; None where it is none, or where no calendar has it."""
    if micros in (BEFORE_ALL, AFTER_ALL):
        return None
    try:
        return EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        return None


def _added(counts: Any) -> dict[str, int]:
    total: dict[str, int] = {}
    for one in counts:
        for name, count in one.items():
            total[name] = total.get(name, 0) + count
    return total


def clocks_of(reported: Metrics) -> list[int]:
    """The clocks of the streams.

    >>> clocks_of({"clocks": [None, 7]})[1]
    7
    """
    return [BEFORE_ALL if clock is None else clock for clock in reported["clocks"]]


def watermark_of(reported: Metrics) -> int:
    """Up to where everything has been emitted."""
    return BEFORE_ALL if reported["watermark"] is None else int(reported["watermark"])
