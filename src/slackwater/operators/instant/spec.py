"""The spec of a query over instantaneous windows: a tree of relational operators, computed anew at every slide.

Invariant: the answer at an instant T, a multiple of the slide, is the tree over the windows of T, where a window holds
the tuples of `[T - range, T)` that came before the watermark reached T. It does not depend on the placement.

References: 004 §2.1.2, §6.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from slackwater.core.time import format_duration
from slackwater.expressions.relational import Placement, Relation, Scan, operators, scans
from slackwater.operators.contract import PLAIN, BuildContext, Operator, OperatorSpec
from slackwater.operators.description import Described, Shown
from slackwater.operators.instant.adapting import Planner
from slackwater.operators.instant.fragments import ROW, Fragment, all_placed, cut
from slackwater.operators.instant.sharding import common_key

Places = tuple[tuple[str, int], ...]
"""Where the columns of a stream stand: each name with its row of a tuple."""


@dataclass(frozen=True)
class InstantRelation(OperatorSpec):
    """Spec: the tree, the slide, and where the columns of every stream stand in its tuples.

    Output columns: window start, window end, then those of the tree.
    """

    relation: Relation
    """The tree that is computed."""
    slide: int
    places: tuple[Places, ...]
    """One for each stream."""
    rows: int
    placement: Placement | None = None
    """None: every operator on the row engine."""
    stated: Relation | None = None
    """The tree as the query states it, where another with the same rows is computed."""
    planner: Planner | None = None
    """The planner that is asked for a better plan while the query runs; None: the plan stays as it is."""

    @property
    def as_stated(self) -> Relation:
        """The tree of the query, however it is computed."""
        return self.stated or self.relation

    @property
    def streams(self) -> int:
        return len(self.places)

    @property
    def as_relations(self) -> InstantRelation:
        return self

    @property
    def windowed(self) -> bool:
        return True

    @property
    def identity(self) -> object:
        return self.as_stated, self.slide, self.places, self.rows

    @property
    def state_identity(self) -> object:
        # State is the tuples in windows, and the instants that have been answered.
        return self.slide, [self.ranges(stream) for stream in range(self.streams)], self.places, self.rows

    @cached_property
    def range(self) -> int:
        """The longest window."""
        return max(scan.range for scan in scans(self.relation))

    @cached_property
    def fragments(self) -> tuple[Fragment, ...]:
        """The parts of the tree that run on one engine each, in the order of evaluation."""
        return cut(self.relation, self.placed)

    @property
    def placed(self) -> Placement:
        """The engine of every operator."""
        return all_placed(self.relation, ROW) if self.placement is None else self.placement

    def ranges(self, stream: int) -> list[int]:
        """How far the windows of a stream reach back, the shortest first."""
        return sorted({scan.range for scan in scans(self.relation) if scan.stream == stream})

    def scan(self, stream: int) -> Scan:
        """The longest window of a stream; those of one stream have the same columns."""
        mine = [scan for scan in scans(self.relation) if scan.stream == stream]
        return max(mine, key=lambda scan: scan.range)

    @property
    def shard_rows(self) -> tuple[tuple[int, ...], ...] | None:
        # Shards go by the query, for the tree that computes it may change.
        key = common_key(self.as_stated, self.streams)
        return None if key is None else tuple((dict(self.places[s])[key[s]],) for s in range(self.streams))

    def describe(self, shown: Shown) -> Described:
        aliases = shown.aliases
        windows = {
            alias: {"range_us": self.ranges(stream)[-1], "slide_us": self.slide} for stream, alias in enumerate(aliases)
        }
        engines = dict.fromkeys(fragment.engine for fragment in self.fragments)
        windows_of = ", ".join(
            f"{alias} [{' and '.join(map(format_duration, self.ranges(stream)))}]"
            for stream, alias in enumerate(aliases)
        )
        label = (
            f"{len(operators(self.relation))} relational operators over windows of {windows_of},"
            f" computed every {format_duration(self.slide)}, on the {' and '.join(engines)} engine"
        )
        described = [
            {"operator": type(node).__name__.lower(), "engine": engine}
            for node, engine in zip(operators(self.relation), self.placed, strict=True)
        ]
        attributes = {"streams": list(aliases), "needs_order": True, "operator": "instantaneous windows"}
        return Described(label, attributes | {"windows": windows, "operators": described})

    def build(self, context: BuildContext = PLAIN) -> Operator:
        # The operator is built from the spec, and knows it.
        from slackwater.operators.instant.operator import InstantOperator

        return InstantOperator(self, context)
