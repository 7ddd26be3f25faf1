"""EXPLAIN: when results leave, and what may follow them.

Invariant: a query that emits once and in order is told as if there were no EMIT.
"""

from __future__ import annotations

from typing import Any

from slackwater.core.emitting import CHANGE, EARLY, EXPECTED_ERROR, VERSION
from slackwater.core.results import DSTREAM, ISTREAM, Out
from slackwater.core.time import format_duration
from slackwater.language.asof import AsOfQuery
from slackwater.language.bound import AggregateQuery, JoinQuery
from slackwater.operators.description import Described, Detail
from slackwater.plan.physical import PhysicalPlan


def describe_emission(plan: PhysicalPlan) -> Described:
    """Whether a result is emitted when it is made, and what follows it."""
    out, holds, emit = plan.query.out, plan.operator.holds, plan.emit
    attributes: dict[str, Any] = {"relation_to_stream": out.kind, "every_us": out.every, "holds": holds}
    attributes["emit"] = {
        "kind": emit.kind,
        "every_us": emit.every,
        "error": emit.error,
        "correctable_us": plan.correctable,
        "change_key": None if plan.change_key is None or not emit.changes else list(plan.change_key),
    }
    if emit.on_arrival:
        return Described("EMIT ON ARRIVAL: a result is emitted when its last member arrives, in no order", attributes)
    if not emit.changes:
        return Described(_relation_to_stream(out, holds), attributes)
    details = [*_early(plan), *_corrections(plan), _key(plan)]
    return Described(f"EMIT {emit}: {_first(plan)}", attributes, tuple(map(Detail, details)))


def _first(plan: PhysicalPlan) -> str:
    if plan.emit.kind == EARLY:
        return "rows of open windows are emitted before the final ones"
    return "a result is emitted once, in order; what late tuples change follows"


def _early(plan: PhysicalPlan) -> list[str]:
    emit = plan.emit
    if emit.kind != EARLY:
        return []
    if emit.every is not None:
        when = f"every {format_duration(emit.every)} rows of open windows are emitted"
    else:
        when = f"rows of open windows are emitted once their expected error is at most {emit.error:g}"
    replaced = f"{when}; they are provisional, and the row of the closed window replaces them"
    return [replaced, f"{EXPECTED_ERROR} says how wrong a row is expected to be, where that is known"]


def _corrections(plan: PhysicalPlan) -> list[str]:
    if plan.correctable is None:
        return []
    length = format_duration(plan.correctable)
    so_far = f"until the watermark is {length} past it"
    if plan.emit.correctable is None:
        so_far += ", as far as a tuple may be behind (max_behind); WITH CORRECTIONS FOR says otherwise"
    return [f"a result can be corrected {so_far}", f"state is kept {length} longer for that"]


def _key(plan: PhysicalPlan) -> str:
    """How to tell which row a change is of."""
    rows = f"{CHANGE} and {VERSION} say what a row changes"
    if plan.change_key is not None:
        return f"{rows}; of rows with the same {', '.join(plan.change_key)} the highest version is true"
    if isinstance(plan.query, AggregateQuery):
        missing = ", ".join(key.name for key in plan.query.keys)
        return f"{rows}, but not of which group: for that, select {missing}"
    if isinstance(plan.query, AsOfQuery):
        alias = plan.query.streams[0].alias
        return f"{rows}; an update is of the same tuple of {alias}, so select what tells tuples of {alias} apart"
    if isinstance(plan.query, JoinQuery) and plan.query.kind.lonely:
        return f"{rows}; a delete has the columns of the row without partner that it takes back"
    return f"{rows}; each is an insert, and no result is emitted twice"


def _relation_to_stream(out: Out, holds: bool) -> str:
    if out.kind == ISTREAM:
        return "ISTREAM: a result is emitted when it is made"
    if not holds:
        return f"{out}: the rows of every window, which are new with every window, as ISTREAM gives them"
    if out.kind == DSTREAM:
        return f"{out}: a result leaves when it is in force no more; until then it is held"
    return f"{out}: results are held while they are in force, and given every {format_duration(out.every or 0)}"
