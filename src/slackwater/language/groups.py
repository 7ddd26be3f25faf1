"""What a query says of groups: keys, aggregates, what is computed from both, and which groups are wanted at all.

Aggregates may stand anywhere in SELECT and HAVING, as in `SUM(v) / COUNT(*)`. Each is taken out and computed as one
column of the group; what is left is an expression over such columns.

Invariant: an expression of a group reads keys, aggregates and the bounds of the window, and nothing else; the bounds
are always in the result and therefore never listed. Keys and aggregates have no names while they are collected:
`key_column` and `call_column` say how an expression refers to them. COUNT gives an integer, SUM an integer of integers,
a decimal of decimals and a float of floats, MIN and MAX what they are given, AVG a decimal of decimals, and all others
a float. FILTER is a CASE around the argument.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from slackwater.core.errors import QueryError
from slackwater.core.options import Options
from slackwater.core.quality import Quality
from slackwater.core.schema import AVERAGE_DIGITS, DIGITS, Kind, type_name
from slackwater.expressions.aggregates import DIFFERENT, FUNCTIONS, Gives, Takes
from slackwater.expressions.functions import typed_call
from slackwater.expressions.tree import Call, Column, Expr, Literal, with_columns
from slackwater.language.bound import (
    WINDOW_COLUMNS,
    Aggregate,
    AggregateQuery,
    FillingWindow,
    Output,
    SessionWindow,
    StreamRef,
)
from slackwater.language.derived import aggregate_leaves_as, leaves_as
from slackwater.language.event_times import event_times
from slackwater.language.forms import aggregate_function, first_aggregate, unwrapped
from slackwater.language.nodes import Item, Select, place_of, refused, text_of
from slackwater.language.scalars import Scalars
from slackwater.language.scope import Scope, matching
from slackwater.language.selection import RequestedName, free_name, name_columns, requested_name, spelled
from slackwater.language.window_functions import window_said

DEFAULT_ERROR = 0.05
"""Of approximate counts, as in Spark."""
ERRORS = (0.01, 0.3)
_WINDOWS = ("window", "session_window")
"""What Spark calls the window of a group."""
_LAST_INSTANT = ("tumble_rowtime", "hop_rowtime", "session_rowtime", "window_time")


def bind_aggregate(node: exp.Expr, name: str, scope: Scope) -> Aggregate:
    """One aggregate call, under the name its column will have."""
    function, condition = aggregate_function(node), None
    if function is None:
        raise scope.fail("expected an aggregate here", node)
    if isinstance(node, exp.Filter):
        condition = Scalars(scope, "FILTER").condition(node.args["expression"])
        node = node.this
    arguments, parameter, name_written = list(node.expressions), None, node.name.upper()
    if name_written == "COUNT_IF" and len(arguments) == 1:
        asked = Scalars(scope, "COUNT_IF").condition(arguments[0])
        counted = _where(asked, Literal(1, Kind.INT))
        return Aggregate(name, "COUNT", counted if condition is None else _where(condition, counted), None, Kind.INT)
    if function == "QUANTILE":
        if len(arguments) == 3 and "APPROX" in name_written:
            # How near an approximation must be: it is exact.
            _positive(arguments.pop(), scope)
        if len(arguments) != 2:
            raise scope.fail(f"{name_written} takes a value and a share, as in {name_written}(v, 0.9)", node)
        parameter = _share(arguments.pop(), scope)
    if FUNCTIONS[function].sketched:
        parameter = _error(arguments.pop(), scope) if len(arguments) == 2 else DEFAULT_ERROR
    by = None
    if FUNCTIONS[function].by_second:
        if len(arguments) != 2:
            raise scope.fail(f"{name_written} takes two values, as in {name_written}(name, price)", node)
        by = _chosen_by(name_written, arguments.pop(), scope)
    if len(arguments) != 1:
        wanted = "* or one value" if name_written == "COUNT" else "one value"
        raise scope.fail(f"{name_written} takes {wanted}", node)
    (argument,) = arguments
    if isinstance(argument, exp.Star):
        if function != "COUNT" or any(argument.args.values()):
            raise scope.fail("only COUNT can take *, as in COUNT(*)", argument)
        rows = None if condition is None else _where(condition, Literal(1, Kind.INT))
        return Aggregate(name, "COUNT", rows, None, Kind.INT)
    if isinstance(argument, exp.Distinct):
        if function not in DIFFERENT or argument.args.get("on") or len(argument.expressions) != 1:
            raise scope.fail(
                "DISTINCT is offered in COUNT, SUM, AVG, MIN and MAX of one value, as in COUNT(DISTINCT x)", node
            )
        function, argument = DIFFERENT[function], argument.expressions[0]
    bound = Scalars(scope, "another aggregate").bind(argument)
    kind = _kind(function, bound, argument, scope)
    if bound.kind is Kind.DECIMAL and FUNCTIONS[function].gives is Gives.FLOAT:
        bound = typed_call("to_float", (bound,))
    return Aggregate(name, function, bound if condition is None else _where(condition, bound), parameter, kind, by)


def _chosen_by(function: str, node: exp.Expr, scope: Scope) -> Expr:
    """The second argument of MAX_BY and MIN_BY."""
    bound = Scalars(scope, "another aggregate").bind(node)
    if not (bound.kind.numeric or bound.kind is Kind.TIME):
        found = bound.kind.value
        raise scope.fail(f"{function} chooses by a number or a timestamp, and {scope.written(node)} is a {found}", node)
    return bound


def _where(condition: Expr, value: Expr) -> Expr:
    """What FILTER (WHERE condition) leaves of a value: nulls are in no aggregate."""
    return typed_call("case", (condition, value, Literal(None, Kind.INT)))


def _kind(function: str, argument: Expr, node: exp.Expr, scope: Scope) -> Kind:
    known = FUNCTIONS[function]
    function = known.of_different or function
    if known.takes is Takes.ORDERED and argument.kind is Kind.BOOL:
        raise scope.fail(f"{function} needs a number, a timestamp or a text, not a boolean", node)
    if known.takes is Takes.NUMBERS and not argument.kind.numeric:
        hint = "; write SUM(CASE WHEN c THEN 1 ELSE 0 END)" if (function, argument.kind) == ("SUM", Kind.BOOL) else ""
        raise scope.fail(f"{function} needs a number, not {argument.kind.value}{hint}", node)
    if known.gives is Gives.AVERAGE and argument.kind is Kind.DECIMAL:
        _check_average(argument, node, scope)
    return known.kind_of(argument.kind)


def _check_average(argument: Expr, node: exp.Expr, scope: Scope) -> None:
    """The average of decimals has four digits more, and these must fit in a word."""
    arrow = leaves_as(argument, scope.streams)
    if arrow.precision + AVERAGE_DIGITS > DIGITS:
        written = scope.written(node)
        raise scope.fail(
            f"{written} is {type_name(arrow)}, and an exact average of it has more than {DIGITS} digits; write"
            f" AVG(to_float({written}))",
            node,
        )


def _share(node: exp.Expr, scope: Scope) -> float:
    return _constant(node, scope, 0, 1, "the share of QUANTILE must be a number from 0 to 1")


def _error(node: exp.Expr, scope: Scope) -> float:
    least, most = ERRORS
    message = f"the error of APPROX_COUNT_DISTINCT must be a number from {least} to {most}"
    return _constant(node, scope, least, most, message)


def _positive(node: exp.Expr, scope: Scope) -> float:
    return _constant(node, scope, 1, 2**31, "the accuracy must be a whole number from 1 on; a quantile is exact")


def _constant(node: exp.Expr, scope: Scope, least: float, most: float, message: str) -> float:
    """A number that stands in the text."""
    bound = Scalars(scope, "another aggregate").bind(node)
    value = bound.value if isinstance(bound, Literal) and bound.kind.numeric else None
    if not isinstance(value, (int, float)) or not least <= value <= most:
        raise scope.fail(message, node)
    return float(value)


@dataclass(frozen=True)
class Groups:
    """The groups of a query. Names of aggregates are those that `call_column` gives them."""

    keys: tuple[tuple[Expr, RequestedName], ...]
    calls: tuple[Aggregate, ...]
    """Those that are selected by themselves, in their order; then those that only expressions read."""
    written: tuple[str, ...]
    """How the text has each call, as a name."""
    selected: tuple[tuple[Expr, RequestedName], ...]
    """The SELECT list without the bounds of the window; a key or an aggregate by itself is a bare column."""
    having: tuple[Expr, ...]
    """Conjuncts."""
    ranked: tuple[Expr, ...]
    """What groups are ordered by."""


def key_column(number: int) -> str:
    """What stands for a key until it has a name; no query can spell it."""
    return f"\0key {number}"


def call_column(number: int) -> str:
    """What stands for an aggregate until it has a name."""
    return f"\0call {number}"


def renamed(expr: Expr, names: Mapping[str, str]) -> Expr:
    """An expression with other names for its columns."""
    return with_columns(expr, lambda column: replace(column, name=names.get(column.name, column.name)))


def conjuncts_of(exprs: Sequence[Expr]) -> list[Expr]:
    """What must all be true, each as small as it gets, and each once."""
    found: dict[Expr, None] = {}
    pending = list(reversed(exprs))
    while pending:
        expr = pending.pop()
        if isinstance(expr, Call) and expr.op == "and":
            pending += reversed(expr.args)
        elif expr != Literal(True, Kind.BOOL):
            found.setdefault(expr)
    return list(found)


def is_aggregation(query: Select) -> bool:
    """Whether a query asks for aggregates at all."""
    grouped = query.groups is not None or query.having is not None
    return grouped or any(first_aggregate(item.node) for item in query.items)


def bind_groups(query: Select, scope: Scope, ranked: Sequence[exp.Expr] = ()) -> Groups:
    """The groups of a query over streams whose windows and filters are bound already, to be ordered by `ranked`."""
    collected = _Collected(query, scope)
    selected: list[tuple[Expr, RequestedName] | Item] = []
    for item in query.items:
        node = unwrapped(item.node)
        if is_window_column(item, node, scope):
            continue
        if aggregate_function(node) is not None:
            name = spelled(scope.written(node))
            selected.append(
                (collected.call(node, shared=False), RequestedName(item.requested_name, name, name, item.place))
            )
        else:
            selected.append(item)
    # Aggregates that are selected by themselves come first, so that expressions find them.
    done = [collected.item(one) if isinstance(one, Item) else one for one in selected]
    having = () if query.having is None else (_Around(scope, "HAVING", collected).condition(query.having),)
    ordered = tuple(_Around(scope, "ORDER BY", collected).bind(node) for node in ranked)
    if collected.keys and not collected.calls:
        # Groups are those that have rows, so what makes them is that these are counted.
        collected.count_rows()
    if not collected.calls:
        raise refused(query.items[-1], "GROUP BY needs an aggregate in the SELECT list, such as COUNT(*)")
    return Groups(
        tuple(collected.keys.items()), tuple(collected.calls), tuple(collected.written), tuple(done),
        tuple(conjuncts_of(having)), ordered,
    )  # fmt: skip


class _Collected:
    """Keys and aggregates found so far."""

    def __init__(self, query: Select, scope: Scope) -> None:
        self.query, self._scope = query, scope
        self.keys: dict[Expr, RequestedName] = _keys(query, scope)
        self.calls: list[Aggregate] = []
        self.written: list[str] = []

    def call(self, node: exp.Expr, shared: bool) -> Column:
        """The column of an aggregate call; `shared`, that of an equal one where there is one."""
        call = bind_aggregate(node, "", self._scope)
        known = [replace(one, name="") for one in self.calls]
        number = known.index(call) if shared and call in known else len(known)
        if number == len(known):
            self.calls.append(replace(call, name=call_column(number)))
            self.written.append(spelled(self._scope.written(node)))
        arrow = aggregate_leaves_as(call, self._scope.streams)
        return Column(0, call_column(number), call.kind, int(arrow.scale) if call.kind is Kind.DECIMAL else 0)

    def count_rows(self) -> None:
        """One more aggregate, which nothing selects."""
        self.calls.append(Aggregate(call_column(len(self.calls)), "COUNT", None, None, Kind.INT))
        self.written.append("count")

    def key(self, node: exp.Expr) -> Column | None:
        """The column of an expression that is a key."""
        try:
            bound = Scalars(self._scope, "the SELECT list").bind(node)
        except QueryError:
            return None
        if bound not in self.keys:
            return None
        return Column(0, key_column(list(self.keys).index(bound)), bound.kind, bound.scale)

    def item(self, item: Item) -> tuple[Expr, RequestedName]:
        """An item of the SELECT list that is no bare aggregate."""
        node = unwrapped(item.node)
        if isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star)):
            raise self._scope.fail("an aggregate query cannot select *; name the keys and aggregates", node)
        key = self.key(node)
        if key is not None:
            bound = Scalars(self._scope, "the SELECT list").bind(node)
            return key, requested_name(item, bound, self._scope)
        name = spelled(self._scope.written(node))
        return _Around(self._scope, "the SELECT list", self).bind(node), RequestedName(
            item.requested_name, name, name, item.place
        )


@dataclass(frozen=True)
class _Around(Scalars):
    """Binds expressions of a group."""

    collected: _Collected

    def bind(self, node: exp.Expr) -> Expr:
        inner = unwrapped(node)
        if aggregate_function(inner) is not None:
            return self.collected.call(inner, shared=True)
        if first_aggregate(inner) is None:
            window, time = window_column(inner, self.scope), _window_time(inner, self.scope)
            if time is not None:
                return time
            key = self.collected.key(inner)
            if window is not None or key is not None:
                return key or Column(0, window or "", Kind.TIME)
            if isinstance(inner, exp.Column | exp.Dot):
                return self._named(inner)
        return super().bind(node)

    def _named(self, node: exp.Column | exp.Dot) -> Expr:
        """What HAVING and ORDER BY call by a name of the SELECT list; what is no key has many values in a group."""
        behind = self.clause in ("HAVING", "ORDER BY")
        if behind:
            found = _called(node, self.collected.query, self.scope)
            if found is not None:
                return self.bind(found)
        self.scope.column(node)
        if behind:
            raise self.scope.fail(f"{self.clause} reads aggregates and what stands in GROUP BY", node)
        raise self.scope.fail("a selected item must be an aggregate or stand in GROUP BY", node)


def _keys(query: Select, scope: Scope) -> dict[Expr, RequestedName]:
    """The keys of GROUP BY, each once."""
    keys: dict[Expr, RequestedName] = {}
    for node in query.groups or ():
        if window_column(node, scope) is not None or _window_time(node, scope) is not None:
            continue
        if isinstance(node, exp.Literal):
            raise scope.fail("GROUP BY takes columns or expressions, not positions", node)
        meant = _called(node, query, scope) or node
        if meant is not node and first_aggregate(meant) is not None:
            raise scope.fail(f"'{node.name}' is an aggregate; groups are made before it can be known", node)
        bound = Scalars(scope, "GROUP BY").bind(meant)
        keys.setdefault(bound, requested_name(meant, bound, scope, place_of(node)))
    return keys


def _called(node: exp.Expr, query: Select, scope: Scope) -> exp.Expr | None:
    """The item of the SELECT list that is called so, unless a stream has a column of that name."""
    if not isinstance(node, exp.Column) or node.args.get("table") is not None:
        return None
    if any(name.lower() == node.name.lower() for stream in scope.streams for name in stream.schema.names):
        return None
    return next((item.node for item in query.items if (item.requested_name or "").lower() == node.name.lower()), None)


def is_window_column(item: Item, node: exp.Expr, scope: Scope) -> bool:
    """Whether an item asks for a bound of the window, or for both, which are in the result in any case."""
    if names_window(node, scope):
        return item.requested_name in (None, *_WINDOWS)
    window = window_column(node, scope)
    return window is not None and item.requested_name in (None, window)


def window_column(node: exp.Expr, scope: Scope) -> str | None:
    """window_start or window_end, as it is called here or by Spark and Flink, where no stream has a such a column."""
    if isinstance(node, exp.Anonymous):
        kind, _, bound = node.name.lower().partition("_")
        if kind not in ("tumble", "hop", "session") or f"window_{bound}" not in WINDOW_COLUMNS:
            return None
        _check_said(node, scope)
        return f"window_{bound}"
    if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
        return None
    names = [part.name.lower() for part in node.parts]
    known = any(matching(name, stream.schema.names) for stream in scope.streams for name in (names[0], ".".join(names)))
    known = known or (len(names) > 1 and bool(matching(names[0], [stream.alias for stream in scope.streams])))
    # Spark calls that of sessions otherwise.
    called = "_".join(names).removeprefix("session_")
    return None if known or called not in WINDOW_COLUMNS else called


def is_event_time(node: exp.Expr, stream: StreamRef, text: str) -> bool:
    """Whether a window of this is one of the event time of a stream; a row of an aggregate may be named by its own
    window, as in window(window, '1 hour')."""
    below = stream.query
    if isinstance(below, AggregateQuery) and below.stream.range is not None and node.sql() == "window":
        return True
    column = Scalars(Scope(text, (stream,)), "a window").bind(node)
    return isinstance(column, Column) and event_times(stream).get(column.name) == (0, 0)


def _check_said(call: exp.Anonymous, scope: Scope) -> None:
    """Refuse a window that is named again and is another one."""
    if call.name.lower() == "window_time":
        raise scope.fail("window_time takes the window of the query, as in window_time(window)", call)
    time, *said = window_said(call, scope.text)
    stream, *others = scope.streams
    own = others or is_event_time(time, stream, scope.text)
    window = stream.window
    of_sessions = call.name.lower().startswith("session")
    lengths = [window.gap, window.most] if isinstance(window, SessionWindow) else [stream.range, stream.slide]
    if others or not own or said != lengths or of_sessions != isinstance(window, SessionWindow):
        raise scope.fail("this is not the window of the query; a query has one, of its event time", call)


def names_window(node: exp.Expr, scope: Scope) -> bool:
    """Whether an expression is the window itself: window, or window(ts, '5 minutes') again."""
    if isinstance(node, exp.Anonymous):
        if node.name.lower() not in _WINDOWS:
            return False
        _check_said(node, scope)
        return True
    alone = isinstance(node, exp.Column) and node.args.get("table") is None and node.name.lower() in _WINDOWS
    return alone and not any(matching(node.name, stream.schema.names) for stream in scope.streams)


def _window_time(node: exp.Expr, scope: Scope) -> Expr | None:
    """The last instant of a window: window_time, window_time(window), TUMBLE_ROWTIME(...)."""
    name = node.name.lower() if isinstance(node, exp.Anonymous | exp.Column) else ""
    known = any(matching("window_time", stream.schema.names) for stream in scope.streams)
    first = scope.streams[0]
    of_time = (
        first.range is not None or isinstance(first.window, SessionWindow | FillingWindow) or len(scope.streams) > 1
    )
    called = isinstance(node, exp.Anonymous) and name in _LAST_INSTANT
    plain = isinstance(node, exp.Column) and node.args.get("table") is None and name == "window_time" and not known
    if not of_time or not (called or plain):
        return None
    if isinstance(node, exp.Anonymous) and (len(node.expressions) != 1 or not names_window(node.expressions[0], scope)):
        _check_said(node, scope)
    return typed_call("shift", (Column(0, WINDOW_COLUMNS[1], Kind.TIME), Literal(-1, Kind.INT)))


def bind_ranked(
    query: Select, scope: Scope, ranked: Sequence[exp.Expr], quality: Quality, options: Options
) -> tuple[AggregateQuery, tuple[Column, ...], int]:
    """The aggregate query over streams whose windows and filters are bound already; it stands over the first one. Its
    columns that hold what groups are ordered by; and how many columns are selected, which come first."""
    groups = bind_groups(query, scope, ranked)
    selected = groups.selected
    chosen = [expr.name for expr, _ in selected if isinstance(expr, Column)]
    hidden = [at for at in range(len(groups.keys)) if key_column(at) not in chosen]
    requested = [asked for _, asked in selected] + [groups.keys[at][1] for at in hidden]
    names = name_columns(requested, text_of(query), aggregate=True)
    order = tuple(names[: len(selected)])
    taken = set(names)
    called = {key_column(at): [name] for at, name in zip(hidden, names[len(selected) :], strict=True)}
    for (expr, _), name in zip(selected, order, strict=True):
        if isinstance(expr, Column):
            called.setdefault(expr.name, []).append(name)
    keys, columns = [], {}
    for at, (expr, _) in enumerate(groups.keys):
        keys += [Output(name, expr) for name in called[key_column(at)]]
        columns[key_column(at)] = called[key_column(at)][0]
    aggregates = []
    for call, written in zip(groups.calls, groups.written, strict=True):
        own = called[call.name] if call.name in called else [free_name(written, taken)]
        aggregates.append(replace(call, name=own[0]))
        columns[call.name] = own[0]
    computed = [
        Output(name, renamed(expr, columns))
        for (expr, _), name in zip(selected, order, strict=True)
        if not isinstance(expr, Column) or expr.name not in columns
    ]
    found, shown = [], len(order)
    for expr in (renamed(one, columns) for one in groups.ranked):
        if not isinstance(expr, Column):
            computed.append(Output(free_name("ordered_by", taken), expr))
        name = expr.name if isinstance(expr, Column) else computed[-1].name
        found.append(Column(0, name, expr.kind, expr.scale))
        order += () if name in (*WINDOW_COLUMNS, *order) else (name,)
    aggregation = AggregateQuery(
        scope.streams[0], tuple(keys), tuple(aggregates), order, quality, options, query.out, tuple(computed),
        tuple(renamed(expr, columns) for expr in groups.having),
    )  # fmt: skip
    return aggregation, tuple(found), shown
