"""The spec of an as-of join: every tuple of the first stream with the latest of the second that has its key.

Invariant: a tuple in time is answered once, when the watermark has passed it, by what came before that. So a version
that comes late still counts for all tuples whose time the watermark had not passed when it came. Of versions of one
key and one time the one counts whose carried words are largest, the first of them first: that is the same however
tuples are cut into epochs and shards.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from slackwater.core.batch import ROW
from slackwater.core.time import format_duration
from slackwater.expressions.render import render
from slackwater.expressions.tree import Expr
from slackwater.operators.contract import PLAIN, BuildContext, KeyClass, OperatorSpec
from slackwater.operators.description import Described, Detail, Shown

if TYPE_CHECKING:
    from slackwater.operators.asof.operator import AsOfOperator

LEFT, RIGHT = 0, 1
"""The stream whose tuples are answered, and that of the versions they are answered with."""


@dataclass(frozen=True)
class AsOfJoin(OperatorSpec):
    """Spec: the keys that must be equal, how old a version may be, and what leaves. Output columns: `emit`."""

    keys: tuple[tuple[int, int], ...]
    """Rows of both streams that must be equal; a null equals nothing."""
    emit: tuple[tuple[int, int], ...]
    """The (stream, row) of every column."""
    nulls: tuple[int, ...]
    """The word of a null in every column."""
    rows: int
    strict: bool = False
    """Whether a version must be older, and not merely not newer."""
    within: int | None = None
    """How much older a version may be; None: however much."""
    outer: bool = False
    """Whether a tuple without a version leaves, with nulls."""
    kept: tuple[Expr, ...] = ()
    """What must be true of a row, or it is left out."""
    names: tuple[tuple[int, str], ...] = ()
    """By which of its columns, as (stream, name), `kept` calls every column."""
    correctable: int | None = None
    """How far behind the watermark a late tuple still corrects rows; None: not at all."""

    @property
    def streams(self) -> int:
        return 2

    @property
    def windows_joined(self) -> tuple[int, ...]:
        # A version has none; how old versions are tells the controller what stands for one.
        return 0, 1

    @property
    def carried(self) -> tuple[int, ...]:
        """The rows of a version that leave with it; its identity, which tells nothing, is last."""
        rows = dict.fromkeys(row for stream, row in self.emit if stream == RIGHT)
        return tuple(sorted(rows, key=lambda row: row == ROW))

    @property
    def state_identity(self) -> object:
        return self.keys, self.carried, self.rows, self.strict, self.within, self.correctable

    def corrected(self, reach: int) -> AsOfJoin:
        return replace(self, correctable=reach)

    @property
    def shard_rows(self) -> tuple[tuple[int, ...], ...] | None:
        if not self.keys:
            return None
        return tuple(row for row, _ in self.keys), tuple(row for _, row in self.keys)

    @property
    def key_classes(self) -> list[KeyClass]:
        return [
            ({LEFT: mine, RIGHT: other}, [at for at, one in enumerate(self.emit) if one == (LEFT, mine)])
            for mine, other in self.keys
        ]

    def describe(self, shown: Shown) -> Described:
        first, second = shown.aliases
        age = "" if self.within is None else f", at most {format_duration(self.within)} older"
        near = "older" if self.strict else "not newer"
        equalities = [shown.equality((LEFT, mine), (RIGHT, other)) for mine, other in self.keys]
        on = f", on {' and '.join(equalities)}" if equalities else ""
        label = f"as-of join of {first} with the latest of {second} that is {near}{age}{on}"
        forever = f"the last version of every key of {second} is kept for ever; WITHIN lets it go"
        alone = f"a tuple of {first} without one leaves with nulls"
        details = [forever] * (self.within is None) + [alone] * self.outer
        kept = [render(condition, shown.aliases) for condition in self.kept]
        details += [f"rows leave where {' and '.join(kept)}"] * bool(kept)
        attributes = {"operator": "asof", "streams": list(shown.aliases), "needs_order": True, "outer": self.outer}
        attributes |= {"equalities": equalities, "conditions": kept, "strict": self.strict, "within_us": self.within}
        return Described(label, attributes, tuple(map(Detail, details)))

    def build(self, context: BuildContext = PLAIN) -> AsOfOperator:
        if self.correctable is None:
            from slackwater.operators.asof.operator import AsOfOperator

            return AsOfOperator(self, context)
        from slackwater.operators.asof.corrected import CorrectedAsOf

        return CorrectedAsOf(self, context)
