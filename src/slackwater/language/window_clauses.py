"""WINDOW, DWINDOW, PATH and MATCH TIME: what is said about times between the streams of a join, as written.

MATCH TIME says how near in time the members of a join must be whose windows follow rates. Without WITHIN the bound is
found while the join runs: half of the larger mean interval between two tuples of a stream.

Invariant: what comes out names streams as the text does; which streams these are, and whether the windows agree with
each other, is asked when the query is bound.

References: 002 §1, §5.2.1; 001 §2.2, §2.3.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot.tokenizer_core import Token

from slackwater.language.clauses import read_duration
from slackwater.language.tokens import Cursor, is_name

WINDOW_WORDS = frozenset(("WINDOW", "DWINDOW", "PATH"))
_EITHER_WAY, _ONE_WAY = ("<", "-", ">"), ("-", ">")
_PAIR = "the two streams it is between, as in WINDOW (a, b) = 5 SECONDS"


@dataclass(frozen=True)
class StreamName:
    """A stream as a clause names it."""

    text: str
    place: tuple[int, int]


@dataclass(frozen=True)
class WindowForAll:
    """`WINDOW = size`: all streams within it of each other. `SLIDE` is for an aggregate above the join."""

    size: int
    place: tuple[int, int]
    slide: int | None = None


@dataclass(frozen=True)
class WindowPath:
    """`PATH a -> b -> c WITHIN (...)`; a pair, `DWINDOW (a, b)` or `WINDOW (a, b)`, is a path of two streams.

    `ordered`: each stream comes with or after the one before it. `reversible`: or all of them in the opposite order.
    """

    streams: tuple[StreamName, ...]
    sizes: tuple[int, ...]
    ordered: bool
    reversible: bool
    place: tuple[int, int]


WindowClause = WindowForAll | WindowPath


def begins_window_clause(cursor: Cursor) -> bool:
    """Whether what comes next is a window clause, and not a stream's other name."""
    first = cursor.word()
    if first == "PATH":
        return is_name(cursor.peek(1)) and cursor.word(2) in ("-", "<", "WITHIN")
    return first == "WINDOW" or (first == "DWINDOW" and cursor.word(1) == "(")


def read_window_clauses(cursor: Cursor) -> list[WindowClause]:
    """All window clauses that come next, with AND between them or not.

    >>> a, b = read_window_clauses(Cursor("WINDOW (a, b) = 5 SECONDS AND DWINDOW (b, c) 3 s"))
    >>> a.sizes, a.ordered, b.sizes, b.ordered
    ((5000000,), False, (3000000,), True)
    >>> (path,) = read_window_clauses(Cursor("PATH a <-> b <-> c WITHIN (5 s, 3 s)"))
    >>> [stream.text for stream in path.streams], path.sizes, path.reversible
    (['a', 'b', 'c'], (5000000, 3000000), True)
    """
    clauses: list[WindowClause] = []
    while begins_window_clause(cursor):
        clauses += _clause(cursor, cursor.take())
        if cursor.accept("AND") and not begins_window_clause(cursor):
            cursor.fail("expected another WINDOW, DWINDOW or PATH after AND; conditions stand after WHERE")
    return clauses


def _clause(cursor: Cursor, word: Token) -> list[WindowClause]:
    kind = word.text.upper()
    if kind == "PATH":
        return [_path(cursor, word)]
    if kind == "WINDOW" and cursor.word() != "(":
        if is_name(cursor.peek()):
            cursor.fail("a named window is not offered; put the window in FROM, as in s [RANGE 1 MINUTE]", word)
        cursor.accept("=")
        size = read_duration(cursor, "the window")
        slide = read_duration(cursor, "the slide of the window") if cursor.accept("SLIDE") else None
        return [WindowForAll(size, _since(cursor, word), slide)]
    pairs: list[WindowClause] = [_pair(cursor, word, kind == "DWINDOW")]
    while cursor.word() == "AND" and cursor.word(1) == "(":
        cursor.take()
        opening = cursor.peek()
        assert opening is not None, "a parenthesis was seen here"
        pairs.append(_pair(cursor, opening, kind == "DWINDOW"))
    return pairs


def _pair(cursor: Cursor, first: Token, ordered: bool) -> WindowPath:
    if not cursor.accept("("):
        cursor.fail(f"expected {_PAIR}")
    streams = [_stream(cursor)]
    if not cursor.accept(","):
        cursor.fail(f"expected ',' and {_PAIR}")
    streams.append(_stream(cursor))
    if not cursor.accept(")"):
        cursor.fail("expected ')' here; a window is between two streams, and may be stated for several pairs with AND")
    cursor.accept("=")
    size = read_duration(cursor, "the window")
    return WindowPath(tuple(streams), (size,), ordered, False, _since(cursor, first))


def _path(cursor: Cursor, word: Token) -> WindowPath:
    streams = [_stream(cursor)]
    either = cursor.word() == "<"
    arrow = _EITHER_WAY if either else _ONE_WAY
    while cursor.word() in ("<", "-"):
        if not cursor.accept(*arrow):
            cursor.fail(f"expected {''.join(arrow)} here; the arrows of a path are all -> or all <->")
        streams.append(_stream(cursor))
    if len(streams) == 1:
        cursor.fail("a path leads from stream to stream, as in PATH a -> b -> c WITHIN (5 SECONDS, 3 SECONDS)")
    if not cursor.accept("WITHIN"):
        cursor.fail("expected an arrow, or WITHIN and the windows between the streams of the path, here")
    sizes = _sizes(cursor, len(streams) - 1)
    return WindowPath(tuple(streams), sizes, True, either, _since(cursor, word))


def _sizes(cursor: Cursor, wanted: int) -> tuple[int, ...]:
    first = cursor.peek()
    if not cursor.accept("("):
        return (read_duration(cursor, "the window"),) * wanted
    sizes = [read_duration(cursor, "the window")]
    while cursor.accept(","):
        sizes.append(read_duration(cursor, "the window"))
    if not cursor.accept(")"):
        cursor.fail("expected ',' or ')' here")
    if len(sizes) not in (1, wanted):
        cursor.fail(f"this path has {wanted} steps; write as many windows, or one for all, not {len(sizes)}", first)
    return tuple(sizes) if len(sizes) == wanted else tuple(sizes) * wanted


def _stream(cursor: Cursor) -> StreamName:
    token = cursor.name("the name of a stream of FROM")
    return StreamName(token.text, (token.start, token.end + 1))


def _since(cursor: Cursor, first: Token) -> tuple[int, int]:
    return first.start, cursor.tokens[cursor.index - 1].end + 1


@dataclass(frozen=True)
class MatchTime:
    """`MATCH TIME WITHIN within`, and where it stands."""

    within: int | None
    place: tuple[int, int]


def begins_match(cursor: Cursor) -> bool:
    """Whether MATCH TIME comes next, and not a stream's other name."""
    return cursor.word() == "MATCH" and cursor.word(1) == "TIME"


def read_match(cursor: Cursor) -> MatchTime | None:
    """The clause, if it comes next.

    >>> read_match(Cursor("MATCH TIME WITHIN 5 SECONDS")).within, read_match(Cursor("MATCH TIME")).within
    (5000000, None)
    """
    if not begins_match(cursor):
        return None
    first = cursor.take()
    cursor.take()
    within = read_duration(cursor, "how far apart members may be") if cursor.accept("WITHIN") else None
    return MatchTime(within, (first.start, cursor.tokens[cursor.index - 1].end + 1))
