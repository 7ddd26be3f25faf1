"""Which strategy is in force, and who decides: the query, or the load.

The paper's c|w|λ1λ2 is the cost of a tuple of the fast stream, c|w|λ1, times its rate: the share of time that goes into
tuples that wait for another stream. Both streams cost the same, so it is half of the whole load. In a join of m streams
a tuple of stream i is compared with what the others have in their windows, so its cost goes with the product of the
other rates, and rate times cost is again the same for all; the tuples of all streams but the slowest wait, which is
(m-1)/m of the load. Nothing is configured: the load is what was spent, measured, against the time in which tuples
arrived.

Invariant: what is in force changes between two segments of arrivals only, and every change is counted. The load goes by
arrival times and by what it is told was spent, never by a clock; without both it knows nothing.

References: 000 §6 (steps 1 and 2), Eq. 1 and 7.
"""

from __future__ import annotations

from math import exp
from typing import Any

import numpy as np

from slackwater.core.batch import Batch
from slackwater.core.results import ADAPTIVE, FILTER, SYNC, Ordering, OrderingSeen
from slackwater.core.time import SECOND

MEMORY = 20.0
"""Seconds after which an observation counts for a third."""
OFF = 0.5
"""Overlapping ends when the load is below so much of the threshold: a dead band, so that it does not flap. It is wide
because overlapping costs memory only, and is never slower: what is measured over 20 s of few arrivals swings by a
quarter."""
LEAST_STAY = 10.0
"""Seconds between two switches."""
LEAST_SEEN = 5.0
"""Seconds of arrivals before anything is decided."""


class Load:
    """Fading sums of arrivals by stream, of the time they came in, and of the time spent on them.

    >>> load = Load(2, alpha=0.3)
    >>> for second in range(60):
    ...     load.arrived(Batch.of([(0, 0), (1, 0)]), second * SECOND)
    ...     load.report_busy_time(0.7)
    >>> round(load.waiting_share, 2), load.choose(SYNC)
    (0.35, 'filter')
    """

    def __init__(self, streams: int, alpha: float) -> None:
        self.alpha = alpha
        self._arrived = np.zeros(streams)
        self._time = self._spent = self._seen = self._stayed = 0.0
        self._latest: int | None = None

    def arrived(self, batch: Batch, latest: int) -> None:
        """Tuples have arrived, the latest of them at this moment, in microseconds."""
        if self._latest is not None and latest > self._latest:
            passed = (latest - self._latest) / SECOND
            fading = exp(-passed / MEMORY)
            self._arrived *= fading
            self._time, self._spent = self._time * fading + passed, self._spent * fading
            self._seen, self._stayed = self._seen + passed, self._stayed + passed
        self._latest = latest if self._latest is None else max(latest, self._latest)
        self._arrived += np.bincount(batch.stream, minlength=len(self._arrived))

    def report_busy_time(self, seconds: float) -> None:
        """So much time went into what has arrived."""
        if self._latest is not None:
            self._spent += seconds

    @property
    def known(self) -> bool:
        return self._seen >= LEAST_SEEN

    @property
    def rates(self) -> tuple[float, ...]:
        """Arrivals a second."""
        return tuple((self._arrived / self._time).tolist()) if self.known else ()

    @property
    def seconds_per_tuple(self) -> float | None:
        arrived = float(self._arrived.sum())
        return self._spent / arrived if self.known and arrived > 0 else None

    @property
    def waiting_share(self) -> float | None:
        """The share of time that goes into tuples of all streams but the slowest."""
        streams = len(self._arrived)
        return (streams - 1) / streams * self._spent / self._time if self.known else None

    def choose(self, now: str) -> str:
        """SYNC or FILTER, where `now` is in force: overlap from α on, stop below half of it, and stay for a while."""
        share = self.waiting_share
        if share is None or self._stayed < LEAST_STAY:
            return now
        chosen = FILTER if share >= (self.alpha if now == SYNC else OFF * self.alpha) else SYNC
        if chosen != now:
            self._stayed = 0.0
        return chosen

    def as_json(self) -> dict[str, Any]:
        """For state."""
        return {
            "arrived": self._arrived.tolist(), "time": self._time, "spent": self._spent, "seen": self._seen,
            "stayed": self._stayed, "latest": self._latest,
        }  # fmt: skip

    def restore(self, saved: dict[str, Any]) -> None:
        """The inverse of `as_json`."""
        self._arrived[:] = saved["arrived"]
        self._time, self._spent, self._seen = saved["time"], saved["spent"], saved["seen"]
        self._stayed, self._latest = saved["stayed"], saved["latest"]


class Strategy:
    """SYNC or FILTER, as asked for; where ADAPTIVE is, it begins with SYNC and goes by the load.

    >>> strategy = Strategy(Ordering("filter"), streams=2)
    >>> strategy.filters, strategy.switches
    (True, 0)
    """

    def __init__(self, ordering: Ordering, streams: int) -> None:
        self.ordering = ordering
        self.in_force = FILTER if ordering.strategy == FILTER else SYNC
        self.switches = 0
        self.load = Load(streams, ordering.alpha)

    @property
    def filters(self) -> bool:
        """Whether tuples are joined before their turn."""
        return self.in_force == FILTER

    def note_arrivals(self, batch: Batch) -> None:
        """Tuples have arrived; the load is known only where their arrival times are."""
        if batch.arrival_time is not None and len(batch):
            self.load.arrived(batch, int(batch.arrival_time.max()))

    def choose(self) -> None:
        """Choose by the load, where it is to decide."""
        if self.ordering.strategy == ADAPTIVE:
            self.switch_to(self.load.choose(self.in_force))

    def switch_to(self, strategy: str) -> None:
        """From the next segment of arrivals on."""
        self.switches += strategy != self.in_force
        self.in_force = strategy

    def seen(self, held: int, most: int) -> OrderingSeen:
        """What is in force, with so many results held now, and at most."""
        load = self.load
        return OrderingSeen(
            self.ordering.strategy, self.in_force, self.switches, held, most, load.waiting_share, load.rates,
            load.seconds_per_tuple,
        )  # fmt: skip

    def as_json(self) -> dict[str, Any]:
        """For state."""
        return {"in_force": self.in_force, "switches": self.switches, "load": self.load.as_json()}

    def restore(self, saved: dict[str, Any]) -> None:
        """The inverse of `as_json`."""
        self.in_force, self.switches = saved["in_force"], saved["switches"]
        self.load.restore(saved["load"])
