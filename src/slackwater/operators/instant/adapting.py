"""When a running query looks whether another plan would be better, and what it remembers of that.

Rows are counted (`table_statistics`) once rates have left the range of the last count, and else at intervals that
double as long as nothing comes of it. Whether the plan is changed is for the planner to say; all it is told is what was
counted.

Invariant: everything here goes by event time and by rows, so a run that is repeated changes its plan at the same
instants. What is persisted are the table statistics by which the plan in force was made: after a restart the same plan
is found again.

References: 004 §6.1 (static optimization, where the characteristics of streams change slowly).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from slackwater.expressions.relational import Placement, Relation, nodes

FIRST, SHORTEST, LONGEST = 16, 64, 1024
"""Instants until rows are counted first, and then between two counts."""
LOOK = 8
"""Instants between two looks at rates."""
FAR = 1.5
"""Rates have left the range of a count if one is so many times what it was, or so many times less."""

Running = tuple[Relation, Placement]
"""A tree and where its operators run."""


@dataclass(frozen=True)
class TableStatistics:
    """What was counted. Nodes are those of the tree in post-order, windows among them."""

    at: int
    """The instant."""
    rates: tuple[float, ...]
    """Tuples a second of event time that enter the windows, by stream."""
    rows: tuple[float, ...]
    """Rows of every node."""
    pairs: tuple[float, ...]
    """Of a join, pairs with equal keys, before its condition is asked; of others nothing."""
    keys: tuple[tuple[int, int], ...]
    """Of a join, how many different keys either side has."""

    def is_of(self, relation: Relation) -> bool:
        """Whether it has the nodes of this tree; one that was kept may be of another."""
        return len(self.rows) == sum(1 for _ in nodes(relation))


class Planner(Protocol):
    """What is asked of whoever plans."""

    def plan_for(self, stated: Relation, slide: int, statistics: TableStatistics) -> Running:
        """The best plan for what was counted."""

    def better_plan(
        self, stated: Relation, slide: int, running: Running, statistics: TableStatistics
    ) -> Running | None:
        """The same where it pays to change what runs, else None."""


@dataclass
class Adapting:
    """Decides when to count, and has what was counted.

    >>> adapting = Adapting(in_force=TableStatistics(5, (1.0,), (3.0, 2.0), (0.0, 0.0), ((0, 0), (0, 0))))
    >>> from slackwater.core.values import as_json, of_json
    >>> of_json(Adapting, as_json(adapting)) == adapting
    True
    """

    instants: int = 0
    next: int = field(default_factory=lambda: FIRST)
    pause: int = field(default_factory=lambda: SHORTEST)
    rates: tuple[float, ...] = ()
    counted: int = 0
    changed: int = 0
    in_force: TableStatistics | None = None
    """The table statistics by which the plan in force was made; None: it was made before the query ran."""

    def is_due(self, rates: Callable[[], Sequence[float]]) -> bool:
        """Whether to count at the next instant; `rates` are asked for now and then."""
        self.instants += 1
        if self.instants >= self.next:
            return True
        if self.instants % LOOK or not self.rates:
            return False
        return any(_far(now, then) for now, then in zip(rates(), self.rates, strict=True))

    def note(self, statistics: TableStatistics, changes: bool) -> None:
        """It was counted, and the plan changes or stays."""
        self.counted += 1
        self.rates = statistics.rates
        self.pause = SHORTEST if changes else min(2 * self.pause, LONGEST)
        self.next = self.instants + self.pause
        if changes:
            self.changed += 1
            self.in_force = statistics


def _far(now: float, then: float) -> bool:
    """Whether a rate is another than it was.

    >>> _far(10.0, 10.0), _far(16.0, 10.0), _far(6.0, 10.0), _far(0.0, 0.0)
    (False, True, True, False)
    """
    return now > FAR * then or then > FAR * now
