"""Slow, obvious twins of the kernels, in plain Python.

Invariant: no oracle shares code with the kernel it judges; each reads like the definition or the published pseudo-code.
"""

from slackwater.testing.oracle_aggregate import oracle_aggregate, oracle_aggregate_processing
from slackwater.testing.oracle_graph import oracle_graph_by_epoch, oracle_graph_by_tuple
from slackwater.testing.oracle_join import oracle_join, oracle_join_processing
from slackwater.testing.oracle_levels import oracle_graph
from slackwater.testing.oracle_ordering import oracle_filter_order
from slackwater.testing.oracle_release import (
    Released,
    SlackRule,
    cuts_by_count,
    cuts_by_span,
    oracle_epoch_release,
    oracle_tuple_release,
)
from slackwater.testing.oracle_tree import oracle_tree_by_epoch, oracle_tree_by_tuple

__all__ = [
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
