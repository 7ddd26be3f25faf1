"""Where queries of a set stand: the clock domains they share, and what of a domain is their own.

Invariant: plain, frozen data, made by a plan (`plan.query_set`); a kernel needs to know nothing else of a query but how
to build it.
"""

from __future__ import annotations

from dataclasses import dataclass

from slackwater.disorder.sharing.clock_domain import ClockTerms
from slackwater.disorder.sharing.run_order import View
from slackwater.operators.aggregate.algebra import AggregateSpec
from slackwater.operators.aggregate.shared.store import SharedSpec

NO_FILTER = -1
"""In place of the number of a filter: all tuples of the stream are wanted."""


@dataclass(frozen=True)
class DomainPlan:
    """Streams whose clocks are moved once."""

    key: str
    """Says of which streams and on which terms; the same in every run."""
    sources: tuple[str, ...]
    """The source of each stream, in the order of FROM; a source that is read twice stands there twice."""
    terms: ClockTerms
    rows: tuple[tuple[int, ...], ...]
    """Per stream, the row of the source for each row of the domain."""
    unencodable: tuple[tuple[str, ...], ...] = ()
    """Per stream, the columns by which queries of this domain reject rows."""

    @property
    def width(self) -> int:
        """Rows of a tuple, without its flags."""
        return max(map(len, self.rows))


@dataclass(frozen=True)
class PanesPlace:
    """What an aggregate reads of panes that it shares with others of its domain."""

    key: str
    """Says what they have in common; the same in every run."""
    spec: SharedSpec
    aggregates: tuple[AggregateSpec, ...]
    """In rows of the domain, as the spec."""
    range: int
    slide: int


@dataclass(frozen=True)
class QueryPlace:
    """A query in its domain."""

    domain: str
    view: View
    filters: tuple[int, ...]
    """Per stream of the domain, the number of the filter among those of its source, or NO_FILTER."""
    panes: PanesPlace | None = None
    """None: it has panes of its own, or none at all."""
