"""What a query calls the inputs, rows, windows and results of an operator, which describes itself by them.

Invariant: here is only what a spec cannot know (`OperatorSpec.describe`). Every bound between two streams is told as
tight as the others make it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from slackwater.core.emitting import CHANGE, EARLY, EXPECTED_ERROR, VERSION
from slackwater.core.time import format_duration
from slackwater.core.window_graph import Matrix, WindowGraph
from slackwater.expressions.render import render
from slackwater.language.bound import (
    RESULT_TIME,
    FillingWindow,
    JoinQuery,
    LandmarkWindow,
    RateWindow,
    RowWindow,
    SessionWindow,
    StreamRef,
)
from slackwater.operators.description import Described, Detail, Shown
from slackwater.plan.explain_rates import explain_match
from slackwater.plan.physical import InputPlan, PhysicalPlan


def describe_node(plan: PhysicalPlan, number: int) -> tuple[Described, tuple[str, ...]]:
    """One of the operators of a plan, and what it calls its inputs. What gives columns that a query names, and not what
    goes on inside of one, tells them."""
    own = plan.nodes[number] if plan.nodes else plan
    at = 0 if plan.nodes else number
    described, reads = own.operator.describe_node(_shown(own), at)
    if at + 1 == len(own.operator.all_nodes):
        described = replace(described, attributes=described.attributes | {"columns": columns_given(own)})
    return described, reads


def _shown(plan: PhysicalPlan) -> Shown:
    between = _between(plan.query) if isinstance(plan.query, JoinQuery) else []
    match = explain_match(plan.query) if isinstance(plan.query, JoinQuery) else []
    return Shown(
        tuple(aliases_of(plan)),
        lambda stream, row: row_name(plan, stream, row),
        (*_own_windows(plan.inputs), *between, *match),
        tuple(_window_attributes(one.stream) for one in plan.inputs),
        tuple(tuple(line.text for line in detail.under) for detail in between),
        tuple(f"{column.name} = {render(column.expr)}" for column in plan.outputs if column.expr is not None),
    )


def aliases_of(plan: PhysicalPlan) -> list[str]:
    """What the inputs of an operator are called."""
    return [one.stream.alias for one in plan.inputs]


def columns_given(plan: PhysicalPlan) -> list[str]:
    """The columns of results, none where they are only counted; those that have no window have a time of their own."""
    names = [column.name for column in plan.outputs]
    names += [RESULT_TIME] if plan.joins and not plan.count_only else []
    names += [EXPECTED_ERROR] if plan.emit.kind == EARLY else []
    return [*names, CHANGE, VERSION] if plan.emit.changes else names


def columns_shipped(one: InputPlan) -> list[str]:
    """What an operator is given of an input: its event time, columns, and what is computed from them."""
    shipped = [name for name, _, row in one.columns if row < one.rows]
    return [one.stream.schema.time, *shipped, *(render(computed.expr) for computed in one.computed)]


def row_name(plan: PhysicalPlan, stream: int, row: int) -> str:
    """What stands in a row of an input, in words."""
    one = plan.inputs[stream]
    for name, _, at in one.columns:
        if at == row:
            return name
    for computed in one.computed:
        if computed.row == row:
            return render(computed.expr)
    return one.stream.schema.time


def _own_windows(inputs: Sequence[InputPlan]) -> list[Detail]:
    """Windows of time stand together, others say more and have a line each."""
    timed = [f"{one.stream.alias} {_window_of(one.stream)}" for one in inputs if one.stream.range is not None]
    others = [one.stream for one in inputs if one.stream.window is not None]
    lines = [f"windows of time: {', '.join(timed)}"] if timed else []
    return [Detail(line) for line in (*lines, *(f"window of {s.alias}: {_window_of(s)}" for s in others))]


def _between(query: JoinQuery) -> list[Detail]:
    """Headings with lines under them; none where every window stands in brackets after its stream."""
    if not query.bounds:
        return []
    aliases = [stream.alias for stream in query.streams]
    alternatives = [pairs(matrix, aliases) for matrix in WindowGraph(len(aliases), query.bounds).closed]
    return [Detail.headed("windows" if at == 0 else "or windows", lines) for at, lines in enumerate(alternatives)]


def _window_of(stream: StreamRef) -> str:
    """The window in brackets after a stream; nothing where it has none."""
    window = stream.window
    if isinstance(window, RowWindow):
        return f"the last {window.rows:,} tuples"
    if isinstance(window, RateWindow):
        clock = " of arrivals" if window.by_arrival else ""
        return f"the last n tuples, where n follows the rate: {format_duration(window.interval)}{clock}"
    if isinstance(window, LandmarkWindow):
        return f"from {render(window.start)}" + (f" to {render(window.end)}" if window.end is not None else "")
    if isinstance(window, FillingWindow):
        return f"{format_duration(window.range)}, answering every {format_duration(window.step)}"
    if isinstance(window, SessionWindow):
        most = "" if window.most is None else f", and at most {format_duration(window.most)}"
        return f"as long as tuples are at most {format_duration(window.gap)} apart{most}"
    return "" if stream.range is None else format_duration(stream.range)


def _window_attributes(stream: StreamRef) -> dict[str, Any]:
    """The same as data; empty where the stream has none."""
    window = stream.window
    if isinstance(window, RowWindow):
        return {"rows": window.rows, "slide_rows": window.slide}
    if isinstance(window, RateWindow):
        return {"rate_us": window.interval, "by_arrival": window.by_arrival}
    if isinstance(window, LandmarkWindow):
        end = None if window.end is None else render(window.end)
        return {"from": render(window.start), "to": end, "slide_us": window.slide}
    if isinstance(window, FillingWindow):
        return {"range_us": window.range, "step_us": window.step}
    if isinstance(window, SessionWindow):
        return {"gap_us": window.gap, "most_us": window.most}
    return {} if stream.range is None else {"range_us": stream.range, "slide_us": stream.slide}


def pairs(most: Matrix, aliases: Sequence[str]) -> list[str]:
    """How far apart every two streams may be.

    >>> from slackwater.core.window_graph import close
    >>> from slackwater.core.time import before, within
    >>> for line in pairs(close(3, (*within(0, 1, 5000), *before(1, 2, 2000))), ["a", "b", "c"]):
    ...     print(line)
    a and b at most 5 ms apart
    c at most 5 ms before and 7 ms after a
    b before c, at most 2 ms
    """
    return [_pair(most[j][i], most[i][j], aliases[i], aliases[j]) for j in range(len(most)) for i in range(j)]


def _pair(after: int, before: int, first: str, second: str) -> str:
    """`second` may be so much after `first`, and so much before it."""
    if after == before:
        return f"{first} and {second} at most {format_duration(after)} apart"
    if before == 0:
        return f"{first} before {second}, at most {format_duration(after)}"
    if after == 0:
        return f"{second} before {first}, at most {format_duration(before)}"
    return f"{second} at most {format_duration(before)} before and {format_duration(after)} after {first}"
