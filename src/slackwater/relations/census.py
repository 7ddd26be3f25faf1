"""What was counted of a tree at one instant: the rows of every node.

Invariant: plain data, by the positions of nodes in post-order; so it is kept as JSON, and means something together with
the tree alone.

References: 004 §6.3.2 (source-driven sizes, cardinalities of instantaneous windows).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from slackwater.relations.algebra import Relation, nodes


@dataclass(frozen=True)
class Census:
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

    def as_json(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)

    @staticmethod
    def of_json(saved: dict[str, Any]) -> Census:
        """The inverse of `as_json`.

        >>> census = Census(5, (1.0,), (3.0, 2.0), (0.0, 0.0), ((0, 0), (0, 0)))
        >>> Census.of_json(census.as_json()) == census
        True
        """
        keys = tuple((int(left), int(right)) for left, right in saved["keys"])
        return Census(saved["at"], tuple(saved["rates"]), tuple(saved["rows"]), tuple(saved["pairs"]), keys)

    def is_of(self, relation: Relation) -> bool:
        """Whether it has the nodes of this tree; one that was kept may be of another."""
        return len(self.rows) == sum(1 for _ in nodes(relation))
