"""Where waiting comes from: slack, the slowest stream, the epoch. One definition for every runtime.

A result with timestamp t is emitted when the largest clock is C, so it has waited C - t. Of that

- **slack** is the slack in force, K, or all of it where that is less: until the largest clock was at t + K;
- **slowest stream** is the time from there on until the clock of the slowest stream was at t + K as well, which takes
  its next tuple;
- **epoch** is the rest, until the epoch ended; nothing where every tuple is emitted by itself.

Clocks are not read inside an epoch. They are taken to move evenly: a result that lies half way between where the
watermark was before and where it is now was ready half an epoch before its end. Of several epochs at once only averages
are known, and a result is taken to have been ready half an epoch before.

Where results leave on arrival there is no slack, and "slowest stream" is what they wait for their last member.

Invariant: the three add up to C - t for every result, so their averages add up to the average latency.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from slackwater.core.batch import Words
from slackwater.core.options import Options
from slackwater.core.state import InForce
from slackwater.core.time import AFTER_ALL, BEFORE_ALL, MILLISECOND, roughly
from slackwater.core.values import Value, over_shards
from slackwater.observe.distribution import exact_sums

PARTS = ("slack", "slowest_stream", "epoch")
MOSTLY = 0.5
"""A cause with more than this share of the waiting is what results mostly wait for."""
FAR_MORE = 2
"""The slowest stream is to blame where it takes so many times more than slack does."""


def parts_of(waits: Words, force: InForce) -> tuple[Words, Words, Words]:
    """How much of each wait is slack, waiting for the slowest stream, and waiting for the epoch to end."""
    # Where clocks follow a vote, a result may be a little ahead of them.
    slack = np.minimum(force.slack, np.maximum(waits, 0))
    rest = waits - slack
    epoch = np.minimum(_ready(waits, force), np.maximum(rest, 0))
    return slack, rest - epoch, epoch


def _ready(waits: Words, force: InForce) -> Words:
    """How long before the end of its epoch each result was ready."""
    if not force.known or force.moved == 0:
        return np.full_like(waits, force.epoch // 2)
    behind = np.maximum(waits - force.lag, 0)
    if force.epoch >= AFTER_ALL:
        return behind
    return np.rint(np.minimum(behind / force.moved, 1.0) * force.epoch).astype(np.int64)


@dataclass(frozen=True)
class Waiting(Value):
    """What some results have waited for: microseconds of all of them together by cause, and quantiles of their waits,
    where these are known; of several shards, of the one that waits longest.

    >>> (Waiting(20, 36, 19, 1, p95=75.0) + Waiting(40, 36, 21, 3)).average()
    {'slack': 15.0, 'slowest_stream': 18.0, 'epoch': 10.0}
    """

    slack: int = 0
    slowest_stream: int = 0
    epoch: int = 0
    results: int = 0
    at_end: int = 0
    """Results that were emitted only because the input ended."""
    stuck: int = field(default=0, metadata=over_shards(max))
    """How far the watermark was then behind where slack alone would have had it."""
    p50: float | None = field(default=None, metadata=over_shards(max))
    p95: float | None = field(default=None, metadata=over_shards(max))
    p99: float | None = field(default=None, metadata=over_shards(max))

    def average(self) -> dict[str, float] | None:
        """Microseconds of waiting by cause, on average; None where nothing was emitted before the end."""
        return {name: getattr(self, name) / self.results for name in PARTS} if self.results else None

    def since(self, earlier: Waiting) -> Waiting:
        """What came since an earlier count of the same run."""
        parts = (getattr(self, name) - getattr(earlier, name) for name in (*PARTS, "results"))
        return Waiting(*parts)


class Causes:
    """The parts of all waiting, added up.

    >>> causes = Causes()
    >>> causes.note(np.array([90, 60]), np.array([1, 1]), InForce(slack=20, lag=50, epoch=30, moved=40))
    >>> causes.average()
    {'slack': 20.0, 'slowest_stream': 36.0, 'epoch': 19.0}
    """

    def __init__(self) -> None:
        self.so_far = Waiting()

    def note(self, waits: Words, weights: Words, force: InForce) -> None:
        """Results have been emitted after these waits, so many each."""
        if not len(waits):
            return
        slack, stream, epoch = (exact_sums(part, weights) for part in parts_of(waits, force))
        self.so_far += Waiting(slack[1], stream[1], epoch[1], slack[0])

    def end(self, results: int, force: InForce) -> None:
        """The input has ended, and everything was emitted."""
        self.so_far += Waiting(at_end=results, stuck=max(0, force.lag - force.slack))

    def average(self) -> dict[str, float] | None:
        return self.so_far.average()

    def add(self, reported: Waiting) -> None:
        self.so_far += reported


@dataclass(frozen=True)
class Slowest:
    """The stream that was the slowest for the longest time."""

    stream: str
    share: float
    """Of the event time that has passed."""
    behind: float | None
    """How far it was behind the largest clock on average, in microseconds; None while it has not spoken."""

    def as_json(self) -> dict[str, Any]:
        behind = None if self.behind is None else round(self.behind / MILLISECOND, 3)
        return {"stream": self.stream, "share": round(self.share, 4), "behind_ms": behind}


class SlowestUse:
    """Which stream is behind the others, weighted by the event time that passes meanwhile.

    >>> use = SlowestUse()
    >>> use.note([0, 0]); use.note([60, 10]); use.note([90, 95])
    >>> use.reported(["a", "b"])
    Slowest(stream='b', share=0.631578947368421, behind=50.0)
    """

    def __init__(self) -> None:
        self._largest = BEFORE_ALL
        self._time: dict[int, int] = {}
        self._behind: dict[int, int] = {}
        self._silent: set[int] = set()

    def note(self, clocks: Sequence[int]) -> None:
        largest = max(clocks, default=BEFORE_ALL)
        if largest == BEFORE_ALL:
            return
        passed = 0 if self._largest == BEFORE_ALL else largest - self._largest
        self._largest = max(largest, self._largest)
        slowest = min(clocks)
        at = list(clocks).index(slowest)
        if passed <= 0 or slowest == largest:
            return
        self._time[at] = self._time.get(at, 0) + passed
        if slowest == BEFORE_ALL:
            self._silent.add(at)
        else:
            self._silent.discard(at)
            self._behind[at] = self._behind.get(at, 0) + passed * (largest - slowest)

    def reported(self, aliases: Sequence[str]) -> Slowest | None:
        """The one that was it for the longest time; None where no stream was behind another."""
        if not self._time or len(aliases) < 2:
            return None
        at = max(self._time, key=lambda one: (self._time[one], -one))
        behind = None if at in self._silent else self._behind[at] / self._time[at]
        return Slowest(aliases[at], self._time[at] / sum(self._time.values()), behind)


def mostly_for_a_stream(average: Mapping[str, float]) -> bool:
    """Whether results wait for the slowest stream, more than for anything else and far more than for late tuples.

    >>> mostly_for_a_stream({"slack": 300.0, "slowest_stream": 3600.0, "epoch": 60.0})
    True
    >>> mostly_for_a_stream({"slack": 300.0, "slowest_stream": 500.0, "epoch": 60.0})
    False
    """
    waited = average["slowest_stream"]
    return waited > MOSTLY * sum(average.values()) and waited > FAR_MORE * average["slack"]


def advice(slowest: Slowest | None, options: Options, in_epochs: bool, arrival_times: bool) -> str:
    """What helps where results wait for the slowest stream.

    >>> print(advice(Slowest("p2", 0.97, 660e6), Options(), in_epochs=False, arrival_times=False))
    results wait mostly for stream p2, 11 minutes behind the others on average; what helps: option idle_timeout, with \
--arrival-time (a stream silent for so long is not waited for)
    >>> print(advice(Slowest("p2", 0.97, None), Options(idle_timeout=60_000_000), in_epochs=True, arrival_times=True))
    results wait mostly for stream p2, which has not spoken yet; what helps: option idle_after, such as 20 (a stream \
left behind by so many of its usual gaps is not waited for), or an idle_timeout below 1 minute
    """
    if slowest is None:
        return "results wait mostly for the next tuple of their own stream, which is sparse"
    behind = "which has not spoken yet"
    if slowest.behind is not None:
        behind = f"{roughly(slowest.behind)} behind the others on average"
    return f"results wait mostly for stream {slowest.stream}, {behind}; what helps: " + ", or ".join(
        ([_idle_after(options)] if in_epochs else []) + [_idle_timeout(options, arrival_times)]
    )


def _idle_after(options: Options) -> str:
    if options.idle_after is not None:
        return f"an idle_after below {options.idle_after:g}"
    return "option idle_after, such as 20 (a stream left behind by so many of its usual gaps is not waited for)"


def _idle_timeout(options: Options, arrival_times: bool) -> str:
    if options.idle_timeout is not None:
        return f"an idle_timeout below {roughly(options.idle_timeout)}"
    given = "" if arrival_times else ", with --arrival-time"
    return f"option idle_timeout{given} (a stream silent for so long is not waited for)"
