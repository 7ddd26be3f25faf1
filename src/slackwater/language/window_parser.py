"""Reads what is said about windows: those in brackets behind a stream, and those between streams.

Invariant: what comes out is a node with values of the model in microseconds and tuples, checked for its range; what is
wrong is refused at the token that is wrong.

References: 001 §2.2, §2.3; 002 §1, §5.2.1.
"""

from __future__ import annotations

from typing import TypeVar

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from slackwater.core.errors import QueryError
from slackwater.core.time import parse_duration
from slackwater.language import unsupported
from slackwater.language.expression_parser import ExpressionParser
from slackwater.language.nodes import (
    Clause,
    Filling,
    Landmarks,
    MatchTime,
    Rate,
    Sessions,
    Window,
    WindowForAll,
    WindowPath,
    put,
    why_no_step,
)
from slackwater.language.tokens import is_name

MOST_ROWS = 100_000_000
"""A window that counts is kept in memory; more tuples than these are a mistake."""
WINDOW_WORDS = frozenset(("WINDOW", "DWINDOW", "PATH"))
_PAIR = "the two streams it is between, as in WINDOW (a, b) = 5 SECONDS"
_EITHER_WAY, _ONE_WAY = ("<", "-", ">"), ("-", ">")
_Node = TypeVar("_Node", bound=Clause)


class WindowParser(ExpressionParser):
    """Reads one window, from its first word on."""

    def placed(self, node: _Node, first: Token) -> _Node:
        """The node, which stands from a token to the last that was read."""
        put(node, first.start, self._prev.end + 1)
        return node

    def next_is_constant(self, ahead: int = 0) -> bool:
        """Whether a number or a text in quotes comes next."""
        token = self.peek(ahead)
        return token is not None and token.token_type in (TokenType.NUMBER, TokenType.STRING)

    def read_duration(self, what: str) -> int:
        """A number and a unit, or both in quotes, as microseconds."""
        if not self.next_is_constant():
            self.fail(f"expected {what}, a duration such as 5 SECONDS, here")
        first = last = self.take()
        written = first.text
        if first.token_type != TokenType.STRING:
            if not is_name(self.peek()):
                self.fail(f"{what} needs a unit after {first.text}, such as SECONDS")
            last = self.take()
            written = f"{first.text} {last.text}"
        try:
            return parse_duration(written)
        except ValueError as error:
            raise QueryError(str(error), self.sql, first.start, last.end + 1) from None

    def read_rows(self, what: str) -> int:
        """A number of tuples."""
        token = self.peek()
        if token is None or not token.text.isdecimal() or not 0 < int(token.text) <= MOST_ROWS:
            self.fail(f"expected {what}, a whole number of tuples from 1 to {MOST_ROWS:,}, here")
        return int(self.take().text)

    # The window in brackets behind a stream.

    def read_window(self) -> Window | Landmarks | Rate | Sessions | Filling | None:
        """The window in brackets that comes next, if one does."""
        if self.word() != "[":
            return None
        opening = self.take()
        refusal = unsupported.WINDOWS.get(self.word())
        if refusal is not None:
            self.fail(refusal)
        if self.accept("START", "WHEN"):
            return self._landmarks(opening)
        if self.accept("RATE"):
            return self._rate(opening)
        if self.accept("SESSION"):
            return self._sessions(opening)
        in_rows = self.accept("ROWS")
        if not in_rows:
            self.accept("RANGE")
        read = self.read_rows if in_rows else self.read_duration
        size, slide, slide_place = read("the size of the window"), None, None
        if not in_rows and self.accept("CUMULATE"):
            return self._filling(size, opening)
        if self.accept("SLIDE"):
            start = self._prev.start
            slide = read("the slide of the window")
            slide_place = start, self._prev.end + 1
        refusal = unsupported.WINDOWS.get(self.word())
        if refusal is not None:
            self.fail(refusal)
        if not self.accept("]"):
            self.fail(f"expected SLIDE and {'a number of tuples' if in_rows else 'a duration'}, or ']', here")
        window = self.placed(Window(range=size, slide=slide, in_rows=in_rows), opening)
        window.meta["slide"] = slide_place
        return window

    def _rate(self, opening: Token) -> Rate:
        token = self.peek()
        interval = self.read_duration("the interval that the window holds")
        if interval <= 0:
            self.fail("the interval of RATE must be longer than nothing", token)
        by_arrival = self.accept("BY")
        if by_arrival and not self.accept("ARRIVAL"):
            self.fail("expected ARRIVAL here, as in [RATE 10 SECONDS BY ARRIVAL]")
        if self.word() == "SLIDE":
            self.fail("SLIDE belongs to aggregates; a window that follows a rate moves with every tuple")
        if not self.accept("]"):
            self.fail("expected BY ARRIVAL or ']' here")
        return self.placed(Rate(interval=interval, by_arrival=by_arrival), opening)

    def _filling(self, size: int, opening: Token) -> Filling:
        first = self.peek()
        step = self.read_duration("the step in which the window is filled")
        why = why_no_step(step, size)
        if why is not None:
            self.fail(why, first)
        if not self.accept("]"):
            self.fail("expected ']' here, as in [RANGE 1 DAY CUMULATE 1 HOUR]")
        return self.placed(Filling(range=size, step=step), opening)

    def _sessions(self, opening: Token) -> Sessions:
        gap, most = self.read_gap(), None
        if self.accept("AT"):
            if not self.accept("MOST"):
                self.fail("expected MOST and a duration here, as in [SESSION 30 MINUTES AT MOST 6 HOURS]")
            length = self.peek()
            most = self.read_duration("how long a session may be")
            if most < gap:
                self.fail(
                    "AT MOST must be at least as long as the gap: a session of one tuple lasts for the gap", length
                )
        if not self.accept("]"):
            self.fail("expected AT MOST and a duration, or ']', here")
        return self.placed(Sessions(gap=gap, most=most), opening)

    def read_gap(self) -> int:
        """How far apart the tuples of a session may be."""
        first = self.peek()
        gap = self.read_duration("the gap between sessions")
        if gap <= 0:
            self.fail("the gap between sessions must be longer than nothing", first)
        return gap

    def _landmarks(self, opening: Token) -> Landmarks:
        start, end, slide = self._landmark("START"), None, None
        if self.accept("END"):
            if not self.accept("WHEN"):
                self.fail("expected WHEN and a condition here, as in END WHEN kind = 'end'")
            end = self._landmark("END")
        token = self.peek()
        if self.accept("SLIDE"):
            slide = self.read_duration("the slide of the window")
            if end is not None:
                self.fail(
                    "SLIDE is for a window without END, which would never answer; one with END answers there", token
                )
            if slide <= 0:
                self.fail("SLIDE must be longer than nothing", token)
        closing = self.peek()
        if not self.accept("]"):
            self.fail("expected ']' here")
        if end is None and slide is None:
            self.fail(
                "a window without END never closes; add END WHEN and a condition, or SLIDE and a duration for an answer"
                " so often",
                closing,
            )
        return self.placed(Landmarks(start=start, end=end, slide=slide), opening)

    def _landmark(self, what: str) -> exp.Expr:
        """The condition after WHEN, up to the next part of the window; END may also close a CASE."""
        stop, depth = self._index, 0
        while stop < self._tokens_size:
            here = self.word(stop - self._index)
            slides = here == "SLIDE" and self.next_is_constant(stop + 1 - self._index)
            if depth == 0 and (here in ("]", "END") or slides):
                break
            depth += (here in ("(", "[", "CASE")) - (here in (")", "]", "END"))
            stop += 1
        if stop == self._index:
            self.fail(f"{what} WHEN needs a condition, as in {what} WHEN kind = 'begin'")
        return self.read_expression(stop)

    # Windows between streams.

    def begins_window_clause(self) -> bool:
        """Whether what comes next is a window clause, and not a stream's other name."""
        first = self.word()
        if first == "PATH":
            return is_name(self.peek(1)) and self.word(2) in ("-", "<", "WITHIN")
        return first == "WINDOW" or (first == "DWINDOW" and self.word(1) == "(")

    def begins_match(self) -> bool:
        """Whether MATCH TIME comes next, and not a stream's other name."""
        return self.word() == "MATCH" and self.word(1) == "TIME"

    def read_window_clauses(self) -> list[WindowForAll | WindowPath]:
        """All window clauses that come next, with AND between them or not."""
        clauses: list[WindowForAll | WindowPath] = []
        while self.begins_window_clause():
            clauses += self._window_clause(self.take())
            if self.accept("AND") and not self.begins_window_clause():
                self.fail("expected another WINDOW, DWINDOW or PATH after AND; conditions stand after WHERE")
        return clauses

    def _window_clause(self, first: Token) -> list[WindowForAll | WindowPath]:
        kind = first.text.upper()
        if kind == "PATH":
            return [self._path(first)]
        if kind == "WINDOW" and self.word() != "(":
            if is_name(self.peek()):
                self.fail("a named window is not offered; put the window in FROM, as in s [RANGE 1 MINUTE]", first)
            self.accept("=")
            size = self.read_duration("the window")
            slide = self.read_duration("the slide of the window") if self.accept("SLIDE") else None
            return [self.placed(WindowForAll(size=size, slide=slide), first)]
        pairs: list[WindowForAll | WindowPath] = [self._pair(first, kind == "DWINDOW")]
        while self.word() == "AND" and self.word(1) == "(":
            self.take()
            pairs.append(self._pair(self._curr, kind == "DWINDOW"))
        return pairs

    def _pair(self, first: Token, ordered: bool) -> WindowPath:
        if not self.accept("("):
            self.fail(f"expected {_PAIR}")
        streams = [self.name("the name of a stream of FROM")]
        if not self.accept(","):
            self.fail(f"expected ',' and {_PAIR}")
        streams.append(self.name("the name of a stream of FROM"))
        if not self.accept(")"):
            self.fail(
                "expected ')' here; a window is between two streams, and may be stated for several pairs with AND"
            )
        self.accept("=")
        sizes = [self.read_duration("the window")]
        return self.placed(WindowPath(streams=streams, sizes=sizes, ordered=ordered, reversible=False), first)

    def _path(self, first: Token) -> WindowPath:
        streams = [self.name("the name of a stream of FROM")]
        either = self.word() == "<"
        arrow = _EITHER_WAY if either else _ONE_WAY
        while self.word() in ("<", "-"):
            if not self.accept(*arrow):
                self.fail(f"expected {''.join(arrow)} here; the arrows of a path are all -> or all <->")
            streams.append(self.name("the name of a stream of FROM"))
        if len(streams) == 1:
            self.fail("a path leads from stream to stream, as in PATH a -> b -> c WITHIN (5 SECONDS, 3 SECONDS)")
        if not self.accept("WITHIN"):
            self.fail("expected an arrow, or WITHIN and the windows between the streams of the path, here")
        sizes = self._sizes(len(streams) - 1)
        return self.placed(WindowPath(streams=streams, sizes=sizes, ordered=True, reversible=either), first)

    def _sizes(self, wanted: int) -> list[int]:
        first = self.peek()
        if not self.accept("("):
            return [self.read_duration("the window")] * wanted
        sizes = [self.read_duration("the window")]
        while self.accept(","):
            sizes.append(self.read_duration("the window"))
        if not self.accept(")"):
            self.fail("expected ',' or ')' here")
        if len(sizes) not in (1, wanted):
            self.fail(f"this path has {wanted} steps; write as many windows, or one for all, not {len(sizes)}", first)
        return sizes if len(sizes) == wanted else sizes * wanted

    def read_match(self) -> MatchTime:
        """MATCH TIME, which comes next."""
        first = self.take()
        self.take()
        within = self.read_duration("how far apart members may be") if self.accept("WITHIN") else None
        return self.placed(MatchTime(within=within), first)
