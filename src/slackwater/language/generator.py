"""A tree as query text: the inverse of the parser.

Invariant: what is written here is read as the same tree, whatever its text looked like before. Durations are written
exactly, names in quotes stay in quotes; comments are gone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.generator import Generator

from slackwater.core.quality import clause
from slackwater.core.time import format_duration
from slackwater.language.nodes import (
    EXPLAIN_AS,
    ColonCast,
    Emitted,
    Filling,
    Item,
    Landmarks,
    MatchTime,
    Named,
    Rate,
    RelationToStream,
    RowNumber,
    Select,
    Sessions,
    Settings,
    Stream,
    Target,
    Top,
    Window,
    WindowForAll,
    WindowPath,
)


def _window(self: Generator, node: Window) -> str:
    kind, written = ("ROWS", str) if node.in_rows else ("RANGE", format_duration)
    slide = "" if node.slide is None else f" SLIDE {written(node.slide)}"
    return f"[{kind} {written(node.range)}{slide}]"


def _landmarks(self: Generator, node: Landmarks) -> str:
    end = "" if node.end is None else f" END WHEN {self.sql(node.end)}"
    return f"[START WHEN {self.sql(node.start)}{end}{_slide(node.slide)}]"


def _rate(self: Generator, node: Rate) -> str:
    return f"[RATE {format_duration(node.interval)}{' BY ARRIVAL' if node.by_arrival else ''}]"


def _filling(self: Generator, node: Filling) -> str:
    return f"[RANGE {format_duration(node.range)} CUMULATE {format_duration(node.step)}]"


def _sessions(self: Generator, node: Sessions) -> str:
    most = "" if node.most is None else f" AT MOST {format_duration(node.most)}"
    return f"[SESSION {format_duration(node.gap)}{most}]"


def _slide(slide: int | None) -> str:
    return "" if slide is None else f" SLIDE {format_duration(slide)}"


def _window_for_all(self: Generator, node: WindowForAll) -> str:
    return f"WINDOW {format_duration(node.size)}{_slide(node.slide)}"


def _window_path(self: Generator, node: WindowPath) -> str:
    names = [self.sql(name) for name in node.streams]
    if not node.ordered:
        return f"WINDOW ({', '.join(names)}) = {format_duration(node.sizes[0])}"
    arrow = " <-> " if node.reversible else " -> "
    return f"PATH {arrow.join(names)} WITHIN ({', '.join(map(format_duration, node.sizes))})"


def _match_time(self: Generator, node: MatchTime) -> str:
    return "MATCH TIME" if node.within is None else f"MATCH TIME WITHIN {format_duration(node.within)}"


def _relation_to_stream(self: Generator, node: RelationToStream) -> str:
    every = "" if node.out.every is None else f" EVERY {format_duration(node.out.every)}"
    return f"{node.out.kind}{every}"


def _emitted(self: Generator, node: Emitted) -> str:
    return f"EMIT {node.emit}"


def _target(self: Generator, node: Target) -> str:
    return f"WITH {clause(node.quality)}"


def _settings(self: Generator, node: Settings) -> str:
    stated = (f"{name} = {_option(getattr(node.options, name))}" for name in node.places)
    return f"OPTIONS ({', '.join(stated)})"


def _option(value: object) -> str:
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, int):
        return format_duration(value)
    return repr(value) if isinstance(value, float) else exp.Literal.string(str(value)).sql()


def _item(self: Generator, node: Item) -> str:
    return self.sql(node.node) + ("" if node.called is None else f" AS {self.sql(node.called)}")


def _stream(self: Generator, node: Stream) -> str:
    reads = f"({self.sql(node.reads)})" if isinstance(node.reads, Select) else self.sql(node.reads)
    as_of = "" if node.as_of is None else f" FOR SYSTEM_TIME AS OF {self.sql(node.as_of)}"
    called = as_of + ("" if node.called is None else f" AS {self.sql(node.called)}")
    window = "" if node.window is None else f" {self.sql(node.window)}"
    on = "" if node.on is None else f" ON {self.sql(node.on)}"
    using = f" USING ({', '.join(map(self.sql, node.using))})" if node.using else ""
    match = f" MATCH_CONDITION ({self.sql(node.match_condition)})" if node.match_condition is not None else ""
    within = "" if node.within is None else f" WITHIN {format_duration(node.within)}"
    return f"{reads}{called}{window}{match}{on}{using}{within}"


def _named(self: Generator, node: Named) -> str:
    return f"{self.sql(node.called)} AS ({self.sql(node.query)})"


def _select(self: Generator, node: Select) -> str:
    parts = []
    if node.explain is not None:
        parts.append("EXPLAIN" if node.explain == EXPLAIN_AS[0] else f"EXPLAIN (FORMAT {node.explain})")
    if node.named:
        parts.append(f"WITH {', '.join(map(self.sql, node.named))}")
    parts.append(" UNION ALL ".join(_one_select(self, one) for one in node.all_united))
    parts += [self.sql(one) for one in (node.emitted, node.target, node.settings) if one is not None]
    return " ".join(parts)


def _row_number(self: Generator, node: RowNumber) -> str:
    partition = f"PARTITION BY {', '.join(map(self.sql, node.partition))} " if node.partition else ""
    return f"ROW_NUMBER() OVER ({partition}ORDER BY {', '.join(map(self.sql, node.order))})"


def _ordered(self: Generator, node: exp.Ordered) -> str:
    descending, first = bool(node.args["desc"]), bool(node.args["nulls_first"])
    nulls = "" if first is not descending else f" NULLS {'FIRST' if first else 'LAST'}"
    return f"{self.sql(node.this)}{' DESC' if descending else ''}{nulls}"


def _top(self: Generator, node: Top) -> str:
    ranking = node.ranking
    if ranking.partition is None:
        return f"ORDER BY {', '.join(map(self.sql, ranking.order))} LIMIT {node.most}"
    return f"QUALIFY {self.sql(ranking if node.called is None else node.called)} <= {node.most}"


def _items(self: Generator, node: Select) -> str:
    items, top = [self.sql(item) for item in node.items], node.top
    if top is not None and top.called is not None:
        items.append(f"{self.sql(top.ranking)} AS {self.sql(top.called)}")
    return ", ".join(items)


def _one_select(self: Generator, node: Select) -> str:
    first, *rest = node.streams
    joined = (f"{',' if one.join == ',' else f' {one.join_as_written}'} {self.sql(one)}" for one in rest)
    parts = [
        "SELECT",
        node.kind,
        self.sql(node.to_stream),
        _items(self, node),
        f"FROM {self.sql(first)}{''.join(joined)}",
        " AND ".join(map(self.sql, node.windows)),
        self.sql(node.match),
    ]
    if node.where is not None:
        parts.append(f"WHERE {self.sql(node.where)}")
    if node.groups is not None:
        parts.append(f"GROUP BY {', '.join(map(self.sql, node.groups))}")
    if node.having is not None:
        parts.append(f"HAVING {self.sql(node.having)}")
    if node.top is not None:
        parts.append(self.sql(node.top))
    return " ".join(part for part in parts if part)


def _in(self: Generator, node: exp.In, word: str = "IN") -> str:
    query = node.args.get("query")
    choices = node.expressions if query is None else [query]
    return f"{self.sql(node.this)} {word} ({', '.join(map(self.sql, choices))})"


def _not(self: Generator, node: exp.Not) -> str:
    """NOT, behind the value where people write it there."""
    inner = node.this
    if isinstance(inner, exp.In):
        return _in(self, inner, "NOT IN")
    if isinstance(inner, exp.Is):
        return f"{self.sql(inner.this)} IS NOT {self.sql(inner.args['expression'])}"
    if isinstance(inner, exp.Between):
        low, high = self.sql(inner.args["low"]), self.sql(inner.args["high"])
        return f"{self.sql(inner.this)} NOT BETWEEN {low} AND {high}"
    return f"NOT {self.sql(inner)}"


def _cast(self: Generator, node: exp.Cast) -> str:
    """A CAST; TIMESTAMP '...' is one whose type the parser knows."""
    value, to = self.sql(node.this), self.sql(node.args["to"])
    return f"{to} {value}" if isinstance(node.args["to"], exp.DataType) else f"CAST({value} AS {to})"


class QueryGenerator(Generator):
    """Writes what the parser reads."""

    TRANSFORMS: ClassVar[dict[Any, Callable[..., str]]] = {
        **Generator.TRANSFORMS,
        Window: _window,
        Landmarks: _landmarks,
        Rate: _rate,
        Sessions: _sessions,
        Filling: _filling,
        WindowForAll: _window_for_all,
        WindowPath: _window_path,
        MatchTime: _match_time,
        RelationToStream: _relation_to_stream,
        Emitted: _emitted,
        Target: _target,
        Settings: _settings,
        RowNumber: _row_number,
        Top: _top,
        exp.Ordered: _ordered,
        Item: _item,
        Stream: _stream,
        Named: _named,
        Select: _select,
        ColonCast: lambda self, node: f"{self.sql(node.this)}::{self.sql(node.args['to'])}",
        exp.Cast: _cast,
        exp.Exists: lambda self, node: f"EXISTS ({self.sql(node.this)})",
        exp.Filter: lambda self, node: f"{self.sql(node.this)} FILTER (WHERE {self.sql(node.args['expression'])})",
        exp.In: _in,
        exp.Not: _not,
    }
