"""Disorder as a value: what happens to tuples between their source and the query, put together with `+`.

Invariant: an `AddedDelay` moves arrivals only, never to before the event; what a tuple says of its time (`stamp`) is
changed by clocks alone, and which tuples there are by duplicates and stops alone. Everything random comes from the one
generator that is handed in, in the order of the sum, so `x` and `x + y` share the delays of `x`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import overload

import numpy as np

from slackwater.core.errors import UsageError
from slackwater.workloads.workload import Flags, Floats, Integers

Rng = np.random.Generator


@dataclass(frozen=True)
class Sent:
    """Tuples on their way, a row each. Lengths of time are seconds from the start of the streams, stamps are ms."""

    row: Integers
    """Which row of the table it is; a duplicate has the row of its original."""
    at: Floats
    """When it happened."""
    stamp: Integers
    """When its source says that it happened: milliseconds since 1970-01-01 UTC."""
    moment: Floats
    """When it arrives."""
    source: Integers
    stream: Integers

    def take(self, rows: Integers | Flags) -> Sent:
        """Some of the tuples, or some of them twice."""
        return Sent(
            self.row[rows], self.at[rows], self.stamp[rows], self.moment[rows], self.source[rows], self.stream[rows]
        )

    def some_sources(self, rng: Rng, share: float) -> Flags:
        """The tuples of so many of the sources (at least one), chosen by lot."""
        known = np.unique(self.source)
        return np.isin(self.source, rng.choice(known, max(1, round(share * len(known))), replace=False))


class Disorder:
    """Something that happens to streams; `one + other` lets both happen, in this order."""

    def __init__(self, change: Callable[[Rng, Sent], Sent]) -> None:
        self.change = change

    def __add__(self, other: Disorder) -> Disorder:
        return Disorder(lambda rng, sent: other.change(rng, self.change(rng, sent)))


class AddedDelay(Disorder):
    """Tuples come later than they were sent, by `draw(rng, sent)` seconds each; their event times stay as they are."""

    def __init__(self, draw: Callable[[Rng, Sent], Floats]) -> None:
        super().__init__(self._delayed)
        self.draw = draw

    @overload
    def __add__(self, other: AddedDelay) -> AddedDelay: ...
    @overload
    def __add__(self, other: Disorder) -> Disorder: ...
    def __add__(self, other: Disorder) -> Disorder:
        if isinstance(other, AddedDelay):
            # Added up they are delays still, which can be scaled and drawn.
            return AddedDelay(lambda rng, sent: self.draw(rng, sent) + other.draw(rng, sent))
        return super().__add__(other)

    def scaled(self, factor: Callable[[Floats], Floats]) -> AddedDelay:
        """The same delays, times `factor(at)`."""
        return AddedDelay(lambda rng, sent: factor(sent.at) * self.draw(rng, sent))

    def __mul__(self, times: float) -> AddedDelay:
        return self.scaled(lambda at: np.full(len(at), times))

    def during(self, begin: float, end: float) -> AddedDelay:
        """Only for what happens in `[begin, end)`.

        >>> from slackwater.workloads import disorder
        >>> jam = disorder.delays(lambda rng, at: np.full(len(at), 5.0)).during(10, 20)
        >>> disorder.drawn(jam, [9, 10, 19, 20]).tolist()
        [0.0, 5.0, 5.0, 0.0]
        """
        return self.scaled(lambda at: ((at >= begin) & (at < end)).astype(np.float64))

    def of(self, sources: Callable[[Integers], Flags]) -> AddedDelay:
        """Only for the sources that are named, as in `.of(lambda source: source == 7)`."""
        return AddedDelay(lambda rng, sent: np.where(sources(sent.source), self.draw(rng, sent), 0.0))

    def _delayed(self, rng: Rng, sent: Sent) -> Sent:
        seconds = np.asarray(self.draw(rng, sent), np.float64)
        if seconds.shape != sent.at.shape or not (seconds >= 0).all():
            raise UsageError("a delay model gives one delay a tuple, of 0 seconds or more")
        return replace(sent, moment=sent.moment + seconds)


def delays(draw: Callable[[Rng, Floats], Floats]) -> AddedDelay:
    """A delay model of your own: from a generator of random numbers and event times (s) to as many delays (s)."""
    return AddedDelay(lambda rng, sent: draw(rng, sent.at))
