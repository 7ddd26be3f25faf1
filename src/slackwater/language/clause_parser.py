"""Reads the clauses SQL does not have: windows, how results leave, quality targets, options.

Invariant: what comes out is a node with values of the model in microseconds and shares, checked for its range; what is
wrong is refused at the token that is wrong.

References: 000 §1; 001 §2.2, §2.3; 002 §1, §5.2.1.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, TypeVar, get_args, get_type_hints

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from slackwater.core.emitting import EARLY, IN_ORDER, ON_ARRIVAL, Emit
from slackwater.core.errors import QueryError
from slackwater.core.options import Options, out_of_range
from slackwater.core.quality import (
    DEFAULT_CONFIDENCE,
    DEFAULT_PERIOD,
    Complete,
    Delay,
    NoWait,
    Quality,
    Recall,
    RelativeError,
    impossible_share,
)
from slackwater.core.results import DSTREAM, ISTREAM, RSTREAM, Out
from slackwater.core.time import parse_duration, unit_size
from slackwater.language import unsupported
from slackwater.language.expression_parser import ExpressionParser
from slackwater.language.nodes import (
    Clause,
    Emitted,
    Filling,
    Landmarks,
    MatchTime,
    Place,
    Rate,
    RelationToStream,
    Sessions,
    Settings,
    Target,
    Window,
    WindowForAll,
    WindowPath,
    put,
    why_no_step,
)
from slackwater.language.scope import did_you_mean, matching
from slackwater.language.tokens import is_name

MOST_ROWS = 100_000_000
"""A window that counts is kept in memory; nobody means more tuples than these."""
WINDOW_WORDS = frozenset(("WINDOW", "DWINDOW", "PATH"))
_TARGETS = "COMPLETE, NO WAIT, DELAY 2 SECONDS, RECALL 0.99 OVER 1 MINUTE or ERROR 1% CONFIDENCE 95%"
_EMITS = "EMIT IN ORDER WITH CORRECTIONS FOR 5 MINUTES, EMIT ON ARRIVAL, EMIT EARLY EVERY 10 SECONDS"
_PAIR = "the two streams it is between, as in WINDOW (a, b) = 5 SECONDS"
_EITHER_WAY, _ONE_WAY = ("<", "-", ">"), ("-", ">")
_Node = TypeVar("_Node", bound=Clause)


class ClauseParser(ExpressionParser):
    """Reads one clause, from its first word on."""

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

    # How results leave, what they are worth, and options.

    def read_relation_to_stream(self) -> RelationToStream | None:
        """The way out, if one is named behind SELECT."""
        # A column may be called so: what follows it then is a comma, an operator or FROM.
        after = self.word(1)
        follows = self.next_is_constant(1) or is_name(self.peek(1)) or after in ("*", "(", "CASE", "NOT")
        if self.word() not in (ISTREAM, DSTREAM, RSTREAM) or not follows or after in ("AS", "FROM"):
            return None
        token = self.take()
        kind, every = token.text.upper(), None
        if self.word() == "EVERY" and self.next_is_constant(1):
            self.take()
            every = self.read_duration("the period of EVERY")
        place = token.start, self._prev.end + 1
        if every is not None and kind != RSTREAM:
            raise QueryError(f"EVERY belongs to RSTREAM; {kind} has its own moments", self.sql, *place)
        if every is not None and every <= 0:
            raise QueryError("the period of EVERY must be longer than nothing", self.sql, *place)
        return self.placed(RelationToStream(out=Out(kind, every)), token)

    def read_emitted(self, first: Token) -> Emitted:
        """When results leave, after EMIT."""
        if self.accept("ON", "ARRIVAL"):
            emit = Emit(ON_ARRIVAL)
            if self._correctable(emit).corrections:
                self.fail(
                    "what leaves on arrival is not corrected; write EMIT IN ORDER WITH CORRECTIONS for that", first
                )
        elif self.accept("IN", "ORDER"):
            emit = self._correctable(Emit(IN_ORDER))
        elif self.accept("EARLY"):
            emit = self._correctable(self._early())
        else:
            raise self.error(f"EMIT needs a way to leave: {_EMITS}")
        return self.placed(Emitted(emit=emit), first)

    def _early(self) -> Emit:
        if self.accept("EVERY"):
            period = self.peek()
            every = self.read_duration("how often rows of open windows leave")
            if every <= 0:
                self.fail("the period of EVERY must be longer than nothing", period)
            return Emit(EARLY, every=every)
        if self.accept("AT"):
            if not self.accept("ERROR"):
                self.fail("expected ERROR and a share here, as in EMIT EARLY AT ERROR 5%")
            return Emit(EARLY, error=self._share("ERROR"))
        raise self.error("EMIT EARLY needs EVERY and a duration, or AT ERROR and a share, here")

    def _correctable(self, emit: Emit) -> Emit:
        """With corrections, if that comes next: WITH may also begin the target."""
        if self.word() != "WITH" or self.word(1) != "CORRECTIONS":
            return emit
        self.accept("WITH", "CORRECTIONS")
        if not self.accept("FOR"):
            return replace(emit, corrections=True)
        length = self.peek()
        correctable = self.read_duration("how long results may be corrected")
        if correctable <= 0:
            self.fail("corrections must be possible for longer than nothing; leave WITH CORRECTIONS out", length)
        return replace(emit, corrections=True, correctable=correctable)

    def read_target(self, first: Token, whole: bool = True) -> Target:
        """The target after WITH; where it is not `whole`, the period of RECALL may be left out."""
        quality = self._quality(whole)
        if self.word() == "AT":
            if isinstance(quality, Recall | RelativeError):
                self.fail("AT MOST is stated twice")
            self.fail(
                f"AT MOST bounds the slack that RECALL and ERROR look for, and {quality} looks for none; leave it out"
            )
        return self.placed(Target(quality=quality), first)

    def _quality(self, whole: bool) -> Quality:
        if self.accept("COMPLETE"):
            return Complete()
        if self.accept("NO", "WAIT"):
            return NoWait()
        if self.accept("DELAY"):
            return Delay(self.read_duration("the delay"))
        if self.accept("RECALL"):
            return self._recall(whole)
        if self.accept("ERROR"):
            return self._relative_error()
        raise self.error(f"WITH needs a target: {_TARGETS}")

    def _recall(self, whole: bool) -> Recall:
        target = self._share("RECALL")
        precision = self._share("PRECISION") if self.accept("PRECISION") else None
        at_most = self._cap()
        stated, over = self.accept("OVER"), DEFAULT_PERIOD
        if stated:
            period = self.peek()
            over = self.read_duration("the period of RECALL")
            if over <= 0:
                self.fail("the period of RECALL must be longer than nothing", period)
        elif whole:
            self.fail("RECALL needs a period to be measured over, as in RECALL 0.99 OVER 1 MINUTE")
        at_most = self._cap(at_most)
        unstated = _unstated(over=stated, at_most=at_most is not None, precision=precision is not None)
        return Recall(target, over, at_most, unstated, precision)

    def _relative_error(self) -> RelativeError:
        bound = self._share("ERROR")
        at_most, confidence, estimated = None, None, False
        # In any order, each once.
        while True:
            at_most = self._cap(at_most)
            again = self.peek()
            if self.accept("ESTIMATED"):
                if estimated:
                    self.fail("ESTIMATED is stated twice", again)
                estimated = True
            elif confidence is None and self.accept("CONFIDENCE"):
                confidence = self._share("CONFIDENCE")
            else:
                break
        unstated = _unstated(confidence=confidence is not None, at_most=at_most is not None)
        return RelativeError(bound, confidence or DEFAULT_CONFIDENCE, at_most, unstated, estimated)

    def _cap(self, known: int | None = None) -> int | None:
        """`AT MOST` and a duration, if that comes next; it may stand on either side of OVER and CONFIDENCE, once."""
        first = self.peek()
        if not self.accept("AT"):
            return known
        if not self.accept("MOST"):
            self.fail("expected MOST and a duration here, as in AT MOST 10 MINUTES")
        if known is not None:
            self.fail("AT MOST is stated twice", first)
        length = self.peek()
        at_most = self.read_duration("the most slack that may be chosen")
        if at_most <= 0:
            self.fail("AT MOST must be longer than nothing; who wants no slack at all writes WITH NO WAIT", length)
        return at_most

    def _share(self, what: str) -> float:
        first = self.peek()
        # Some write .95, which is two tokens.
        fraction = self.accept(".")
        token = self.peek()
        if token is None or token.token_type != TokenType.NUMBER or (fraction and not token.text.isdecimal()):
            self.fail(f"{what} needs a share, such as 0.99 or 99%", first)
        self.take()
        number = float(f"{'.' if fraction else ''}{token.text}")
        share = float(f"{number / 100:.15g}") if self.accept("%") else number
        why = impossible_share(what, share)
        if why is not None:
            self.fail(why, token)
        return share

    def read_settings(self) -> Settings:
        """The list after OPTIONS. Which there are, and of which type and range, `Options` says."""
        first = self._prev
        known = [field.name for field in fields(Options)]
        chosen: dict[str, Any] = {}
        places: dict[str, Place] = {}
        if not self.accept("("):
            self.fail("OPTIONS needs a list in parentheses, as in OPTIONS (initial_slack = 2 SECONDS)")
        while True:
            token = self.peek()
            given = self.name("the name of an option").name
            found = matching(given, known)
            if token is None or len(found) != 1:
                listing = f"; the options are {', '.join(known)}"
                self.fail(f"there is no option '{given}'{listing}{did_you_mean(given, known)}", token)
            name = found[0]
            if name in chosen:
                self.fail(f"option {name} is set twice", token)
            if not self.accept("="):
                self.fail(f"expected '=' and a value for {name} here")
            value = self.peek()
            chosen[name] = self._option(name)
            last = self._prev.end + 1
            places[name] = token.start, last
            wrong = None if isinstance(chosen[name], str) else out_of_range(name, chosen[name])
            if wrong is not None and value is not None:
                raise QueryError(f"option {name}: {wrong}", self.sql, value.start, last)
            if self.accept(")"):
                settings = self.placed(Settings(options=Options(**chosen)), first)
                settings.meta["options"] = places
                return settings
            if not self.accept(","):
                self.fail("expected ',' or ')' here")

    def _option(self, name: str) -> int | float | bool | str:
        hint = get_type_hints(Options)[name]
        types = [kind for kind in get_args(hint) or (hint,) if kind is not type(None)]
        token = self.peek()
        if bool in types:
            if self.word() not in ("TRUE", "FALSE"):
                self.fail(f"option {name} is TRUE or FALSE")
            return self.take().text.upper() == "TRUE"
        if int in types:
            return self.read_duration(f"option {name}")
        if float in types:
            if token is None or token.token_type != TokenType.NUMBER:
                self.fail(f"option {name} is a number")
            number = float(self.take().text)
            if (unit := self.peek()) is not None and unit_size(unit.text) is not None:
                self.fail(f"option {name} is a number without a unit")
            return number
        if token is None or not (is_name(token) or token.token_type == TokenType.STRING):
            self.fail(f"option {name} is a word or a text in quotes")
        return str(self.take().text)


def _unstated(**stated: bool) -> tuple[str, ...]:
    return tuple(name for name, said in stated.items() if not said)
