"""The progress of queries as metrics of Prometheus.

Invariant: names and units keep its conventions: base units, `_total` for what only grows, a share is a `_ratio` from 0
to 1. There is one registry for each `LatestProgress`, none of the process. What is not known is left out, and never 0.
The number of time series is bounded by queries, streams and reasons; partitions, of which there may be any number, are
only counted. A query that has ended stays, with its last numbers. What is counted since the progress before (delays) is
added up here, so that nothing is lost between two scrapes. Any thread may write and any may read.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cache
from importlib.metadata import version
from typing import Any, TypeAlias

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from slackwater.core.time import SECOND
from slackwater.observe.delays import BUCKETS, EDGES
from slackwater.observe.value import Latency, QueryProgress, StreamProgress


@dataclass(frozen=True)
class QueryStatus:
    """One query at a scrape."""

    query: str
    running: bool = True
    progress: QueryProgress | None = None
    """With the delays of all that has arrived since it is followed; None before it has reported anything."""
    latency: Latency | None = None
    """Of the latest progress in which something was emitted."""


class LatestProgress:
    """Takes progress, and gives the status of queries.

    >>> latest = LatestProgress()
    >>> latest.expect("pairs")
    >>> latest.statuses()
    [QueryStatus(query='pairs', running=True, progress=None, latency=None)]
    """

    def __init__(self) -> None:
        self._statuses: dict[str, QueryStatus] = {}
        self._lock = threading.Lock()

    def expect(self, query: str, **_: Any) -> None:
        """A query runs, and has reported nothing yet."""
        with self._lock:
            self._statuses.setdefault(query, QueryStatus(query))

    def publish(self, progress: QueryProgress) -> None:
        with self._lock:
            before = self._statuses.get(progress.query, QueryStatus(progress.query))
            self._statuses[progress.query] = QueryStatus(
                progress.query,
                running=not progress.ended and progress.failure is None,
                progress=progress if before.progress is None else progress.after(before.progress),
                latency=progress.latency or before.latency,
            )

    def ended(self, query: str, failure: str | None = None) -> None:
        """A query runs no more, without having reported it itself."""
        with self._lock:
            before = self._statuses.get(query, QueryStatus(query))
            progress = before.progress
            if progress is not None and failure is not None:
                progress = replace(progress, failure=failure)
            self._statuses[query] = replace(before, running=False, progress=progress)

    def statuses(self) -> list[QueryStatus]:
        """All queries that have ever reported, in the order of their names."""
        with self._lock:
            return [self._statuses[name] for name in sorted(self._statuses)]


GAUGE, COUNTER = "gauge", "counter"
Look: TypeAlias = Callable[[], None]
"""What is called before every scrape."""
Labels: TypeAlias = tuple[str, ...]
Values: TypeAlias = list[tuple[Labels, float | None]]
BOUNDS = tuple(range(1, BUCKETS - 1, 4))
"""The buckets of delays that are exported: 1 ms, and then four times as much each."""


@dataclass(frozen=True)
class Told:
    """One metric: what it says of a query, for each of its labels beside the name of the query."""

    name: str
    kind: str
    help: str
    labels: Labels
    of: Callable[[QueryStatus], Values]


def _one(name: str, kind: str, help: str, read: Callable[[QueryProgress], float | None]) -> Told:
    """A metric that has one value a query."""

    def of(status: QueryStatus) -> Values:
        return [] if status.progress is None else [((), read(status.progress))]

    return Told(name, kind, help, (), of)


def _many(name: str, kind: str, help: str, labels: Labels, read: Callable[[QueryProgress], Values]) -> Told:
    """A metric that has a value for each value of these labels."""
    return Told(
        name, kind, help, labels, lambda status: [] if status.progress is None else read(status.progress)
    )  # fmt: skip


def _seconds(value: timedelta | datetime | None) -> float | None:
    if isinstance(value, datetime):
        return value.timestamp()
    return None if value is None else value.total_seconds()


def _behind(clock: datetime | None, other: datetime | None) -> float | None:
    """How far one event time is behind another."""
    return None if clock is None or other is None else max(0.0, (clock - other).total_seconds())


def _quality(name: str) -> Callable[[QueryProgress], Values]:
    def read(progress: QueryProgress) -> Values:
        seen = progress.quality
        return [] if seen is None else [((seen.of,), getattr(seen, name))]

    return read


def _rejected(progress: QueryProgress) -> Values:
    return [((reason,), float(count)) for reason, count in progress.rejected.items()]


def _rejected_of_streams(progress: QueryProgress) -> Values:
    return [
        ((name, reason), float(count))
        for name, stream in progress.streams.items()
        for reason, count in stream.rejected.items()
    ]  # fmt: skip


def _streams(read: Callable[[StreamProgress], float | None]) -> Callable[[QueryProgress], Values]:
    return lambda progress: [((name,), read(one)) for name, one in progress.streams.items()]


def _wrong_clocks(progress: QueryProgress) -> Values:
    wrong = [one.stream for one in progress.wrong_clocks]
    return [((name,), float(wrong.count(name))) for name in progress.streams]


def _lagging(progress: QueryProgress) -> Values:
    behind = {one.stream: -one.ahead for one in reversed(progress.lagging)}
    return [((name,), behind.get(name, 0) / SECOND) for name in progress.streams]


def _waiting(status: QueryStatus) -> Values:
    seen = status.latency
    if seen is None:
        return []
    return [((cause,), _seconds(getattr(seen, cause))) for cause in ("slack", "slowest_stream", "micro_batch")]


def _trade_off(progress: QueryProgress) -> Values:
    curve = progress.trade_off
    if curve is None:
        return []
    return [((f"{share:g}",), slack / SECOND) for share, slack in zip(curve.shares, curve.slacks, strict=True)]


STREAM = ("stream",)
METRICS: tuple[Told, ...] = (
    Told(
        "slackwater_query_running", GAUGE, "1 while the query runs, 0 once it has ended or failed.", (),
        lambda status: [((), float(status.running))],
    ),
    _one("slackwater_query_failed", GAUGE, "1 where the query has failed.", lambda m: float(m.failure is not None)),
    _one("slackwater_query_paused", GAUGE, "1 while a query of a set is paused.", lambda m: float(m.paused)),
    _many(
        "slackwater_query_info", GAUGE, "Always 1; the label says the target in force.", ("target",),
        lambda m: [((m.target,), 1.0)],
    ),
    _one(
        "slackwater_last_progress_timestamp_seconds", GAUGE,
        "When the query last reported its progress, by the wall clock.", lambda m: m.time,
    ),
    _one("slackwater_batches_total", COUNTER, "Epochs, or micro-batches, so far.", lambda m: float(m.batch)),
    _one("slackwater_batch_duration_seconds", GAUGE, "What the latest micro-batch took.", lambda m: m.seconds),
    _one(
        "slackwater_processing_rows_per_second", GAUGE, "Rows taken in a second of work: how fast the query could be.",
        lambda m: m.rows_per_second,
    ),
    _one(
        "slackwater_slack_seconds", GAUGE,
        "How long tuples are held back now; where results leave on arrival, how long they stay findable.",
        lambda m: _seconds(m.slack),
    ),
    _one(
        "slackwater_slack_cap_seconds", GAUGE, "The most slack that may be chosen.",
        lambda m: None if m.outlook is None else _seconds(m.outlook.cap),
    ),
    _one(
        "slackwater_slack_needed_seconds", GAUGE, "The slack that the target asks for, cap or not.",
        lambda m: None if m.outlook is None else _seconds(m.outlook.needed),
    ),
    _one(
        "slackwater_target_reachable", GAUGE, "0 where the most slack that may be chosen is too little for the target.",
        lambda m: None if m.outlook is None else float(m.outlook.said is None),
    ),
    _one(
        "slackwater_watermark_timestamp_seconds", GAUGE, "Event time up to which everything has been emitted.",
        lambda m: _seconds(m.watermark),
    ),
    _one(
        "slackwater_watermark_lag_seconds", GAUGE, "How far the watermark is behind the largest clock, in event time.",
        lambda m: _behind(m.clock, m.watermark),
    ),
    _many(
        "slackwater_stream_clock_timestamp_seconds", GAUGE, "The largest event time of a stream that is believed.",
        STREAM, _streams(lambda one: _seconds(one.clock)),
    ),
    _many(
        "slackwater_stream_lag_seconds", GAUGE, "How far the clock of a stream is behind the largest one.",
        STREAM, lambda m: [((name,), _behind(m.clock, one.clock)) for name, one in m.streams.items()],
    ),
    _many(
        "slackwater_stream_idle", GAUGE, "1 while the query does not wait for a stream, because it is silent.",
        STREAM, _streams(lambda one: float(one.idle)),
    ),
    _many(
        "slackwater_stream_partitions", GAUGE, "Parts of a stream that have clocks of their own.", STREAM,
        _streams(lambda one: one.partitions_in_all or None),
    ),
    _many(
        "slackwater_stream_wrong_clocks", GAUGE, "Parts of a stream whose clocks are wrong, and isolated.",
        STREAM, _wrong_clocks,
    ),
    _many(
        "slackwater_stream_lagging_partition_seconds", GAUGE,
        "How far the partition of a stream that is waited for is behind most others, where it is far.",
        STREAM, _lagging,
    ),
    _many(
        "slackwater_stream_rows_total", COUNTER, "Rows of a stream that have arrived.",
        STREAM, _streams(lambda one: one.rows),
    ),
    _many(
        "slackwater_stream_rejected_rows_total", COUNTER, "Rows of a stream that cannot be used, by reason.",
        ("stream", "reason"), _rejected_of_streams,
    ),
    _many(
        "slackwater_tuples_total", COUNTER, "Tuples by what became of them: in time, late, or filtered.",
        ("outcome",), lambda m: [((name,), float(getattr(m, name))) for name in ("in_time", "late", "filtered")],
    ),
    _many("slackwater_rejected_rows_total", COUNTER, "Rows that cannot be used, by reason.", ("reason",), _rejected),
    _one("slackwater_held_tuples", GAUGE, "Tuples that wait to be released.", lambda m: float(m.held)),
    _one("slackwater_results_total", COUNTER, "Results that were emitted.", lambda m: float(m.results)),
    _one(
        "slackwater_amended_rows_total", COUNTER,
        "Rows beside the first answer: corrections, and rows of open windows.",
        lambda m: None if m.amends is None else float(m.amended),
    ),
    _one(
        "slackwater_corrections_expected", GAUGE, "How many more corrections late tuples will probably bring.",
        lambda m: None if m.quality is None else m.quality.corrections_expected,
    ),
    _one("slackwater_state_rows", GAUGE, "Rows that stand in windows, or wait.", lambda m: float(m.state_rows)),
    _one("slackwater_state_bytes", GAUGE, "Bytes that stand in windows.", lambda m: float(m.state_bytes)),
    _many(
        "slackwater_quality_target_ratio", GAUGE, "The share of results, or of windows, that the target asks for.",
        ("of",), _quality("target"),
    ),
    _many("slackwater_quality_measured_ratio", GAUGE, "What was measured of it.", ("of",), _quality("measured")),
    _many(
        "slackwater_quality_corrected_ratio", GAUGE, "What was measured of it once corrections are applied.",
        ("of",), _quality("after_corrections"),
    ),
    _many("slackwater_quality_low_ratio", GAUGE, "What it is at least.", ("of",), _quality("low")),
    _many("slackwater_quality_high_ratio", GAUGE, "What it is at most.", ("of",), _quality("high")),
    _many(
        "slackwater_quality_latest_ratio", GAUGE, "The same over the latest period that is settled.",
        ("of",), _quality("latest"),
    ),
    _many(
        "slackwater_quality_fulfilment_ratio", GAUGE, "The share of periods that met the target.",
        ("of",), _quality("fulfilment"),
    ),
    Told(
        "slackwater_waiting_seconds", GAUGE,
        "What results last waited for on average, by cause, in event time; the sum is the latency.",
        ("cause",), _waiting,
    ),
    Told(
        "slackwater_latency_p95_seconds", GAUGE, "95 % of the latest results waited no longer, in event time.", (),
        lambda status: [((), None if status.latency is None else _seconds(status.latency.p95))],
    ),
    _many(
        "slackwater_trade_off_slack_seconds", GAUGE, "The slack that another target would ask for; an estimate.",
        ("share",), _trade_off,
    ),
)  # fmt: skip
"""All metrics but the delays."""
DELAYS = "slackwater_delay_seconds"
DELAYS_HELP = (
    "How late tuples came behind the clock of their stream. Delays are counted in buckets, so there is no sum."
)
BUILD = "slackwater_build_info"


@cache
def _version() -> str:
    """It is read from a file."""
    return version("slackwater")


class ProgressCollector(Collector):
    """What a scrape finds: the numbers of the latest progress."""

    def __init__(self, latest: LatestProgress, look: Look | None = None) -> None:
        self._latest, self._look = latest, look

    def collect(self) -> Iterator[Metric]:
        build = GaugeMetricFamily(BUILD, "Always 1; the label says the version.", labels=["version"])
        build.add_metric([_version()], 1)
        yield build
        if self._look is not None:
            self._look()
        statuses = self._latest.statuses()
        for metric in METRICS:
            family = (GaugeMetricFamily if metric.kind == GAUGE else CounterMetricFamily)(
                metric.name, metric.help, labels=["query", *metric.labels]
            )
            for status in statuses:
                for labels, value in metric.of(status):
                    if value is not None:
                        family.add_metric([status.query, *labels], value)
            if family.samples:
                yield family
        delays = HistogramMetricFamily(DELAYS, DELAYS_HELP, labels=["query", "stream"])
        for status in statuses:
            for stream, buckets in ({} if status.progress is None else status.progress.delays).items():
                _add_delays(delays, status.query, stream, dict(buckets))
        if delays.samples:
            yield delays


def _add_delays(family: HistogramMetricFamily, query: str, stream: str, buckets: Mapping[int, int]) -> None:
    labels = {"query": query, "stream": stream}
    for bound in BOUNDS:
        count = sum(tuples for bucket, tuples in buckets.items() if bucket <= bound)
        family.add_sample(f"{DELAYS}_bucket", labels | {"le": repr(EDGES[bound].item() / SECOND)}, count)
    total = sum(buckets.values())
    family.add_sample(f"{DELAYS}_bucket", labels | {"le": "+Inf"}, total)
    family.add_sample(f"{DELAYS}_count", labels, total)


def registry_of(latest: LatestProgress, look: Look | None = None) -> CollectorRegistry:
    """A registry with these queries, and nothing of the process; `look` is called before every scrape."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(ProgressCollector(latest, look))
    return registry


def metrics_text(latest: LatestProgress, accept: str = "", look: Look | None = None) -> tuple[bytes, str]:
    """What a scrape is answered, for a server of any kind: text, and its type by what is accepted."""
    encode, media_type = choose_encoder(accept)
    return encode(registry_of(latest, look)), media_type


def metric_names() -> frozenset[str]:
    """The names of all time series that a scrape can give."""
    delays = {f"{DELAYS}_bucket", f"{DELAYS}_count"}
    return frozenset({metric.name for metric in METRICS} | delays | {BUILD})
