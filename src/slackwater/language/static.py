"""Static relations in a query: `JOIN customers c ON o.customer = c.id`, where `customers` is no stream.

Such a relation is joined where its stream is read, before any tuple is made. So the query is written anew: the entry is
taken out of FROM, and its columns are those of a nested column of the stream, which is called as the relation is; so
`c.name` means the same as before. An inner join becomes a condition: what found nothing is filtered, and still moves
the clock of its stream.

Invariant: what a query says beside the joins with static relations stays as it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from sqlglot import exp

from slackwater.core.join_kinds import JoinKind
from slackwater.language.dialect import parse, written
from slackwater.language.forms import flattened, unwrapped
from slackwater.language.nodes import Select, Stream, refused
from slackwater.language.scope import matching

_EXAMPLE = "as in FROM o JOIN c ON o.customer = c.id"


@dataclass(frozen=True)
class StaticJoin:
    """One static relation of a query, and the stream that it is joined with."""

    stream: str
    """The source that the stream reads."""
    relation: str
    alias: str
    """What the query calls the relation, and so the column that holds it."""
    keys: tuple[tuple[str, str], ...]
    """Columns that must be equal: of the stream, and of the relation."""
    read_as: str = ""
    """Where several queries read the stream: as what the query reads it with its relations."""

    def __str__(self) -> str:
        keys = " AND ".join(f"{mine} = {other}" for mine, other in self.keys)
        return f"JOIN {self.relation} {self.alias} ON {keys}"


def without_static(text: str, relations: Collection[str], apart: bool = False) -> tuple[str, tuple[StaticJoin, ...]]:
    """The query over streams alone, and what they have to be joined with; `relations` are the names of those that are
    none. With `apart` a stream that is joined has a name of its own, for other queries read it as it is.

    >>> text, (join,) = without_static("SELECT o.v, c.name FROM o LEFT JOIN people c ON o.by = c.id", ["people"])
    >>> text, join.stream, join.relation, join.alias, join.keys
    ('SELECT o.v, c.name FROM o', 'o', 'people', 'c', (('by', 'id'),))
    """
    query = parse(text)
    selects = list(all_selects(query))
    read = Counter(stream.source for select in selects for stream in select.streams)
    found = [join for select in selects for join in _taken_out(select, relations, read, apart)]
    return (written(query), tuple(found)) if found else (text, ())


def all_selects(query: Select) -> Iterator[Select]:
    """All that is selected anywhere in a query, each once."""
    seen: dict[int, Select] = {}
    waiting = [query]
    while waiting:
        select = waiting.pop()
        if id(select) in seen:
            continue
        seen[id(select)] = select
        waiting += [*select.united, *select.members]
        waiting += [stream.query for stream in select.streams if stream.query is not None]
    yield from seen.values()


def _taken_out(select: Select, relations: Collection[str], read: Counter[str], apart: bool) -> Iterator[StaticJoin]:
    """Take the static relations out of one SELECT."""
    static = [one for one in select.streams if one.source and matching(one.source, relations)]
    if not static:
        return
    streams = [one for one in select.streams if one not in static]
    joins = []
    for one in static:
        join = _checked(one, select, streams, relations)
        if read[join.stream] > 1:
            message = (
                f"stream {join.stream} is read more than once, and joined with {one.alias}; give it under two names"
            )
            raise refused(one, message)
        joins.append(join)
        if one.join == "JOIN":
            there = [_is_there(one.alias, key) for _, key in join.keys]
            conditions = [*([] if select.where is None else [exp.Paren(this=select.where)]), *there]
            where = conditions[0]
            for condition in conditions[1:]:
                where = exp.And(this=where, expression=condition)
            select.set("where", where)
    select.set("streams", streams)
    names = {one.source: f"{one.source} {' '.join(str(join) for join in joins if join.stream == one.source)}"
             for one in streams}  # fmt: skip
    for one in streams:
        if apart and one.source in {join.stream for join in joins}:
            one.set("called", exp.to_identifier(one.alias, quoted=True))
            one.set("reads", exp.to_identifier(names[one.source], quoted=True))
    yield from (replace(join, read_as=names[join.stream]) if apart else join for join in joins)


def _checked(one: Stream, select: Select, streams: list[Stream], relations: Collection[str]) -> StaticJoin:
    """What a join with a static relation says; refused where it is another one than is offered."""
    what = f"{one.alias} is a static relation"
    if one is select.streams[0] or one.join not in ("JOIN", "LEFT JOIN"):
        raise refused(one, f"{what}, and stands behind JOIN or LEFT JOIN of a stream, {_EXAMPLE}")
    if one.window is not None:
        raise refused(one.window, f"{what}, and has no event times; leave out the window")
    nullable = any(stream.kind in (JoinKind.RIGHT, JoinKind.FULL) for stream in select.streams)
    if nullable and one.join == "JOIN":
        raise refused(one, f"{what}; beside RIGHT and FULL joins write LEFT JOIN {one.alias}")
    if one.on is None:
        raise refused(one, f"{what}; write ON, {_EXAMPLE}")
    of: set[int] = set()
    keys = []
    inner = unwrapped(one.on)
    for condition in flattened(inner) if isinstance(inner, exp.And) else [inner]:
        sides = _sides(unwrapped(condition), one, streams)
        if sides is None:
            message = f"{what}, and is looked up by columns of one stream, {_EXAMPLE}; write other conditions in WHERE"
            raise refused(condition, message)
        of.add(sides[0])
        keys.append(sides[1])
    if len(of) > 1:
        raise refused(one.on, f"{what}, and is looked up by columns of one stream, {_EXAMPLE}")
    stream = streams[of.pop()]
    if stream.query is not None:
        raise refused(one, f"{what}, and is joined with a stream, not with a sub-query; join it inside of that")
    return StaticJoin(stream.source, matching(one.source, relations)[0], one.alias, tuple(keys))


def _sides(condition: exp.Expr, one: Stream, streams: list[Stream]) -> tuple[int, tuple[str, str]] | None:
    """Of an equality the place of the stream, its column, and that of the relation."""
    if not isinstance(condition, exp.EQ):
        return None
    named = [_column(side) for side in (condition.this, condition.expression)]
    for mine, other in (named, named[::-1]):
        if mine is None or other is None or not matching(other[0], [one.alias]):
            continue
        found = matching(mine[0], [stream.alias for stream in streams])
        if len(found) == 1:
            place = next(at for at, stream in enumerate(streams) if stream.alias == found[0])
            return place, (mine[1], other[1])
    return None


def _column(node: exp.Expr) -> tuple[str, str] | None:
    """A column as alias and name."""
    node = unwrapped(node)
    parts = [part.name for part in node.parts] if isinstance(node, exp.Column) else []
    return (parts[0], parts[1]) if len(parts) == 2 else None


def _is_there(alias: str, key: str) -> exp.Expr:
    column = exp.Column(this=exp.to_identifier(key, quoted=True), table=exp.to_identifier(alias, quoted=True))
    return exp.Not(this=exp.Is(this=column, expression=exp.Null()))
