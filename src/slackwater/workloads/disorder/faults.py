"""Faults: clocks that go wrong, tuples that come twice, streams that fall silent.

Invariant: clocks change what a tuple says of its time and nothing else; it arrives when it would have arrived.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from slackwater.core.errors import UsageError
from slackwater.workloads.disorder.model import Disorder, Rng, Sent
from slackwater.workloads.workload import Floats

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
