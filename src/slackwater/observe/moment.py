"""A moment of a query: everything that is shown of it after an epoch or a micro-batch, as one value of plain data.

The live page, its history, metrics and logs all read this value; every runtime makes it.

Invariant: it is JSON as it stands. Event times are milliseconds since 1970, durations milliseconds, `at` seconds since
1970 by the wall; what is not known is None. Its size is bounded: at most MOST_PARTITIONS clocks of partitions, 64
buckets of delays a stream, a curve of 16 points, few rows. Counts are those of the whole query so far; `delays` and
`latency` are those since the moment before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from slackwater.core.measured import MeasuredQuality
from slackwater.core.outlook import Outlook
from slackwater.core.quality import Quality, Recall, RelativeError
from slackwater.core.time import AFTER_ALL, BEFORE_ALL, MILLISECOND
from slackwater.core.trade_off import TradeOff
from slackwater.observe.delays import Buckets, added
from slackwater.observe.foreseen import unreachable
from slackwater.observe.waiting import PARTS

MOST_PARTITIONS = 24
MOST_SAMPLES = 6
MOST_TEXT = 400
"""A row that is shown is cut to so many characters."""


@dataclass(frozen=True)
class PartitionSeen:
    """The clock of one part of a stream."""

    name: str
    clock: float | None


@dataclass(frozen=True)
class StreamSeen:
    """One input."""

    name: str
    clock: float | None
    """The largest event time that is believed."""
    rows: int | None = None
    idle: bool = False
    """Whether nobody waits for it, because it is silent."""
    rejected: Mapping[str, int] = field(default_factory=dict)
    """By reason."""
    partitions: Sequence[PartitionSeen] = ()
    """The slowest ones, where the stream has parts."""
    partitions_in_all: int = 0


@dataclass(frozen=True)
class QualitySeen:
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


@dataclass(frozen=True)
class LatencySeen:
    """How long results waited, on average, and for what; milliseconds of event time."""

    average: float
    slack: float
    slowest_stream: float
    micro_batch: float
    p95: float | None = None
    stream: str | None = None
    """The slowest stream."""
    advice: str | None = None


@dataclass(frozen=True)
class OutlookSeen:
    """Whether the target can be met with the most slack that may be chosen."""

    cap: float
    needed: float | None
    reached: float | None
    said: str | None
    """The sentence for a target that cannot be met."""


@dataclass(frozen=True)
class TradeOffSeen:
    """The slack, in milliseconds, that other targets would ask for."""

    of: str
    shares: Sequence[float]
    slacks: Sequence[float]


@dataclass(frozen=True)
class Sample:
    """A row that came late or was rejected."""

    stream: str
    reason: str
    row: str


@dataclass(frozen=True)
class Moment:
    """One query after one epoch or micro-batch."""

    query: str
    batch: int
    """Epochs or micro-batches so far."""
    at: float
    seconds: float
    """What it took: the micro-batch, or the work since the moment before."""
    rows_per_second: float | None
    """Rows taken in a second of work."""
    target: str
    slack: float
    watermark: float | None
    streams: Sequence[StreamSeen]
    in_time: int
    late: int
    filtered: int
    held: int
    results: int
    rejected: Mapping[str, int]
    """By reason."""
    state_rows: int
    state_bytes: int
    quality: QualitySeen | None = None
    latency: LatencySeen | None = None
    """None where nothing was emitted."""
    outlook: OutlookSeen | None = None
    trade_off: TradeOffSeen | None = None
    delays: Buckets = field(default_factory=dict)
    wrong_clocks: Sequence[Mapping[str, Any]] = ()
    """Parts of streams whose clocks are wrong: stream, part, ahead_ms."""
    samples: Sequence[Sample] = ()
    ended: bool = False
    """The query has ended; this is its last moment."""
    failure: str | None = None
    paused: bool = False

    @property
    def clock(self) -> float | None:
        """The largest clock of all streams."""
        return max((one.clock for one in self.streams if one.clock is not None), default=None)

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)

    @classmethod
    def of_json(cls, data: Mapping[str, Any]) -> Moment:
        """The inverse of `as_json`.

        >>> seen = Moment("q", 1, 0.0, 0.1, None, "NO WAIT", 0.0, None, (), 0, 0, 0, 0, 0, {}, 0, 0)
        >>> Moment.of_json(seen.as_json()) == seen
        True
        """
        streams = [
            StreamSeen(**{**one, "partitions": tuple(PartitionSeen(**part) for part in one["partitions"])})
            for one in data["streams"]
        ]
        delays = {name: [(bucket, count) for bucket, count in buckets] for name, buckets in data["delays"].items()}
        return cls(
            **{
                **data,
                "streams": tuple(streams),
                "quality": _of(QualitySeen, data["quality"]),
                "latency": _of(LatencySeen, data["latency"]),
                "outlook": _of(OutlookSeen, data["outlook"]),
                "trade_off": _of(TradeOffSeen, data["trade_off"]),
                "samples": tuple(Sample(**one) for one in data["samples"]),
                "delays": delays,
                "wrong_clocks": tuple(data["wrong_clocks"]),
            }
        )

    def with_delays_of(self, earlier: Moment) -> Moment:
        """This moment in place of itself and an earlier one, which is forgotten: no arrival is lost."""
        samples = self.samples or earlier.samples
        return replace(self, delays=added([earlier.delays, self.delays]), samples=samples)


def _of(kind: type[Any], data: Mapping[str, Any] | None) -> Any:
    return None if data is None else kind(**data)


def event_ms(micros: int) -> float | None:
    """An event time as milliseconds; None where it is none.

    >>> event_ms(1_500), event_ms(BEFORE_ALL)
    (1.5, None)
    """
    return None if micros in (BEFORE_ALL, AFTER_ALL) else micros / MILLISECOND


def duration_ms(micros: float) -> float:
    """A duration as milliseconds."""
    return round(micros / MILLISECOND, 3)


def quality_seen(measured: MeasuredQuality | None) -> QualitySeen | None:
    """What was measured, as it is shown."""
    if measured is None:
        return None
    return QualitySeen(
        measured.of, measured.target, measured.share, measured.low, measured.high, measured.latest, measured.fulfilment
    )


def outlook_seen(target: Quality, outlook: Outlook | None) -> OutlookSeen | None:
    """Whether the target can be met, as it is shown."""
    if outlook is None:
        return None
    needed = None if outlook.needed is None else duration_ms(outlook.needed)
    return OutlookSeen(duration_ms(outlook.cap), needed, outlook.reached, unreachable(target, outlook))


def trade_off_seen(trade_off: TradeOff | None) -> TradeOffSeen | None:
    """What other targets would cost, as it is shown."""
    if trade_off is None:
        return None
    return TradeOffSeen(trade_off.of, list(trade_off.shares), [duration_ms(slack) for slack in trade_off.slacks])


def latency_seen(average: Mapping[str, float] | None, **more: Any) -> LatencySeen | None:
    """Waiting by cause, in microseconds, as it is shown.

    >>> latency_seen({"slack": 2000.0, "slowest_stream": 500.0, "epoch": 0.0})
    LatencySeen(average=2.5, slack=2.0, slowest_stream=0.5, micro_batch=0.0, p95=None, stream=None, advice=None)
    """
    if average is None:
        return None
    slack, slowest_stream, micro_batch = (duration_ms(average[name]) for name in PARTS)
    return LatencySeen(duration_ms(sum(average.values())), slack, slowest_stream, micro_batch, **more)


def share_of(target: Quality) -> float | None:
    """The share that a target asks for, where it asks for one."""
    if isinstance(target, Recall):
        return target.target
    return target.confidence if isinstance(target, RelativeError) else None


def shortened(text: str) -> str:
    """A row that is shown, cut where it is long.

    >>> len(shortened("x" * 1000)), shortened("short")
    (401, 'short')
    """
    return text if len(text) <= MOST_TEXT else f"{text[:MOST_TEXT]}…"
