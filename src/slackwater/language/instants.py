"""A bound query over instantaneous windows: relation-to-relation operators, evaluated at every slide.

Invariant: a bound query is plain, frozen data. All its windows have the same slide; a conjunct of WHERE that reads one
stream alone is that stream's filter and not in the tree.

References: 004 §2.1.2, §6.2.
"""

from __future__ import annotations

from dataclasses import dataclass

from slackwater.core.options import Options
from slackwater.core.quality import Quality
from slackwater.core.results import AS_MADE, Out
from slackwater.expressions.relational import Relation
from slackwater.language.bound import RelationQuery, StreamRef


@dataclass(frozen=True)
class InstantQuery(RelationQuery):
    """What is computed from the windows of one instant."""

    streams: tuple[StreamRef, ...]
    """The windows in the order of the text, those of sub-queries too; `relation` refers to them by position. Two
    windows over one source are two of them."""
    relation: Relation
    """Its columns are those that are selected, in their order and under their names."""
    slide: int
    """Microseconds between two instants."""
    quality: Quality
    options: Options
    out: Out = AS_MADE

    @property
    def range(self) -> int:
        """The longest window."""
        return max(stream.range or 0 for stream in self.streams)
