"""Slow, obvious twins of the kernels, in plain Python.

Invariant: no oracle shares code with the kernel it judges; each reads like the definition or the published pseudo-code.

An operator joins the laws by a module that is an `Oracle`, a line in `ORACLES`, and examples of its spec.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Protocol

from slackwater.core.batch import Batch
from slackwater.operators.aggregate.filling import FillingAggregate
from slackwater.operators.asof.spec import AsOfJoin
from slackwater.operators.distinct import StreamDistinct
from slackwater.operators.instant.spec import InstantRelation
from slackwater.operators.join.absence import OuterJoin
from slackwater.operators.session.operator import SessionAggregate
from slackwater.operators.top import TopRows
from tests.kit import (
    oracle_absence,
    oracle_asof,
    oracle_distinct,
    oracle_filling,
    oracle_instant,
    oracle_session,
    oracle_top,
)
from tests.kit.oracle_aggregate import oracle_aggregate, oracle_aggregate_processing
from tests.kit.oracle_graph import oracle_graph_by_epoch, oracle_graph_by_tuple
from tests.kit.oracle_join import oracle_join, oracle_join_processing
from tests.kit.oracle_levels import oracle_graph
from tests.kit.oracle_ordering import oracle_filter_order
from tests.kit.oracle_release import (
    Released,
    SlackRule,
    cuts_by_count,
    cuts_by_span,
    oracle_epoch_release,
    oracle_tuple_release,
)
from tests.kit.oracle_tree import oracle_tree_by_epoch, oracle_tree_by_tuple

__all__ = [
    "ORACLES",
    "Oracle",
    "Released",
    "SlackRule",
    "cuts_by_count",
    "cuts_by_span",
    "oracle_aggregate",
    "oracle_aggregate_processing",
    "oracle_epoch_release",
    "oracle_filter_order",
    "oracle_graph",
    "oracle_graph_by_epoch",
    "oracle_graph_by_tuple",
    "oracle_join",
    "oracle_join_processing",
    "oracle_tree_by_epoch",
    "oracle_tree_by_tuple",
    "oracle_tuple_release",
]


class Oracle(Protocol):
    """The slow twin of an operator, for which no target can be stated."""

    def truth(self, spec: Any, batch: Batch, absent: Collection[int] = ()) -> Any:
        """The true results on these tuples, but for those that are absent."""

    def processed(self, spec: Any, released: Iterable[Released]) -> Any:
        """The results on a release sequence, late tuples included."""

    def state_bound(self, spec: Any, since: Callable[[int], int], watermark: int) -> int:
        """How many tuples may be kept behind this watermark; `since` counts those at or after a time."""


ORACLES: Mapping[type, Oracle] = {
    StreamDistinct: oracle_distinct,
    InstantRelation: oracle_instant,
    SessionAggregate: oracle_session,
    FillingAggregate: oracle_filling,
    OuterJoin: oracle_absence,
    AsOfJoin: oracle_asof,
    TopRows: oracle_top,
}
"""By the spec of the operator; those of joins, aggregates and graphs are called in `drive` and `bounds`."""
