"""Ways to join that a query asks for by name: `OPTIONS (join = ...)` and `OPTIONS (ordering = ...)`."""

from __future__ import annotations

from collections.abc import Callable

from slackwater.core.registry import Registry
from slackwater.core.results import SYNC, Ordering
from slackwater.operators.contract import BuildContext, Operator, OperatorSpec
from slackwater.operators.join.operator import WindowJoin

ALGORITHMS: Registry[Callable[[WindowJoin, str | None], WindowJoin]] = Registry("wjoin", {})
"""Each makes the spec of the same join; the text is option `windows`. Another name refuses what it cannot join; without
a name the engine joins."""


def in_turn(spec: OperatorSpec, context: BuildContext, ordering: Ordering) -> Operator:
    """The operator of a spec, which is given tuples in their turn."""
    return spec.build(context)


ORDERINGS: Registry[Callable[[OperatorSpec, BuildContext, Ordering], Operator]] = Registry("in_order", {SYNC: in_turn})
"""Each builds the operator of a spec that waits for order before or after the work."""
