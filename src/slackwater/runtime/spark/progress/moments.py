"""The progress of a query on Spark as a moment, which the page, metrics and logs show.

Invariant: its numbers are those of the `Progress` and nothing else; only units and names differ.
"""

from __future__ import annotations

import time
from datetime import datetime, timedelta

from slackwater.observe.moment import (
    LatencySeen,
    Moment,
    OutlookSeen,
    PartitionSeen,
    QualitySeen,
    Sample,
    StreamSeen,
    shortened,
    trade_off_seen,
)
from slackwater.runtime.side_outputs.rows import LATE, REJECTED
from slackwater.runtime.spark.progress.value import Latency, Outlook, Progress, Quality, StreamProgress

NOTHING = timedelta(0)


def moment_of(progress: Progress) -> Moment:
    """The moment after a micro-batch."""
    return Moment(
        query=progress.query,
        batch=progress.batch,
        at=_wall(progress.at),
        seconds=progress.duration.total_seconds(),
        rows_per_second=progress.rows_per_second,
        target=progress.target,
        slack=_ms(progress.slack),
        watermark=_event(progress.watermark),
        streams=tuple(_stream(name, one) for name, one in progress.streams.items()),
        in_time=progress.in_time,
        late=progress.late,
        filtered=progress.filtered,
        held=progress.held,
        results=progress.results,
        rejected=progress.rejected,
        state_rows=progress.state_rows,
        state_bytes=progress.state_bytes,
        quality=_quality(progress.quality),
        latency=_latency(progress.latency),
        outlook=_outlook(progress.outlook),
        trade_off=trade_off_seen(progress.trade_off),
        delays=progress.delays,
        wrong_clocks=tuple(one.as_json() for one in progress.wrong_clocks),
        samples=tuple(_samples(progress)),
        failure=progress.failure,
        paused=progress.paused,
    )


def _stream(name: str, one: StreamProgress) -> StreamSeen:
    parts = tuple(PartitionSeen(part, _event(clock)) for part, clock in one.partitions.items())
    return StreamSeen(name, _event(one.clock), one.rows, one.idle, one.rejected, parts, one.partitions_in_all)


def _samples(progress: Progress) -> list[Sample]:
    found = []
    for name, one in progress.streams.items():
        for reason, row in ((LATE, one.late_example), (REJECTED, one.example)):
            if row is not None:
                found.append(Sample(name, reason, shortened(row)))
    return found


def _quality(seen: Quality | None) -> QualitySeen | None:
    if seen is None:
        return None
    return QualitySeen(seen.of, seen.target, seen.measured, seen.low, seen.high, seen.latest, seen.fulfilment)


def _latency(seen: Latency | None) -> LatencySeen | None:
    if seen is None:
        return None
    parts = (_ms(part) for part in (seen.average, seen.slack, seen.slowest_stream, seen.micro_batch))
    average, slack, slowest_stream, micro_batch = parts
    return LatencySeen(average, slack, slowest_stream, micro_batch, _ms(seen.p95), seen.stream, seen.advice)


def _outlook(seen: Outlook | None) -> OutlookSeen | None:
    if seen is None:
        return None
    return OutlookSeen(_ms(seen.cap), None if seen.needed is None else _ms(seen.needed), seen.reached, seen.said)


def _ms(duration: timedelta) -> float:
    return duration / timedelta(milliseconds=1)


def _event(moment: datetime | None) -> float | None:
    return None if moment is None else moment.timestamp() * 1000


def _wall(told: str) -> float:
    """When a micro-batch began, as Spark tells it."""
    try:
        return datetime.fromisoformat(told).timestamp()
    except ValueError:
        return time.time()
