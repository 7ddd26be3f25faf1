"""How results leave, planned: what stands behind the operator, and what EXPLAIN says of it."""

from __future__ import annotations

from slackwater.language.bound import BoundQuery, JoinQuery
from slackwater.model.errors import UsageError
from slackwater.model.out import DSTREAM, ISTREAM
from slackwater.model.time import format_duration
from slackwater.operators.aggregate import WindowAggregate
from slackwater.operators.join.operator import WindowJoin
from slackwater.operators.relation_to_stream import RelationToStream
from slackwater.plan.physical import PhysicalPlan


def check_relation_to_stream(query: BoundQuery, count_only: bool) -> None:
    """Refuse what only results that leave as they are made can have."""
    if not _holds(query):
        return
    if count_only:
        raise UsageError(f"--count counts results when they are made; leave it out, or leave out {query.out}")
    if query.options.shape == "binary":
        raise UsageError(f"option shape = 'binary' does not go with {query.out}; leave it out")


def relation_to_stream(plan: PhysicalPlan) -> RelationToStream | None:
    """What holds results until they leave; None where they leave as they are made."""
    if not _holds(plan.query):
        return None
    operator = plan.operator
    assert isinstance(operator, WindowJoin | WindowAggregate), "results are held behind one operator"
    return RelationToStream(operator, plan.query.out.every or 0)


def explain_relation_to_stream(plan: PhysicalPlan) -> list[str]:
    """In words; nothing for ISTREAM."""
    out = plan.query.out
    if out.kind == ISTREAM:
        return []
    if not _holds(plan.query):
        return [f"{out}: the rows of every window, which are new with every window, as ISTREAM gives them"]
    if out.kind == DSTREAM:
        return [f"{out}: a result leaves when it is in force no more; until then it is held"]
    return [f"{out}: results are held while they are in force, and given every {format_duration(out.every or 0)}"]


def _holds(query: BoundQuery) -> bool:
    return query.out.kind == DSTREAM or (isinstance(query, JoinQuery) and query.out.kind != ISTREAM)
