"""Functions of Spark that the language has not: Spark computes them where a stream is read, before rows are taken in.

`SELECT md5(s.name) AS n FROM s` over DataFrames is written anew as `SELECT s.md5_s_name AS n FROM s`, over a stream
that has one column more. So the allow-list bounds what runs inside of kernels alone.

Invariant: what Spark computes reads columns of one stream, and hangs on nothing but its row; its texts are as they are
written, so a backslash in them is one for Spark. All else that a query says stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from slackwater.expressions.functions import function_names
from slackwater.language.dialect import parse, written
from slackwater.language.forms import first_aggregate
from slackwater.language.nodes import ColonCast, Select, Stream, place_of
from slackwater.language.scope import IN_FRONT, matching
from slackwater.language.selection import free_name, spelled
from slackwater.language.static import all_selects


@dataclass(frozen=True)
class InFront:
    """A column that Spark computes."""

    stream: str
    """The source that has it."""
    name: str
    sql: str
    """What it is, as Spark reads it."""


def without_functions(text: str, columns: Mapping[str, Sequence[str]]) -> tuple[str, tuple[InFront, ...]]:
    """The query without such functions, and the columns that stand for them; `columns` are those that streams have.

    >>> query = "SELECT v, md5(s.name) FROM s WHERE md5(name) <> name AND instr(name, 'y') > v"
    >>> text, found = without_functions(query, {"s": ["v", "name"]})
    >>> text
    'SELECT v, "s"."md5_s_name" FROM s WHERE "s"."md5_s_name" <> name AND "s"."instr_name_y" > v'
    >>> [(one.name, one.sql) for one in found]
    [('md5_s_name', 'MD5(name)'), ('instr_name_y', "INSTR(name, 'y')")]
    """
    if IN_FRONT.isdisjoint(re.findall(r"\w+", text.lower())):
        return text, ()
    query = parse(text)
    taken = {name: set(own) for name, own in columns.items()}
    found: dict[tuple[str, str], InFront] = {}
    for select in all_selects(query):
        for call in _outermost(select):
            stream = _stream_of(call, select)
            source = [] if stream is None else matching(stream.source, columns)
            if stream is None or len(source) != 1:
                continue
            sql = _for_spark(call, stream)
            key = source[0], sql
            if key not in found:
                name = free_name(spelled(text[slice(*place_of(call))]), taken[source[0]])
                found[key] = InFront(source[0], name, sql)
            names = [exp.to_identifier(name, quoted=True) for name in (found[key].name, stream.alias)]
            call.replace(exp.Column(this=names[0], table=names[1]))
    return (written(query), tuple(found.values())) if found else (text, ())


def _outermost(select: Select) -> list[exp.Expr]:
    """The calls of such functions in a SELECT, and not in another one inside it."""

    missing = IN_FRONT.difference(function_names())

    def wanted(node: exp.Expr) -> bool:
        return isinstance(node, exp.Anonymous) and node.name.lower() in missing and first_aggregate(node) is None

    def inside(node: exp.Expr) -> Iterator[exp.Expr]:
        while node.parent is not None and not isinstance(node, Select):
            node = node.parent
            yield node

    return [
        node
        for node in select.find_all(exp.Anonymous)
        if wanted(node) and node.find_ancestor(Select) is select and not any(map(wanted, inside(node)))
    ]


def _stream_of(call: exp.Expr, select: Select) -> Stream | None:
    """The one stream that all columns of a call are of; None where there are several, or it is a sub-query."""
    aliases = [stream.alias for stream in select.streams]
    named = set()
    for column in call.find_all(exp.Column):
        found = matching(column.parts[0].name, aliases) if len(column.parts) > 1 else []
        named.add(found[0] if len(found) == 1 else aliases[0] if len(aliases) == 1 else "")
    stream = next((one for one in select.streams if {one.alias} == named), None)
    return stream if stream is not None and stream.source else None


def _for_spark(call: exp.Expr, stream: Stream) -> str:
    """A call as Spark reads it, over the columns of its stream."""
    copy = call.copy()
    for column in list(copy.find_all(exp.Column)):
        parts = column.parts
        own = len(parts) > 1 and bool(matching(parts[0].name, [stream.alias]))
        names = [exp.to_identifier(part.name, quoted=part.args.get("quoted")) for part in parts[own:]]
        column.replace(exp.Dot.build(names) if len(names) > 1 else exp.Column(this=names[0]))
    for literal in list(copy.find_all(exp.Literal)):
        if literal.is_string:
            quoted = literal.name.replace("'", "\\'")
            literal.replace(exp.Var(this=f"'{quoted}'"))
    for cast in list(copy.find_all(ColonCast)):
        cast.replace(exp.Cast(this=cast.this, to=cast.args["to"]))
    return str(copy.sql(dialect="spark", comments=False))
