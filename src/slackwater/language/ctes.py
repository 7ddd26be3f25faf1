"""Named sub-queries: `WITH name AS (SELECT ...)` before the query that reads them.

Invariant: a name stands for what is in its parentheses, as if that were written where the name is read; read twice, it
is two operators. It is known after its closing parenthesis, so no query reads itself. What no query reads is refused,
for nobody would look at it.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot.tokenizer_core import Token

from slackwater.core.errors import QueryError
from slackwater.language.parsed import ParsedQuery
from slackwater.language.scope import matching
from slackwater.language.tokens import Cursor, is_name

MOST_NESTED = 8
"""How deep queries may stand in each other."""
MOST_INPUTS = 32
"""Streams that a query reads in all, sub-queries included."""


def begins_named(cursor: Cursor) -> bool:
    """Whether a named sub-query comes next, and not how long to wait."""
    return cursor.word() == "WITH" and is_name(cursor.peek(1)) and cursor.word(2) in ("AS", "(")


def read_named(cursor: Cursor, inside: Callable[[Cursor], ParsedQuery]) -> None:
    """All named sub-queries that come next; `inside` reads what stands in parentheses. The cursor remembers them."""
    if not begins_named(cursor):
        return
    cursor.take()
    while True:
        name = cursor.name("the name of a sub-query")
        if not cursor.accept("AS"):
            cursor.fail("expected AS and a query in parentheses here; its columns are named in its SELECT list")
        if matching(name.text, cursor.named):
            cursor.fail(f"there is a sub-query '{name.text}' already; call this one otherwise", name)
        if cursor.word() != "(" or cursor.word(1) != "SELECT":
            cursor.fail("expected a query in parentheses here, as in WITH j AS (SELECT v FROM s)")
        query = inside(cursor)
        cursor.named[name.text] = query, name
        # Those it reads are known, so this goes no deeper than the query itself.
        _check_extent(cursor, query, as_name=True)
        if not cursor.accept(","):
            return


def named_query(cursor: Cursor, name: str) -> ParsedQuery | None:
    """The sub-query that a name in FROM stands for, if it does."""
    found = matching(name, cursor.named)
    if len(found) != 1:
        return None
    cursor.read.add(found[0])
    query: ParsedQuery = cursor.named[found[0]][0]
    return query


def check_named(cursor: Cursor, query: ParsedQuery) -> None:
    """Refuse names that nothing reads, and what becomes too deep or too much where names stand for queries."""
    for name, (_, token) in cursor.named.items():
        if name not in cursor.read:
            cursor.fail(f"no query reads '{name}'; leave it out", token)
    if cursor.named:
        _check_extent(cursor, query)


def _check_extent(cursor: Cursor, query: ParsedQuery, as_name: bool = False) -> None:
    """Refuse what is too deep or too much; what stands for a name is at least one deeper where the name is read."""
    first: Token = next(iter(cursor.named.values()))[1]
    deep, streams = _extent(query, cursor.extents)
    deep += as_name
    if deep > MOST_NESTED + 1:
        cursor.fail(f"queries may stand {MOST_NESTED} deep in each other, and with these names it is {deep - 1}", first)
    if streams > MOST_INPUTS:
        message = f"a query reads at most {MOST_INPUTS} streams in all, and with these names it is {streams}"
        raise QueryError(message, cursor.text, first.start, first.end + 1)


def _extent(query: ParsedQuery, known: dict[int, tuple[int, int]]) -> tuple[int, int]:
    """How deep a query is, and how many streams it reads; a query under several names is looked at once."""
    if id(query) not in known:
        selects = (query, *query.united)
        inside = [stream.query for select in selects for stream in select.streams]
        inside += [member for select in selects for member in select.members]
        below = [(0, 1) if one is None else _extent(one, known) for one in inside]
        known[id(query)] = 1 + max(deep for deep, _ in below), sum(streams for _, streams in below)
    return known[id(query)]
