"""What happens to tuples on their way: delays, and faults (clocks that go wrong, tuples that come twice, streams that
fall silent).

Invariant: delays leave event times as they are. Clocks change what a tuple says of its time and nothing else; it
arrives when it would have arrived. Every length is in seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from slackwater.core.errors import UsageError
from slackwater.workloads.disorder.model import AddedDelay, Disorder, Rng, Sent, delays
from slackwater.workloads.workload import Flags, Floats


def exponential(mean: float = 0.2) -> AddedDelay:
    """Every tuple takes its own time, mostly short: a network that works.

    >>> from slackwater.workloads import disorder
    >>> taken = disorder.drawn(disorder.exponential(mean=0.2), np.arange(10_000))
    >>> round(float(taken.mean()), 1)
    0.2
    """
    return delays(lambda rng, at: rng.exponential(_positive("mean", mean), len(at)))


def heavy_tail(median: float = 0.1, shape: float = 1.3, most: float = 30.0) -> AddedDelay:
    """Half of the tuples come within `median`, a few very much later (Pareto of that shape): retries, mobile links."""
    scale = _positive("median", median) / (2 ** (1 / _positive("shape", shape)) - 1)
    return delays(lambda rng, at: np.minimum(scale * rng.pareto(shape, len(at)), most))


def bursts(every: float = 20.0, lasts: float = 3.0, share: float = 0.3) -> AddedDelay:
    """About every so often a share of the tuples is stuck for up to `lasts`, then comes all at once: a pause, a retry.

    The times between bursts lie between half and one and a half of `every`.
    """

    def draw(rng: Rng, at: Floats) -> Floats:
        begins = np.cumsum(
            _positive("every", every) * rng.uniform(0.5, 1.5, 1 + int(2 * np.max(at, initial=0) / every))
        )
        return np.where(rng.random(len(at)) < share, _until_the_end(at, begins, np.full(len(begins), lasts)), 0.0)

    return delays(draw)


def shift(model: AddedDelay, spans: Sequence[tuple[float, float]], times: float = 10.0) -> AddedDelay:
    """Delays grow so many times in each span `(begin, end)`, and are as before afterwards: a link that is overloaded.

    >>> from slackwater.workloads import disorder
    >>> jam = disorder.shift(disorder.delays(lambda rng, at: np.ones(len(at))), [(10, 20)])
    >>> disorder.drawn(jam, [5, 10, 15, 25]).tolist()
    [1.0, 10.0, 10.0, 1.0]
    """
    return model.scaled(lambda at: np.where(_within(at, spans), times, 1.0))


def cycle(model: AddedDelay, every: float, times: float = 10.0) -> AddedDelay:
    """Delays grow to so many times and shrink again, over and over: day and night in short."""
    return model.scaled(lambda at: times ** (0.5 - 0.5 * np.cos(2 * np.pi * at / every)))


def lag(begins: Sequence[float], lasts: float = 60.0, peak: float = 20.0, of: int = 4) -> AddedDelay:
    """One partition of so many falls behind, up to `peak`, and catches up again. A source has a partition of its own.

    >>> from slackwater.workloads import disorder
    >>> behind = disorder.drawn(disorder.lag([100]), [100, 115, 130, 145, 160], source=[0, 0, 0, 4, 4])
    >>> behind.tolist(), disorder.drawn(disorder.lag([100]), [130], source=[1]).tolist()
    ([0.0, 10.0, 20.0, 10.0, 0.0], [0.0])
    """
    if 2 * peak > lasts:
        raise UsageError("a partition that catches up faster than time goes on would overtake itself: 2 peak > lasts")
    corners = [corner for begin in begins for corner in (begin, begin + lasts / 2, begin + lasts)]
    behind = delays(lambda rng, at: np.interp(at, corners, [0.0, peak, 0.0] * len(begins)))
    return behind.of(lambda source: source % of == 0)


def offline(share: float = 0.1, every: float = 240.0, shortest: float = 20.0, longest: float = 60.0) -> AddedDelay:
    """A share of the sources loses its link once in each period of `every`, each for itself, and keeps what it has.

    When a source is back, it sends its backlog at once.
    """

    def draw(rng: Rng, sent: Sent) -> Floats:
        if not 0 < shortest <= longest <= every:
            raise UsageError("sources are offline for 0 < shortest <= longest <= every seconds")
        held = np.zeros(len(sent.at))
        flaky = np.unique(sent.source[sent.some_sources(rng, share)])
        periods = np.arange(1 + int(np.max(sent.at, initial=0) / every))
        for source in flaky:
            mine = np.flatnonzero(sent.source == source)
            lasts = rng.uniform(shortest, longest, len(periods))
            begins = every * periods + rng.random(len(periods)) * (every - lasts)
            held[mine] = _until_the_end(sent.at[mine], begins, lasts)
        return held

    return AddedDelay(draw)


def _until_the_end(at: Floats, begins: Floats, lasts: Floats) -> Floats:
    """How long it is to the end of the period that a time lies in; 0 outside. `begins` is sorted."""
    nth = np.searchsorted(begins, at, side="right") - 1
    ends = begins[nth] + lasts[nth]
    return np.where((nth >= 0) & (at < ends), ends - at, 0.0)


def _within(at: Floats, spans: Sequence[tuple[float, float]]) -> Flags:
    found = np.zeros(len(at), np.bool_)
    for begin, end in spans:
        found |= (at >= begin) & (at < end)
    return found


def _positive(name: str, value: float) -> float:
    if not 0 < value < float("inf"):
        raise UsageError(f"{name} is above 0, not {value:g}")
    return value


DAY = 86_400.0


def ahead(by: float = 1800.0, sources: float = 0.02) -> Disorder:
    """So many of the sources (a share; at least one) live in the future, all the time.

    >>> from slackwater.workloads import disorder
    >>> import pyarrow as pa
    >>> table = pa.table({"ts": [0, 0, 1000, 1000], "source": [1, 2, 1, 2]})
    >>> sorted(disorder.apply(table, disorder.ahead(by=60, sources=0.5))["ts"].to_pylist())
    [0, 1000, 60000, 61000]
    """
    return _clocks(lambda rng, sent: np.where(sent.some_sources(rng, sources), by, 0.0))


def behind(by: float = 3 * 3600.0, sources: float = 0.02) -> Disorder:
    """So many of the sources (a share; at least one) live in the past: a wrong time zone, a battery that ran dry."""
    return ahead(-by, sources)


def jumps(share: float = 0.03, shortest: float = 1.0, longest: float = 3 * DAY) -> Disorder:
    """Now and then a tuple is dated into the future, by seconds to days (log-uniformly), from any source."""

    def offsets(rng: Rng, sent: Sent) -> Floats:
        far: Floats = shortest * (longest / shortest) ** rng.random(len(sent.at))
        return np.where(rng.random(len(sent.at)) < share, far, 0.0)

    return _clocks(offsets)


def dated_1970(share: float = 0.002) -> Disorder:
    """Now and then a tuple has no time at all, which is 1970: a device that has just started."""

    def change(rng: Rng, sent: Sent) -> Sent:
        return replace(sent, stamp=np.where(rng.random(len(sent.at)) < share, 0, sent.stamp))

    return Disorder(change)


def drift(most: float = 0.005, resync: float = 180.0) -> Disorder:
    """Every source's clock gains or loses up to `most` seconds a second, and is set right every `resync` seconds."""

    def offsets(rng: Rng, sent: Sent) -> Floats:
        known, source = np.unique(sent.source, return_inverse=True)
        rate, phase = rng.uniform(-most, most, len(known)), rng.uniform(0, resync, len(known))
        return rate[source] * ((sent.at + phase[source]) % resync)

    return _clocks(offsets)


def duplicates(share: float = 0.05, after: float = 1.0) -> Disorder:
    """A share of the tuples is delivered once more, `after` seconds later on average: at-least-once delivery."""

    def change(rng: Rng, sent: Sent) -> Sent:
        again = np.flatnonzero(rng.random(len(sent.at)) < share)
        copies = sent.take(again)
        both = sent.take(np.concatenate((np.arange(len(sent.at)), again)))
        later = copies.moment + rng.exponential(after, len(again))
        return replace(both, moment=np.concatenate((sent.moment, later)))

    return Disorder(change)


def stops(begin: float, end: float = float("inf"), stream: int | None = None) -> Disorder:
    """Nothing is sent in `[begin, end)`: by no stream, or by the one of that number.

    >>> from slackwater.workloads import disorder
    >>> import pyarrow as pa
    >>> disorder.apply(pa.table({"ts": [0, 1000, 2000]}), disorder.stops(1, 2))["ts"].to_pylist()
    [0, 2000]
    """
    if not begin < end:
        raise UsageError(f"a stream stops for a while, not from {begin:g} s to {end:g} s")

    def change(rng: Rng, sent: Sent) -> Sent:
        silent = (sent.at >= begin) & (sent.at < end)
        return sent.take(~(silent if stream is None else silent & (sent.stream == stream)))

    return Disorder(change)


def _clocks(offsets: Callable[[Rng, Sent], Floats]) -> Disorder:
    def change(rng: Rng, sent: Sent) -> Sent:
        return replace(sent, stamp=sent.stamp + np.rint(1000 * offsets(rng, sent)).astype(np.int64))

    return Disorder(change)
