"""ISTREAM, DSTREAM and RSTREAM: how the results of a query leave.

Invariant: whatever is said behind SELECT is done or refused; ISTREAM is what a query without a word does.
"""

from __future__ import annotations

from sqlglot.tokenizer_core import Token, TokenType

from slackwater.core.errors import QueryError
from slackwater.core.quality import Quality, Recall, RelativeError
from slackwater.core.results import AS_MADE, DSTREAM, ISTREAM, RSTREAM, Out
from slackwater.language.bound import StreamRef
from slackwater.language.clauses import read_duration
from slackwater.language.tokens import Cursor, is_name

WORDS = (ISTREAM, DSTREAM, RSTREAM)
Place = tuple[int, int]


def read_relation_to_stream(cursor: Cursor) -> tuple[Out, Place]:
    """The way out, if one is named behind SELECT, and where it stands.

    >>> read_relation_to_stream(Cursor("RSTREAM EVERY 1 SECOND a.v FROM a"))[0]
    Out(kind='RSTREAM', every=1000000)
    >>> read_relation_to_stream(Cursor("istream FROM a"))[0].kind
    'ISTREAM'
    """
    token, after = cursor.peek(), cursor.peek(1)
    # A column may be called so: what follows it then is a comma, an operator or FROM.
    follows = _is_constant(after) or is_name(after) or cursor.word(1) in ("*", "(", "CASE", "NOT")
    if token is None or cursor.word() not in WORDS or not follows or cursor.word(1) in ("AS", "FROM"):
        return AS_MADE, (0, 0)
    kind, every = cursor.take().text.upper(), None
    if cursor.word() == "EVERY" and _is_constant(cursor.peek(1)):
        cursor.take()
        every = read_duration(cursor, "the period of EVERY")
    place = token.start, cursor.tokens[cursor.index - 1].end + 1
    if every is not None and kind != RSTREAM:
        raise QueryError(f"EVERY belongs to RSTREAM; {kind} has its own moments", cursor.text, *place)
    if every is not None and every <= 0:
        raise QueryError("the period of EVERY must be longer than nothing", cursor.text, *place)
    return Out(kind, every), place


def _is_constant(token: Token | None) -> bool:
    return token is not None and token.token_type in (TokenType.NUMBER, TokenType.STRING)


def check_relation_to_stream(
    out: Out, place: Place, streams: tuple[StreamRef, ...], aggregation: bool, paired: bool, quality: Quality, text: str
) -> None:
    """Refuse a way out that the windows or the target of a query do not go with."""
    why = _refusal(out, streams, aggregation, paired, quality)
    if why is not None:
        raise QueryError(why, text, *place)


def _refusal(out: Out, streams: tuple[StreamRef, ...], aggregation: bool, paired: bool, quality: Quality) -> str | None:
    kind = out.kind
    if kind == ISTREAM or (aggregation and kind == RSTREAM and out.every is None):
        return None
    if aggregation and out.every is not None:
        return "EVERY is for joins; the answers of an aggregate come with its windows, as SLIDE says"
    if kind == RSTREAM and out.every is None:
        return "RSTREAM gives all results in force again and again; say how often, as in RSTREAM EVERY 1 SECOND"
    if isinstance(quality, Recall | RelativeError):
        return f"RECALL and ERROR are about results when they are made; with {kind} write DELAY, COMPLETE or NO WAIT"
    if paired:
        return f"{kind} needs one window for each stream; windows between streams do not say when a result ends"
    for stream in streams:
        if stream.window is not None:
            return f"{kind} needs windows of time, to know when a result ends; stream {stream.alias} has another one"
        if stream.range is None:
            return f"{kind} needs a window, to know when a result ends, as in {stream.alias} [RANGE 5 SECONDS]"
    return None
