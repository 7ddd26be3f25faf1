"""Which strategy is in force, and who decides: the query, or the load.

Invariant: what is in force changes between two segments of arrivals only, and every change is counted.
"""

from __future__ import annotations

from typing import Any

from slackwater.core.batch import Batch
from slackwater.core.results import ADAPTIVE, FILTER, SYNC, Ordering, OrderingSeen
from slackwater.operators.in_order.load import Load


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
