"""By which algorithm a join is run, and why.

The engine is what the planner takes unless another algorithm is asked for; what is to be chosen inside of it is how
each stream is reached, by the conditions of the query. In which order is chosen while the join runs, by what probes
find: rates and selectivities are not known before. The algorithms of the W-join report are never chosen: where they do
best, with two streams, they are level with the engine (`slackwater reproduce 002-fig7` to `002-fig9c`).

Invariant: a choice changes what a join costs, never what it answers.

References: 002 §4.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from slackwater.operators.join.probing import INDEX, NEAR, NOT_BY_CELLS, SCAN, STREAM

if TYPE_CHECKING:
    from slackwater.operators.join.operator import WindowJoin


@dataclass(frozen=True)
class Choice:
    """A way to join, and the reason for it."""

    way: str
    why: str

    def __str__(self) -> str:
        return f"{self.way}, because {self.why}"


def choice_of(join: WindowJoin, aliases: Sequence[str]) -> Choice:
    """How a join of these streams is run.

    >>> from slackwater.operators.join.operator import WindowJoin
    >>> from slackwater.operators.join.probing import Equality
    >>> on_key = Equality(0, 2, 1, 2), Equality(1, 2, 2, 2)
    >>> print(choice_of(WindowJoin((5, 5, 5), on_key, (), (), (), 3), "abc"))
    by hash, because equalities lead to every stream
    >>> print(choice_of(WindowJoin((5, 5, 5), on_key, (), (), (), 3, count_only=True), "abc"))
    by products of counts, because results are only counted and one key joins all streams
    """
    if join.algorithm_asked_for is not None:
        return Choice(f"by '{join.algorithm_asked_for}' of the W-join report", "the query asks for it")
    probes = join.probes()
    if join.count_only and not probes.leaves.any():
        one_key = (probes.steps[:, :, INDEX] != SCAN).all() and join.equalities
        reason = "one key joins all streams" if one_key else "no condition binds streams to each other"
        return Choice("by products of counts", f"results are only counted and {reason}")
    scanned = sorted({int(step[STREAM]) for steps in probes.steps for step in steps if step[INDEX] == SCAN})
    near = (probes.steps[:, :, NEAR] != NOT_BY_CELLS).any()
    if near:
        how, what = ("by hash and by cells", "equalities and bands") if join.equalities else ("by cells", "bands")
    else:
        how, what = "by hash", "equalities"
    if not scanned:
        return Choice(how, f"{what} lead to every stream")
    if not near and not join.equalities:
        return Choice("by scanning windows", "no equality and no band joins streams")
    named = ", ".join(aliases[s] for s in scanned)
    return Choice(f"{how}, and by scanning {named}", "no equality and no band leads there from every stream")
