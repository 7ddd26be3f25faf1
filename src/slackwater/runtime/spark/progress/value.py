"""The progress of a streaming query after one micro-batch, added up over its shards.

Invariant: times are `datetime` in UTC, durations are `timedelta`, shares are floats; what is not known is None. Counts
are those of the whole query since it was first started, over restarts, unless they say otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from slackwater.language.clauses import parse_quality
from slackwater.model.measured import MeasuredQuality, together
from slackwater.model.memory import Memory
from slackwater.model.time import AFTER_ALL, BEFORE_ALL
from slackwater.runtime.spark.metrics import Metrics, clocks_of, watermark_of

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


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


@dataclass(frozen=True)
class Latency:
    """How long results of this micro-batch waited, in event time, and for what, on average."""

    average: timedelta
    p95: timedelta
    """Of the shard where it is largest."""
    slack: timedelta
    """Waiting for tuples that are late."""
    slowest_stream: timedelta
    """Waiting for the stream whose clock is behind the others."""
    micro_batch: timedelta
    """Waiting for the end of the micro-batch, and for windows to end."""


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

    @property
    def late_share(self) -> float | None:
        """Late tuples among those that are in time or late."""
        judged = self.in_time + self.late
        return self.late / judged if judged else None


def progress_of(shards: Sequence[Metrics], aliases: Sequence[str], spark: Mapping[str, Any]) -> Progress:
    """What the shards said after a micro-batch, added up; `spark` is what Spark's own progress says of it."""
    clocks = clocks_of(shards[0])
    slack = max(one["slack"] for one in shards)
    watermark = min(watermark_of(one) for one in shards)
    measured = together([MeasuredQuality.of_counts(one["quality"]["counts"]) for one in shards if one["quality"]])
    memory = [Memory.of_json(one["memory"]).query for one in shards if one["memory"]]
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
            )
            for position, alias in enumerate(aliases)
        },
        watermark=_moment(watermark),
        ended=watermark == AFTER_ALL,
        slack=timedelta(microseconds=slack),
        latency=_latency(shards, clocks, slack),
        emitted=total("emitted"),
        results=total("results"),
        in_time=total("in_time"),
        late=total("late"),
        filtered=total("filtered"),
        rejected=rejected,
        held=total("held"),
        state_rows=total("retained") + total("held"),
        state_bytes=sum(one.bytes for one in memory),
        target=str(parse_quality(shards[0]["target"])),
        quality=None if measured is None else _quality(measured),
    )


def _latency(shards: Sequence[Metrics], clocks: Sequence[int], slack: int) -> Latency | None:
    """The waiting, and its parts: the slack in force, how far the slowest stream is behind, and what is left."""
    told = [(one["emitted"], one["latency_ms"]) for one in shards if one["emitted"]]
    if not told:
        return None
    average = 1000 * sum(count * waits["avg"] for count, waits in told) / sum(count for count, _ in told)
    known = [clock for clock in clocks if clock != BEFORE_ALL]
    behind = min(max(known) - min(known), average)
    waited = min(float(slack), average - behind)
    parts = (average, 1000 * max(waits["p95"] for _, waits in told), waited, behind, average - behind - waited)
    return Latency(*(timedelta(microseconds=round(part)) for part in parts))


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
