"""Landmark windows: `[START WHEN condition END WHEN condition]`, or without an end and with SLIDE.

Invariant: both conditions read the stream the window stands after, and nothing else; every token inside of the brackets
belongs to one of the parts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from slackwater.language.bound import LandmarkWindow, StreamRef
from slackwater.language.scalars import Scalars
from slackwater.language.scope import Scope
from slackwater.language.syntax import read_expression
from slackwater.language.tokens import Cursor, word

_OPENING, _CLOSING = ("(", "[", "CASE"), (")", "]", "END")


@dataclass(frozen=True)
class Landmarks:
    """A landmark window as written, and where it stands."""

    start: exp.Expr
    end: exp.Expr | None
    slide: int | None
    place: tuple[int, int]


def begins_landmarks(cursor: Cursor) -> bool:
    """Whether a landmark window comes next, behind its bracket."""
    return cursor.word() == "START" and cursor.word(1) == "WHEN"


def read_condition(cursor: Cursor, what: str) -> exp.Expr:
    """The condition after WHEN, up to the next part of the window.

    >>> read_condition(Cursor("v > CASE WHEN ok THEN 1 END END WHEN ok]"), "START").sql()
    'v > CASE WHEN ok THEN 1 END'
    """
    tokens: list[Token] = []
    depth = 0
    while (token := cursor.peek()) is not None:
        here = word(token)
        after = cursor.peek(1)
        slides = here == "SLIDE" and after is not None and after.token_type in (TokenType.NUMBER, TokenType.STRING)
        if depth == 0 and (here in ("]", "END") or slides):
            break
        depth += (here in _OPENING) - (here in _CLOSING)
        tokens.append(cursor.take())
    if not tokens:
        cursor.fail(f"{what} WHEN needs a condition, as in {what} WHEN kind = 'begin'")
    return read_expression(tokens, cursor.text)


def bind_landmarks(stream: StreamRef, window: Landmarks, text: str) -> StreamRef:
    """The stream with its landmark window, its columns resolved."""
    scope = Scope(text, (stream,))
    start = Scalars(scope, "START WHEN").condition(window.start)
    end = None if window.end is None else Scalars(scope, "END WHEN").condition(window.end)
    return replace(stream, window=LandmarkWindow(start, end, window.slide))
