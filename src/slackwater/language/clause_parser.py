"""Reads the clauses SQL does not have, beside windows: how results leave, quality targets, options.

Invariant: what comes out is a node with values of the model in microseconds and shares, checked for its range; what is
wrong is refused at the token that is wrong.

References: 000 §1.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, get_args, get_type_hints

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
from slackwater.core.time import unit_size
from slackwater.language.nodes import (
    Emitted,
    Place,
    RelationToStream,
    Settings,
    Target,
)
from slackwater.language.scope import did_you_mean, matching
from slackwater.language.tokens import is_name
from slackwater.language.window_parser import WindowParser

_TARGETS = "COMPLETE, NO WAIT, DELAY 2 SECONDS, RECALL 0.99 OVER 1 MINUTE or ERROR 1% CONFIDENCE 95%"
_EMITS = "EMIT IN ORDER WITH CORRECTIONS FOR 5 MINUTES, EMIT ON ARRIVAL, EMIT EARLY EVERY 10 SECONDS"


class ClauseParser(WindowParser):
    """Reads one clause, from its first word on."""

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
