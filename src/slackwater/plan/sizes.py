"""What an event weighs, planned: who says so, what combinations carry of their members, what windows are called.

Invariant: the events of a combination are known above iff everything it is put together from is an event of a source;
what the node below emits behind its columns then stands, in the same order, in the hidden rows of the one above.
"""

from __future__ import annotations

from dataclasses import replace

from slackwater.core.errors import UsageError
from slackwater.core.schema import Kind
from slackwater.language.bound import BoundQuery, raw_streams
from slackwater.operators.projection import Carried
from slackwater.operators.state_size import OfInput, Weights
from slackwater.plan.physical import InputPlan, PhysicalPlan


def check_sizes(query: BoundQuery) -> None:
    """Refuse a column of sizes that no stream has, or that is no number."""
    column, streams = query.options.size_by, raw_streams(query)
    if column is None:
        return
    having = [stream for stream in streams if column in stream.schema]
    if not having:
        names = ", ".join(stream.alias for stream in streams)
        raise UsageError(f"option size_by = '{column}': there is no column of that name in {names}")
    for stream in having:
        kind = stream.schema[column].kind
        if kind not in (Kind.INT, Kind.FLOAT):
            raise UsageError(
                f"option size_by = '{column}': in {stream.alias} it is {kind.value}; name a column with the bytes of an"
                " event, as a number"
            )


def explain_sizes(plan: PhysicalPlan) -> str:
    """In words; the option is set."""
    column = plan.options.size_by
    without = [s.alias for s in raw_streams(plan.query) if column not in s.schema]
    reported = f"memory is counted by {column}, the bytes of an event"
    return f"{reported}; of {', '.join(without)} by the words kept" if without else reported


def kept_places(inputs: tuple[InputPlan, ...]) -> tuple[tuple[int, int], ...]:
    """(stream, row) of what combinations must carry, so that their members are known."""
    return tuple((at, row) for at, one in enumerate(inputs) for member in one.members for row in member.rows)


def carrying(plan: PhysicalPlan) -> PhysicalPlan:
    """The plan of a join whose results carry, behind their columns, which events they are made of."""
    join = plan.operator.as_join
    assert join is not None, "only a join puts events together"
    return replace(plan, operator=replace(join, emit=join.emit + kept_places(plan.inputs)))


def members_carried(behind: int, above: InputPlan) -> tuple[Carried, ...]:
    """How the members that results carry behind so many columns come into the hidden rows of the input above."""
    rows = [row for member in above.members for row in member.rows] if above.stream.query is not None else []
    return tuple(Carried(f"\0member {at}", row, behind + at) for at, row in enumerate(rows))


def weights_of(plan: PhysicalPlan) -> Weights:
    """What the windows of a plan are called, and what their tuples are made of."""
    return plan.operator.weights([[_of_input(one) for one in node.inputs] for node in plan.nodes or (plan,)])


def _of_input(one: InputPlan) -> OfInput:
    return OfInput(one.stream.alias, tuple(replace(member, words=one.rows) for member in one.members), one.rows)
