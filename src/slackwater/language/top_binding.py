"""What is first in a window, bound: a query with ORDER BY and LIMIT, or with ROW_NUMBER.

Invariant: an aggregate is bound as if nothing was said of its first rows; these are a query around it. What it is
ordered by and does not select is a column of it that goes no further.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from slackwater.core.errors import QueryError
from slackwater.core.options import Options
from slackwater.core.quality import Quality, Recall, RelativeError
from slackwater.core.results import ISTREAM
from slackwater.expressions.tree import Column, Expr
from slackwater.language.bound import RESULT_TIME, WINDOW_COLUMNS, AggregateQuery, Output, StreamRef
from slackwater.language.derived import result_schema
from slackwater.language.forms import unwrapped
from slackwater.language.groups import is_aggregation, is_window_column, names_window, window_column
from slackwater.language.nodes import Select, Top, Window, refused, target_word, text_of
from slackwater.language.scalars import Scalars
from slackwater.language.scope import Scope, scope_of
from slackwater.language.selection import bind_outputs
from slackwater.language.top import NUMBER, OrderedBy, TopQuery

_EACH = "a stream has no end, so the first rows are those of each window"
_UNITED = (
    "the first rows of a UNION ALL are those of a query around it; write FROM (... UNION ALL ...) u [RANGE 1 MINUTE]"
)
_WAIT = "write DELAY, COMPLETE or NO WAIT"


def check_no_top_inside(query: Select) -> None:
    """Refuse first rows that another query reads."""
    inside = next((one for one in query.find_all(Select) if one.top is not None and one is not query), None)
    if inside is not None and inside.top is not None:
        why = "no query reads the first rows of another; leave ORDER BY and LIMIT, or QUALIFY, out"
        raise refused(inside.top, _UNITED if inside in query.united else why)


def check_top(select: Select, aggregation: bool, quality: Quality) -> None:
    """Refuse what does not go with the first rows of a window."""
    top = select.top
    if top is None:
        return
    stream, *others = select.streams
    if select.united:
        raise refused(top, _UNITED)
    if select.kind:
        raise refused(top, f"SELECT {select.kind} has no first rows; leave one of them out")
    if select.to_stream is not None and select.out.kind != ISTREAM:
        raise refused(top, f"{select.out.kind} does not go with the first rows of a window; leave one of them out")
    if isinstance(quality, Recall | RelativeError) and select.target is not None:
        message = (
            f"{target_word(quality)} is not offered with the first rows of a window: a tuple that is missing may put"
            f" any other row in the place of one, so what it costs has no bound; {_WAIT}"
        )
        raise refused(select.target, message)
    if aggregation:
        return
    if others or select.members:
        raise refused(top, f"{_EACH}, and a join needs its own; write FROM (SELECT ...) j [RANGE 1 MINUTE]")
    if stream.window is None and stream.query is not None and is_aggregation(stream.query):
        return
    if stream.window is None:
        raise refused(top, f"{_EACH}; write one, as in {stream.alias} [RANGE 1 MINUTE]")
    if not isinstance(stream.window, Window) or stream.window.in_rows or stream.window.slide is not None:
        message = f"the first rows are looked for in windows that tumble; write {stream.alias} [RANGE 1 MINUTE]"
        raise refused(stream.window, message)
    if stream.window.range <= 0:
        raise refused(stream.window, "a window that has first rows must be longer than nothing")


def bind_top_of_aggregate(
    select: Select, inner: AggregateQuery, ranked: Sequence[Expr], shown: int, quality: Quality, options: Options
) -> TopQuery:
    """The first rows of an aggregate: `ranked` is what they are parted and ordered by, in its columns, of which the
    first `shown` are selected."""
    stream = StreamRef(inner.stream.alias, "", result_schema(inner), None, query=inner)
    scope = Scope("", (stream,))
    columns = [scope.at((0, name)) for name in inner.order[:shown]]
    outputs = tuple(Output(column.name, column) for column in columns)
    return _top(select, stream, ranked, outputs, quality, options)


def bind_top(select: Select, streams: tuple[StreamRef, ...], quality: Quality, options: Options) -> TopQuery:
    """The first rows of a stream in its windows, or of an aggregate in FROM."""
    scope = scope_of(select, streams)
    (stream,) = streams
    items = [item for item in select.items if not is_window_column(item, unwrapped(item.node), scope)]
    outputs = bind_outputs(items, scope, windowed=stream.range is not None)
    if stream.range is None:
        outputs = tuple(one for one in outputs if not _is_bound(one))
    ranked = [Scalars(scope, "ORDER BY").bind(node) for node in ranked_by(select, scope)]
    return _top(select, stream, ranked, outputs, quality, options)


def _is_bound(output: Output) -> bool:
    """Whether it is a bound of the window of an aggregate, which every row has in front."""
    return isinstance(output.expr, Column) and output.name == output.expr.name and output.name in WINDOW_COLUMNS


def ranked_by(select: Select, scope: Scope) -> list[exp.Expr]:
    """What rows are parted by, without the window, and then what they are ordered by."""
    top = select.top
    assert top is not None, "it has first rows"
    parts = top.ranking.partition or []
    own = [node for node in parts if not _is_window(node, scope)]
    if top.ranking.partition is not None and len(own) == len(parts):
        raise scope.fail(f"{_EACH}; write PARTITION BY window, and what else there is behind it", top.ranking)
    order = [one.this for one in top.ranking.order]
    for node in (*own, *order):
        if isinstance(unwrapped(node), exp.Literal):
            raise scope.fail("ORDER BY and PARTITION BY take columns or expressions, not positions", node)
    return [*own, *order]


def _is_window(node: exp.Expr, scope: Scope) -> bool:
    first = scope.streams[0]
    if isinstance(first.query, AggregateQuery) and first.range is None and isinstance(node, exp.Column):
        return "_".join(part.name.lower() for part in node.parts) in (*WINDOW_COLUMNS, "window")
    return names_window(node, scope) or window_column(node, scope) is not None


def _top(
    select: Select, stream: StreamRef, ranked: Sequence[Expr], outputs: tuple[Output, ...], quality: Quality,
    options: Options,
) -> TopQuery:  # fmt: skip
    top = select.top
    assert top is not None, "it has first rows"
    parts = len(ranked) - len(top.ranking.order)
    order = tuple(
        OrderedBy(expr, bool(one.args["desc"]), bool(one.args["nulls_first"]))
        for expr, one in zip(ranked[parts:], top.ranking.order, strict=True)
    )
    return TopQuery(
        (stream,), tuple(ranked[:parts]), order, top.most, _numbered(select, top, outputs), quality, options, select.out
    )


def _numbered(select: Select, top: Top, outputs: tuple[Output, ...]) -> tuple[Output, ...]:
    """The outputs, and the number of a row behind them where it is selected."""
    if top.called is None:
        return outputs
    if top.called.name in {RESULT_TIME, *WINDOW_COLUMNS, *(output.name for output in outputs)}:
        raise QueryError(f"two columns of the result are called '{top.called.name}'", text_of(select), *top.place)
    return (*outputs, Output(top.called.name, NUMBER))
