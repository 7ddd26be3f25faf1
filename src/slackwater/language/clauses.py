"""The clauses SQL does not have: windows, quality targets, options.

Invariant: what comes out is a value of the model in microseconds and shares, checked for its range; what is wrong is
refused at the token that is wrong.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, get_args, get_type_hints

from sqlglot.tokenizer_core import Token, TokenType

from slackwater.core.errors import QueryError
from slackwater.core.options import Options, out_of_range
from slackwater.core.quality import Complete, Delay, NoWait, Quality, Recall, RelativeError
from slackwater.core.time import MINUTE, parse_duration, unit_size
from slackwater.language import unsupported
from slackwater.language.landmarks import Landmarks, begins_landmarks, read_condition
from slackwater.language.scope import did_you_mean, matching
from slackwater.language.tokens import Cursor, is_name

Place = tuple[int, int]
DEFAULT_CONFIDENCE, DEFAULT_PERIOD = 0.95, MINUTE
MOST_ROWS = 100_000_000
"""A window that counts is kept in memory; nobody means more tuples than these."""
MOST_WINDOWS = 1_000_000
"""In how many windows a tuple may be."""
_TARGETS = "COMPLETE, NO WAIT, DELAY 2 SECONDS, RECALL 0.99 OVER 1 MINUTE or ERROR 1% CONFIDENCE 95%"


@dataclass(frozen=True)
class Window:
    """`[RANGE range SLIDE slide]` and where its parts stand; `in_rows`, `[ROWS range SLIDE slide]`, in tuples."""

    range: int
    slide: int | None
    place: tuple[int, int]
    slide_place: tuple[int, int]
    in_rows: bool = False


@dataclass(frozen=True)
class Rate:
    """`[RATE interval BY ARRIVAL]`, and where it stands."""

    interval: int
    by_arrival: bool
    place: tuple[int, int]


def read_window(cursor: Cursor) -> Window | Landmarks | Rate | None:
    """The window in brackets that comes next, if one does.

    >>> read_window(Cursor("[RANGE 1 SECOND SLIDE 100 ms]")).slide
    100000
    >>> read_window(Cursor("[START WHEN v > 1 END WHEN v < 0]")).end.sql()
    'v < 0'
    >>> read_window(Cursor("[RATE 10 SECONDS BY ARRIVAL]")).by_arrival
    True
    """
    opening = cursor.peek()
    if opening is None or not cursor.accept("["):
        return None
    refusal = unsupported.window(cursor.word())
    if refusal is not None:
        cursor.fail(refusal)
    if begins_landmarks(cursor):
        return _read_landmarks(cursor, opening)
    if cursor.accept("RATE"):
        return _read_rate(cursor, opening)
    in_rows = cursor.accept("ROWS")
    if not in_rows:
        cursor.accept("RANGE")
    read = read_rows if in_rows else read_duration
    size = read(cursor, "the size of the window")
    slide: int | None = None
    slide_token = cursor.peek()
    if cursor.accept("SLIDE"):
        slide = read(cursor, "the slide of the window")
    slide_stop = cursor.tokens[cursor.index - 1].end + 1
    refusal = unsupported.window(cursor.word())
    if refusal is not None:
        cursor.fail(refusal)
    closing = cursor.peek()
    if closing is None or not cursor.accept("]"):
        cursor.fail(f"expected SLIDE and {'a number of tuples' if in_rows else 'a duration'}, or ']', here")
    start = slide_token.start if slide_token is not None else opening.start
    return Window(size, slide, (opening.start, closing.end + 1), (start, slide_stop), in_rows)


def check_slide(slide: int, size: int, text: str, place: tuple[int, int], in_rows: bool = False) -> None:
    """Refuse a window that would leave tuples out, or hold them all too often."""
    if not 0 < slide <= size:
        message = "SLIDE must be longer than nothing and no longer than RANGE, or tuples would fall between windows"
        if in_rows:
            message = "SLIDE must be at most ROWS, or tuples would fall between windows"
        raise QueryError(message, text, *place)
    if size // slide > MOST_WINDOWS:
        message = (
            f"every tuple would be in {size // slide:,} windows, and may be in {MOST_WINDOWS:,}; make SLIDE longer"
        )
        raise QueryError(message, text, *place)


def _read_rate(cursor: Cursor, opening: Token) -> Rate:
    token = cursor.peek()
    interval = read_duration(cursor, "the interval that the window holds")
    if interval <= 0:
        cursor.fail("the interval of RATE must be longer than nothing", token)
    by_arrival = cursor.accept("BY")
    if by_arrival and not cursor.accept("ARRIVAL"):
        cursor.fail("expected ARRIVAL here, as in [RATE 10 SECONDS BY ARRIVAL]")
    if cursor.word() == "SLIDE":
        cursor.fail("SLIDE belongs to aggregates; a window that follows a rate moves with every tuple")
    closing = cursor.peek()
    if closing is None or not cursor.accept("]"):
        cursor.fail("expected BY ARRIVAL or ']' here")
    return Rate(interval, by_arrival, (opening.start, closing.end + 1))


def _read_landmarks(cursor: Cursor, opening: Token) -> Landmarks:
    cursor.accept("START", "WHEN")
    start, end, slide = read_condition(cursor, "START"), None, None
    if cursor.accept("END"):
        if not cursor.accept("WHEN"):
            cursor.fail("expected WHEN and a condition here, as in END WHEN kind = 'end'")
        end = read_condition(cursor, "END")
    token = cursor.peek()
    if cursor.accept("SLIDE"):
        slide = read_duration(cursor, "the slide of the window")
        if end is not None:
            cursor.fail(
                "SLIDE is for a window without END, which would never answer; one with END answers there", token
            )
        if slide <= 0:
            cursor.fail("SLIDE must be longer than nothing", token)
    closing = cursor.peek()
    if closing is None or not cursor.accept("]"):
        cursor.fail("expected ']' here")
    if end is None and slide is None:
        cursor.fail(
            "a window without END never closes; add END WHEN and a condition, or SLIDE and a duration for an answer so"
            " often",
            closing,
        )
    return Landmarks(start, end, slide, (opening.start, closing.end + 1))


def read_rows(cursor: Cursor, what: str) -> int:
    """A number of tuples.

    >>> read_rows(Cursor("100"), "the size of the window")
    100
    """
    token = cursor.peek()
    if token is None or not token.text.isdecimal() or not 0 < int(token.text) <= MOST_ROWS:
        cursor.fail(f"expected {what}, a whole number of tuples from 1 to {MOST_ROWS:,}, here")
    return int(cursor.take().text)


def read_duration(cursor: Cursor, what: str) -> int:
    """A number and a unit, or both in quotes, as microseconds."""
    token = cursor.peek()
    if token is None or token.token_type not in (TokenType.NUMBER, TokenType.STRING):
        cursor.fail(f"expected {what}, a duration such as 5 SECONDS, here")
    cursor.take()
    if token.token_type == TokenType.STRING:
        return _duration(cursor.text, token.text, token, token)
    unit = cursor.peek()
    if unit is None or not is_name(unit):
        cursor.fail(f"{what} needs a unit after {token.text}, such as SECONDS")
    cursor.take()
    return _duration(cursor.text, f"{token.text} {unit.text}", token, unit)


def _duration(text: str, written: str, first: Token, last: Token) -> int:
    try:
        return parse_duration(written)
    except ValueError as error:
        raise QueryError(str(error), text, first.start, last.end + 1) from None


def read_quality(cursor: Cursor, whole: bool = True) -> Quality:
    """The target after WITH.

    >>> str(read_quality(Cursor("ERROR 1% CONFIDENCE 95% AT MOST 10 MINUTES")))
    'ERROR 0.01 CONFIDENCE 0.95 AT MOST 10 min'
    """
    quality = _read_target(cursor, whole)
    if cursor.word() == "AT":
        if isinstance(quality, Recall | RelativeError):
            cursor.fail("AT MOST is stated twice")
        cursor.fail(
            f"AT MOST bounds the slack that RECALL and ERROR look for, and {quality} looks for none; leave it out"
        )
    return quality


def _read_target(cursor: Cursor, whole: bool) -> Quality:
    if cursor.accept("COMPLETE"):
        return Complete()
    if cursor.accept("NO", "WAIT"):
        return NoWait()
    if cursor.accept("DELAY"):
        return Delay(read_duration(cursor, "the delay"))
    if cursor.accept("RECALL"):
        return _read_recall(cursor, whole)
    if cursor.accept("ERROR"):
        return _read_error(cursor)
    raise cursor.error(f"WITH needs a target: {_TARGETS}")


def _read_recall(cursor: Cursor, whole: bool) -> Recall:
    target = _read_share(cursor, "RECALL", one_included=True)
    at_most = _read_cap(cursor)
    stated, over = cursor.accept("OVER"), DEFAULT_PERIOD
    if stated:
        period = cursor.peek()
        over = read_duration(cursor, "the period of RECALL")
        if over <= 0:
            cursor.fail("the period of RECALL must be longer than nothing", period)
    elif whole:
        cursor.fail("RECALL needs a period to be measured over, as in RECALL 0.99 OVER 1 MINUTE")
    at_most = _read_cap(cursor, at_most)
    return Recall(target, over, at_most, _unstated(over=stated, at_most=at_most is not None))


def _read_error(cursor: Cursor) -> RelativeError:
    bound = _read_share(cursor, "ERROR")
    at_most = _read_cap(cursor)
    stated = cursor.accept("CONFIDENCE")
    confidence = _read_share(cursor, "CONFIDENCE") if stated else DEFAULT_CONFIDENCE
    at_most = _read_cap(cursor, at_most)
    return RelativeError(bound, confidence, at_most, _unstated(confidence=stated, at_most=at_most is not None))


def _unstated(**stated: bool) -> tuple[str, ...]:
    return tuple(name for name, said in stated.items() if not said)


def _read_cap(cursor: Cursor, known: int | None = None) -> int | None:
    """`AT MOST` and a duration, if that comes next; it may stand on either side of OVER and CONFIDENCE, once."""
    first = cursor.peek()
    if not cursor.accept("AT"):
        return known
    if not cursor.accept("MOST"):
        cursor.fail("expected MOST and a duration here, as in AT MOST 10 MINUTES")
    if known is not None:
        cursor.fail("AT MOST is stated twice", first)
    length = cursor.peek()
    at_most = read_duration(cursor, "the most slack that may be chosen")
    if at_most <= 0:
        cursor.fail("AT MOST must be longer than nothing; who wants no slack at all writes WITH NO WAIT", length)
    return at_most


def parse_quality(text: str, whole: bool = True) -> Quality:
    """A target by itself, with or without its WITH; where it is not `whole`, the period of RECALL may be left out.

    >>> str(parse_quality("with recall 95% over 1 minute"))
    'RECALL 0.95 OVER 1 min'
    """
    cursor = Cursor(text)
    cursor.accept("WITH")
    quality = read_quality(cursor, whole)
    if cursor.peek() is not None:
        cursor.fail("the target ends here; nothing may follow it")
    return quality


def _read_share(cursor: Cursor, what: str, one_included: bool = False) -> float:
    first = cursor.peek()
    # Some write .95, which is two tokens.
    fraction = cursor.accept(".")
    token = cursor.peek()
    if token is None or token.token_type != TokenType.NUMBER or (fraction and not token.text.isdecimal()):
        cursor.fail(f"{what} needs a share, such as 0.99 or 99%", first)
    cursor.take()
    number = float(f"{'.' if fraction else ''}{token.text}")
    share = float(f"{number / 100:.15g}") if cursor.accept("%") else number
    if not (0 < share < 1 or (one_included and share == 1)):
        upper = "at most 1 (100%)" if one_included else "less than 1 (100%)"
        cursor.fail(f"{what} must be more than 0 and {upper}", token)
    return share


def read_options(cursor: Cursor) -> tuple[Options, dict[str, Place]]:
    """The list after OPTIONS, and where each stands. Which there are, and of which type and range, `Options` says.

    >>> read_options(Cursor("(initial_slack = 2 SECONDS, max_ahead = '1 hour')"))[0].initial_slack
    2000000
    """
    known = [field.name for field in fields(Options)]
    chosen: dict[str, Any] = {}
    places: dict[str, Place] = {}
    if not cursor.accept("("):
        cursor.fail("OPTIONS needs a list in parentheses, as in OPTIONS (initial_slack = 2 SECONDS)")
    while True:
        token = cursor.name("the name of an option")
        found = matching(token.text, known)
        if len(found) != 1:
            listing = f"; the options are {', '.join(known)}"
            cursor.fail(f"there is no option '{token.text}'{listing}{did_you_mean(token.text, known)}", token)
        name = found[0]
        if name in chosen:
            cursor.fail(f"option {name} is set twice", token)
        if not cursor.accept("="):
            cursor.fail(f"expected '=' and a value for {name} here")
        value = cursor.peek()
        chosen[name] = _read_option(cursor, name)
        last = cursor.tokens[cursor.index - 1].end + 1
        places[name] = token.start, last
        wrong = None if isinstance(chosen[name], str) else out_of_range(name, chosen[name])
        if wrong is not None and value is not None:
            raise QueryError(f"option {name}: {wrong}", cursor.text, value.start, last)
        if cursor.accept(")"):
            return Options(**chosen), places
        if not cursor.accept(","):
            cursor.fail("expected ',' or ')' here")


def _read_option(cursor: Cursor, name: str) -> int | float | bool | str:
    hint = get_type_hints(Options)[name]
    types = [kind for kind in get_args(hint) or (hint,) if kind is not type(None)]
    if bool in types:
        if cursor.word() not in ("TRUE", "FALSE"):
            cursor.fail(f"option {name} is TRUE or FALSE")
        return cursor.take().text.upper() == "TRUE"
    if int in types:
        return read_duration(cursor, f"option {name}")
    if float in types:
        if (token := cursor.peek()) is None or token.token_type != TokenType.NUMBER:
            cursor.fail(f"option {name} is a number")
        number = float(cursor.take().text)
        if (unit := cursor.peek()) is not None and unit_size(unit.text) is not None:
            cursor.fail(f"option {name} is a number without a unit")
        return number
    token = cursor.peek()
    if token is None or not (is_name(token) or token.token_type == TokenType.STRING):
        cursor.fail(f"option {name} is a word or a text in quotes")
    return str(cursor.take().text)
