"""Query text as its clauses, before any name is resolved.

Invariant: every token of the text belongs to exactly one clause, or the query is refused; nothing is skipped over.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import NoReturn

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from slackwater.core.errors import QueryError
from slackwater.core.options import Options
from slackwater.core.quality import Quality
from slackwater.language import unsupported
from slackwater.language.clauses import read_options, read_quality, read_window
from slackwater.language.ctes import MOST_NESTED, check_named, named_query, read_named
from slackwater.language.kinds import KINDS
from slackwater.language.parsed import EXPLAIN_AS, ParsedItem, ParsedQuery, ParsedStream, query_column
from slackwater.language.relation_to_stream import read_relation_to_stream
from slackwater.language.syntax import read_expression
from slackwater.language.tokens import Cursor, is_name, split_at_commas, word
from slackwater.language.window_clauses import (
    WINDOW_WORDS,
    MatchTime,
    WindowClause,
    begins_match,
    begins_window_clause,
    read_match,
    read_window_clauses,
)

_HARD = frozenset(("FROM", "WHERE", "WITH", "GROUP BY", "ORDER BY"))
_SOFT = unsupported.CLAUSE_WORDS | WINDOW_WORDS | {"HAVING", "OPTIONS", "MATCH"}
_JOINS = frozenset(("JOIN", "INNER", "CROSS"))
_TARGETS = frozenset(("COMPLETE", "NO", "DELAY", "RECALL", "ERROR"))
_WINDOW_WORDS = frozenset(("RANGE", "SLIDE", "ROWS"))
_SECOND = (
    "one query at a time; this is the beginning of a second. A file of several queries gives each of them a name:"
    " CREATE QUERY name AS SELECT ..."
)
_OF_A_FILE = "CREATE QUERY names a query in a file of queries; one query by itself begins with SELECT"
_NOT_AN_ALIAS = (
    (_SOFT - WINDOW_WORDS - {"MATCH"})
    | _JOINS
    | _TARGETS
    | _WINDOW_WORDS
    | {"FROM", "WHERE", "WITH", "GROUP", "BY", "ON"}
)


def parse(text: str) -> ParsedQuery:
    """Take a query apart into its clauses.

    >>> query = parse("SELECT a.v FROM a [5 SEC], b [5 SEC] WHERE a.k = b.k WITH NO WAIT")
    >>> [stream.window.range for stream in query.streams], str(query.quality)
    ([5000000, 5000000], 'NO WAIT')
    """
    cursor = Cursor(text)
    explain = _explain(cursor)
    read_named(cursor, _inside)
    query = _query(cursor)
    check_named(cursor, query)
    quality: Quality | None = None
    start = cursor.peek()
    if cursor.accept("WITH"):
        quality = read_quality(cursor)
    place = (start.start, cursor.tokens[cursor.index - 1].end + 1) if start is not None else (0, 0)
    options, places = read_options(cursor) if cursor.accept("OPTIONS") else (Options(), {})
    _end(cursor)
    stated = replace(query, explain=explain, quality=quality, quality_place=place)
    return replace(stated, options=options, option_places=places)


def _explain(cursor: Cursor) -> str | None:
    """EXPLAIN, or EXPLAIN (FORMAT name), in front of the query; None where the results are asked for.

    >>> _explain(Cursor("EXPLAIN SELECT v FROM a")), _explain(Cursor("EXPLAIN (FORMAT JSON) SELECT v FROM a"))
    ('TEXT', 'JSON')
    """
    if not cursor.accept("EXPLAIN"):
        return None
    if not cursor.accept("(", "FORMAT"):
        return EXPLAIN_AS[0]
    form = cursor.word()
    if form not in EXPLAIN_AS:
        cursor.fail(f"EXPLAIN has the formats {' and '.join(EXPLAIN_AS)}")
    cursor.take()
    if not cursor.accept(")"):
        cursor.fail("expected ) here, as in EXPLAIN (FORMAT JSON) SELECT ...")
    return form


def sources_of(text: str) -> tuple[str, ...]:
    """The sources a query reads as it spells them, each once, in the order of the text.

    >>> sources_of("SELECT x.v FROM trades x [5 s], (SELECT v FROM quotes) y [5 s], trades z [5 s]")
    ('trades', 'quotes')
    """
    return tuple(places_of_sources(text))


def places_of_sources(text: str) -> dict[str, tuple[int, int]]:
    """The same, each with the place where the text names it first.

    >>> places_of_sources("SELECT x.v FROM trades x [5 s], trades z [5 s]")
    {'trades': (16, 22)}
    """
    found: dict[str, tuple[int, int]] = {}
    for stream in _raw_streams(parse(text)):
        found.setdefault(stream.source, stream.place)
    return found


def _raw_streams(query: ParsedQuery) -> Iterator[ParsedStream]:
    for select in (query, *query.united):
        for stream in select.streams:
            yield from [stream] if stream.query is None else _raw_streams(stream.query)
        for member in select.members:
            yield from _raw_streams(member)


def _query(cursor: Cursor) -> ParsedQuery:
    """SELECTs with UNION ALL between them."""
    first = _select(cursor)
    united = []
    while cursor.word() == "UNION":
        if not cursor.accept("UNION", "ALL"):
            cursor.fail(unsupported.clause("UNION") or "")
        united.append(_select(cursor))
    return replace(first, united=tuple(united))


def _select(cursor: Cursor) -> ParsedQuery:
    start = cursor.peek()
    kind, kind_place = _begin(cursor)
    out, out_place = read_relation_to_stream(cursor)
    items = _items(cursor)
    if not cursor.accept("FROM"):
        cursor.fail("expected FROM and the streams to read here")
    members: list[ParsedQuery] = []
    streams, conditions = _from(cursor, members)
    windows, match = _between(cursor)
    if cursor.accept("WHERE"):
        conditions.append(_condition(cursor, "WHERE", commas=False, members=members))
        more, again = _between(cursor, match)
        windows, match = windows + more, match or again
    groups = _groups(cursor) if cursor.accept("GROUP", "BY") else None
    having = _condition(cursor, "HAVING", commas=False) if cursor.accept("HAVING") else None
    assert start is not None, "a query that begins with nothing"
    place = start.start, cursor.tokens[cursor.index - 1].end + 1
    return ParsedQuery(
        cursor.text, place, items, tuple(streams), tuple(conditions), tuple(windows), groups, having, tuple(members),
        out=out, out_place=out_place, match=match, kind=kind, kind_place=kind_place,
    )  # fmt: skip


def _between(cursor: Cursor, known: MatchTime | None = None) -> tuple[list[WindowClause], MatchTime | None]:
    """What is said about time between streams: window clauses and MATCH TIME, which stands once."""
    windows, match = read_window_clauses(cursor), None
    while begins_match(cursor):
        if known is not None or match is not None:
            cursor.fail("MATCH TIME stands here already; it is said once")
        match = read_match(cursor)
        windows += read_window_clauses(cursor)
    return windows, match


def _begin(cursor: Cursor) -> tuple[str, tuple[int, int]]:
    """SELECT; returns the word behind it that names a kind of query, and its place."""
    if cursor.word() == "WITH":
        cursor.fail("a query begins with SELECT; WITH name AS (SELECT ...) stands once, before the whole query")
    if cursor.word() == "CREATE":
        cursor.fail(_OF_A_FILE)
    if not cursor.accept("SELECT"):
        cursor.fail(unsupported.clause(cursor.word()) or "a query begins with SELECT, or with EXPLAIN SELECT")
    token = cursor.peek()
    found = next((kind for kind in KINDS if cursor.accept(kind)), "")
    return found, (token.start, token.end + 1) if token is not None and found else (0, 0)


def _items(cursor: Cursor) -> tuple[ParsedItem, ...]:
    return tuple(_item(cursor.text, tokens) for tokens in _list(cursor, "SELECT needs columns to return", ()))


def _item(text: str, tokens: list[Token]) -> ParsedItem:
    node = read_expression(tokens, text, aliased=True)
    place = tokens[0].start, tokens[-1].end + 1
    if not isinstance(node, exp.Alias):
        return ParsedItem(node, None, place)
    named = len(tokens) > 2 and tokens[-2].text.upper() == "AS"
    if isinstance(node.this, exp.Literal) and not named:
        raise QueryError("write AS before the name of a constant", text, tokens[-1].start, place[1])
    return ParsedItem(node.this, node.alias, place)


def _list(cursor: Cursor, nothing: str, soft: tuple[str, ...]) -> list[list[Token]]:
    """Comma-separated items up to the next clause."""
    items = split_at_commas(cursor.until(_HARD, soft))
    if not items[-1]:
        cursor.fail(nothing if len(items) == 1 else "something is missing after the last comma")
    for item, following in pairwise(items):
        if not item:
            cursor.fail("something is missing before this item", following[0] if following else None)
    return items


def _from(cursor: Cursor, members: list[ParsedQuery]) -> tuple[list[ParsedStream], list[exp.Expr]]:
    streams, conditions = [_stream(cursor)], []
    while True:
        if cursor.accept(","):
            streams.append(_stream(cursor))
        elif cursor.accept("CROSS", "JOIN"):
            streams.append(_stream(cursor))
            if cursor.word() == "ON":
                cursor.fail("CROSS JOIN takes no ON; write JOIN ... ON")
        elif cursor.accept("JOIN") or cursor.accept("INNER", "JOIN"):
            streams.append(_stream(cursor))
            if not cursor.accept("ON"):
                cursor.fail(unsupported.clause(cursor.word()) or "JOIN needs a condition: ON, as in ON a.key = b.key")
            conditions.append(_condition(cursor, "ON", commas=True, members=members))
        else:
            return streams, conditions


def _stream(cursor: Cursor) -> ParsedStream:
    if cursor.word() == "(":
        return _subquery(cursor)
    if cursor.word() in ("LATERAL", "UNNEST") and is_name(cursor.peek(1)) | (cursor.word(1) == "("):
        cursor.fail(unsupported.clause("LATERAL") or "")
    token = cursor.name("the name of a stream")
    if cursor.word() == ".":
        cursor.fail("a stream's name has one part; put it in quotes if it has a dot in it")
    if cursor.word() == "(":
        cursor.fail(unsupported.function("window") or "")
    query = named_query(cursor, token.text)
    alias = _alias(cursor)
    window = read_window(cursor)
    if alias is None and window is not None:
        alias = _alias(cursor)
    shown = alias or token
    place, alias_place = (token.start, token.end + 1), (shown.start, shown.end + 1)
    return ParsedStream(token.text if query is None else "", shown.text, window, place, alias_place, query)


def _subquery(cursor: Cursor) -> ParsedStream:
    opening = cursor.peek()
    query = _inside(cursor)
    closing = cursor.tokens[cursor.index - 1]
    alias = _alias(cursor)
    window = read_window(cursor)
    if alias is None and window is not None:
        alias = _alias(cursor)
    if alias is None:
        cursor.fail("a sub-query needs a name, as in (SELECT v FROM s) j")
    assert opening is not None, "a parenthesis was seen here"
    place = (opening.start, closing.end + 1)
    return ParsedStream("", alias.text, window, place, (alias.start, alias.end + 1), query)


def _inside(cursor: Cursor) -> ParsedQuery:
    """A query in parentheses."""
    opening = cursor.take()
    if cursor.word() != "SELECT":
        cursor.fail("in parentheses FROM takes a query, as in FROM (SELECT v FROM s) j")
    if cursor.inside == MOST_NESTED:
        cursor.fail(f"queries may stand {MOST_NESTED} deep in each other, and this is one more", opening)
    cursor.inside += 1
    query = _query(cursor)
    if cursor.word() in ("WITH", "OPTIONS"):
        cursor.fail(f"{cursor.word()} stands once, at the end of the whole query: one slack serves all of it")
    if not cursor.accept(")"):
        _refuse_rest(cursor, "expected ')' and a name for the sub-query here")
    cursor.inside -= 1
    return query


def _alias(cursor: Cursor) -> Token | None:
    if cursor.accept("AS"):
        return cursor.name("another name for the stream")
    begins_clause = begins_window_clause(cursor) or begins_match(cursor) or _begins_rate(cursor)
    if is_name(cursor.peek()) and cursor.word() not in _NOT_AN_ALIAS and not begins_clause:
        return cursor.take()
    return None


def _begins_rate(cursor: Cursor) -> bool:
    """Whether a window that follows a rate comes next without its brackets, and not a stream called so."""
    after = cursor.peek(1)
    return cursor.word() == "RATE" and after is not None and after.token_type == TokenType.NUMBER


def _condition(cursor: Cursor, clause: str, commas: bool, members: list[ParsedQuery] | None = None) -> exp.Expr:
    """A condition; the queries of its IN and EXISTS are added to `members`, where they may stand there."""
    tokens = cursor.until(_HARD | {","} if commas else _HARD, _SOFT | _JOINS)
    if not tokens:
        cursor.fail(f"{clause} needs a condition")
    for before, token, after in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if word(before) == "AND" and word(token) in WINDOW_WORDS and word(after) == "(":
            cursor.fail(f"{word(token)} is a clause of its own, not a condition; leave out AND before it", before)
    return read_expression(tokens if members is None else _without_queries(cursor, tokens, members), cursor.text)


def _without_queries(cursor: Cursor, tokens: list[Token], members: list[ParsedQuery]) -> list[Token]:
    """The tokens of a condition with a name in the place of each query behind IN and EXISTS."""
    end, found, skip = cursor.index, list[Token](), 0
    for at, token in enumerate(tokens):
        if skip:
            skip -= 1
            continue
        found.append(token)
        opens = word(token) in ("IN", "EXISTS") and [word(one) for one in tokens[at + 1 : at + 3]] == ["(", "SELECT"]
        if not opens:
            if word(token) == "SELECT":
                cursor.fail(unsupported.inside_expression("SELECT") or "", token)
            continue
        cursor.index = begin = end - len(tokens) + at + 1
        query = _inside(cursor)
        last = cursor.tokens[cursor.index - 1]
        skip = cursor.index - begin
        first = tokens[at + 2]
        name = Token(TokenType.IDENTIFIER, query_column(len(members)), first.line, first.col, first.start, last.end - 1)
        found += [tokens[at + 1], name, last]
        members.append(query)
    cursor.index = end
    return found


def _groups(cursor: Cursor) -> tuple[exp.Expr, ...]:
    return tuple(
        read_expression(tokens, cursor.text)
        for tokens in _list(cursor, "GROUP BY needs columns to group by", tuple(_SOFT))
    )


def _end(cursor: Cursor) -> None:
    cursor.accept(";")
    if cursor.peek() is None:
        return
    if cursor.tokens[cursor.index - 1].text == ";":
        cursor.fail(_SECOND)
    _refuse_rest(cursor)


def _refuse_rest(cursor: Cursor, otherwise: str | None = None) -> NoReturn:
    """Refuse what stands behind a query, with what is wrong about it."""
    known = unsupported.clause(cursor.word())
    if cursor.word() == "UNION" and cursor.word(1) == "ALL":
        known = "UNION ALL stands before WITH and OPTIONS, which are for the whole query"
    if cursor.word() in _TARGETS:
        known = f"write WITH before {cursor.word()}"
    if cursor.word() in _WINDOW_WORDS or _begins_rate(cursor):
        known = "a window stands in brackets after its stream, as in s [RANGE 5 SECONDS]"
    if begins_window_clause(cursor) or begins_match(cursor):
        known = f"{cursor.word()} cannot stand here; it stands before or after WHERE"
    if known is None and cursor.word() in ("WHERE", "GROUP", "HAVING", "WITH", "OPTIONS", "FROM", "JOIN", "ON"):
        order = "SELECT, FROM, WHERE, GROUP BY, HAVING, WITH, OPTIONS"
        known = f"{cursor.word()} cannot stand here; the order is {order}, each once"
    token = cursor.peek()
    strange = "" if token is None else f"did not expect '{cursor.text[token.start : token.end + 1]}' here"
    cursor.fail(known or otherwise or strange)
