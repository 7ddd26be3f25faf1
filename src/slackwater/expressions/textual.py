"""What functions of text and CAST to and from text compute, value by value, as Spark computes it.

Invariant: known values in (but for `OF_NULLS`); out comes a value, or None where there is none: a text that is not
written as a CAST asks for gives None, never an error. A function is asked once for each distinct combination of its
arguments (`columnar.py`), never for each tuple. Characters are code points. Floats are printed as the JVM does from
version 19 on (earlier ones print some with more digits than they need), times as Spark does where the zone of its
session is UTC.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa

from slackwater.core.schema import NULL_WORD, Kind
from slackwater.core.time import DAY, HOUR, MAX_TIME, MINUTE, SECOND
from slackwater.expressions import decimals
from slackwater.expressions.tree import Call

_BLANK = "".join(map(chr, range(33)))
"""What is trimmed off both ends of a float; of all else also DELETE."""
_INTEGER = re.compile(r"[+-]?[0-9]+")
_FLOAT = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]?")
_HEX_FLOAT = re.compile(r"([+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?")
_ENDLESS = re.compile(r"([+-]?)(?:inf|infinity)")
_TRUTHS = dict.fromkeys(("t", "true", "y", "yes", "1"), True) | dict.fromkeys(("f", "false", "n", "no", "0"), False)
_MOMENT = re.compile(
    r"(?P<year>[+-]?[0-9]{4,6})(?:-(?P<month>[0-9]{1,2})(?:-(?P<day>[0-9]{1,2})"
    r"(?:[ T](?P<hour>[0-9]{1,2})(?::(?P<minute>[0-9]{1,2})(?::(?P<second>[0-9]{1,2})(?:\.(?P<fraction>[0-9]*))?"
    r"(?P<zone>.*))?)?)?)?)?",
    re.DOTALL,
)
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])([0-9]{1,2})(?::?([0-9]{1,2})(?::?([0-9]{2}))?)?")
_SHORT_ZONES = {
    "EST": "-05:00", "MST": "-07:00", "HST": "-10:00", "ACT": "Australia/Darwin", "AET": "Australia/Sydney",
    "AGT": "America/Argentina/Buenos_Aires", "ART": "Africa/Cairo", "AST": "America/Anchorage",
    "BET": "America/Sao_Paulo", "BST": "Asia/Dhaka", "CAT": "Africa/Harare", "CNT": "America/St_Johns",
    "CST": "America/Chicago", "CTT": "Asia/Shanghai", "EAT": "Africa/Addis_Ababa", "ECT": "Europe/Paris",
    "IET": "America/Indiana/Indianapolis", "IST": "Asia/Kolkata", "JST": "Asia/Tokyo", "MIT": "Pacific/Apia",
    "NET": "Asia/Yerevan", "NST": "Pacific/Auckland", "PLT": "Asia/Karachi", "PNT": "America/Phoenix",
    "PRT": "America/Puerto_Rico", "PST": "America/Los_Angeles", "SST": "Pacific/Guadalcanal",
    "VST": "Asia/Ho_Chi_Minh",
}  # fmt: skip
"""The names of the JVM that are not in the database of zones, or mean something else there."""

_FARTHEST_ZONE = 18 * HOUR
_FIRST, _LAST = -62_135_510_400 * SECOND, 253_402_214_400 * SECOND
"""The second day of the year 1, and the last but one of 9999: between them the rules of zones are known."""
_MOMENT_TYPE = pa.timestamp("us")
_DAYS_OF_MONTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def float_as_text(value: float) -> str:
    """A float as the JVM prints it.

    >>> [float_as_text(x) for x in (1.0, 1e7, 0.00012, -1 / 3, 5e-324)]
    ['1.0', '1.0E7', '1.2E-4', '-0.3333333333333333', '4.9E-324']
    """
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        written = np.format_float_positional(value, unique=True, trim="0")
        return str(written)
    # Of two digits the nearest is taken, even where one would tell the number.
    two = f"{value:.1e}"
    shortest = two if float(two) == value else np.format_float_scientific(value, unique=True, trim="0")
    digits, _, exponent = str(shortest).partition("e")
    return f"{digits}E{int(exponent)}"


def time_as_text(micros: int) -> str:
    """A time as Spark prints it.

    >>> time_as_text(1_500_000), time_as_text(-1), time_as_text(253_402_300_800_000_000)
    ('1970-01-01 00:00:01.5', '1969-12-31 23:59:59.999999', '+10000-01-01 00:00:00')
    """
    days, rest = divmod(micros, DAY)
    # Years are about so long; the first guess is the right one or a year off.
    year = 1970 + days * 400 // 146_097
    year += (_first_day(year + 1) <= days) - (_first_day(year) > days)
    month, day = 0, days - _first_day(year)
    while day >= _length(year, month):
        month, day = month + 1, day - _length(year, month)
    shown = f"{'+' if year > 9999 else '-' if year < 0 else ''}{abs(year):04}-{month + 1:02}-{day + 1:02}"
    clock = f"{rest // HOUR:02}:{rest // MINUTE % 60:02}:{rest // SECOND % 60:02}"
    fraction = f".{rest % SECOND:06}".rstrip("0").rstrip(".")
    return f"{shown} {clock}{fraction}"


def _first_day(year: int) -> int:
    """The first day of a year, in days since 1970."""
    before = year - 1
    return before * 365 + before // 4 - before // 100 + before // 400 - 719_162


def _length(year: int, month: int) -> int:
    """The days of a month; January is 0."""
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return _DAYS_OF_MONTHS[month] + (month == 1 and leap)


def text_as_integer(bits: int) -> Callable[[str], int | None]:
    """What reads an integer of so many bits."""
    limit = 2 ** (bits - 1)

    def read(text: str) -> int | None:
        written = text.strip(_BLANK + "\x7f")
        if not _INTEGER.fullmatch(written) or len(written) > 4000:
            return None
        value = int(written)
        return value if -limit <= value < limit and value != NULL_WORD else None

    return read


def text_as_float(text: str) -> float | None:
    """A written float; NaN is none, as everywhere in an expression."""
    written = text.strip(_BLANK)
    if found := _FLOAT.fullmatch(written):
        return float(found[1])
    if found := _HEX_FLOAT.fullmatch(written):
        try:
            return float.fromhex(found[1])
        except OverflowError:
            return -math.inf if written.startswith("-") else math.inf
    endless = _ENDLESS.fullmatch(written.lower())
    return None if endless is None else -math.inf if endless[1] == "-" else math.inf


def as_single(value: float | None) -> float | None:
    """The nearest float of 32 bits."""
    with np.errstate(over="ignore"):
        return None if value is None else float(np.float32(value))


def text_as_boolean(text: str) -> bool | None:
    """One of Spark's words for true or false."""
    return _TRUTHS.get(text.strip(_BLANK + "\x7f").lower())


def text_as_time(text: str) -> int | None:
    """A written moment; one without a zone is in UTC. A time without a date is none: that would be today's.

    >>> text_as_time("1970-1-1 0:0:1.5"), text_as_time("1970-01-01T01:00:00+01:00"), text_as_time("12:00")
    (1500000, 0, None)
    """
    found = _MOMENT.fullmatch(text.strip(_BLANK + "\x7f"))
    if found is None:
        return None
    year, month, day = int(found["year"]), int(found["month"] or 1), int(found["day"] or 1)
    hour, minute, second = (int(found[part] or 0) for part in ("hour", "minute", "second"))
    if not 1 <= month <= 12 or not 1 <= day <= _length(year, month - 1) or hour > 23 or minute > 59 or second > 59:
        return None
    days = _first_day(year) + sum(_length(year, before) for before in range(month - 1)) + day - 1
    fraction = int(f"{(found['fraction'] or '')[:6]:0<6}")
    local = days * DAY + hour * HOUR + minute * MINUTE + second * SECOND + fraction
    ahead = _zone_ahead((found["zone"] or "").strip(_BLANK), local)
    return None if ahead is None or abs(local - ahead) > MAX_TIME else local - ahead


def _zone_ahead(zone: str, local: int) -> int | None:
    """How far ahead of UTC the clocks of a zone are; None where there is no such zone."""
    zone = _SHORT_ZONES.get(zone, zone)
    if zone in ("", "Z", "UTC", "GMT", "UT"):
        return 0
    if found := _OFFSET.fullmatch(zone):
        hours, minutes, seconds = (int(part or 0) for part in found.groups()[1:])
        ahead = hours * HOUR + minutes * MINUTE + seconds * SECOND
        if minutes > 59 or seconds > 59 or ahead > _FARTHEST_ZONE:
            return None
        return ahead if found[1] == "+" else -ahead
    known = _zone(zone)
    if known is None:
        return None
    at = pa.scalar(min(max(local, _FIRST), _LAST), _MOMENT_TYPE).as_py()
    return round(at.replace(tzinfo=known).utcoffset().total_seconds() * SECOND)


@lru_cache(maxsize=1024)
def _zone(name: str) -> ZoneInfo | None:
    try:
        return ZoneInfo(name)
    # Whatever is wrong with a name, there is no zone of that name.
    except (KeyError, OSError, ValueError):
        return None


TO_TEXT: dict[Kind, Callable[[Any], str]] = {
    Kind.INT: str,
    Kind.FLOAT: float_as_text,
    Kind.BOOL: lambda value: "true" if value else "false",
    Kind.TEXT: str,
    Kind.TIME: time_as_text,
}
FROM_TEXT: dict[str, Callable[[str], Any]] = {
    "cast_tinyint": text_as_integer(8),
    "cast_smallint": text_as_integer(16),
    "cast_int": text_as_integer(32),
    "cast_bigint": text_as_integer(64),
    "cast_float": lambda text: as_single(text_as_float(text)),
    "cast_double": text_as_float,
    "cast_boolean": text_as_boolean,
    "cast_timestamp": text_as_time,
}
"""By the operator of the tree that makes the cast."""


def _substring(text: str, position: int, length: int | None = None) -> str:
    """From a position that counts from 1, or from the end where it is negative; 0 is as 1."""
    start = position - 1 if position > 0 else len(text) + position if position < 0 else 0
    end = len(text) if length is None else start + length
    return text[max(start, 0) : max(end, 0)]


def _like(text: str, pattern: str, escape: str = "\\") -> bool | None:
    matching = _matcher(pattern, escape)
    return None if matching is None else matching.fullmatch(text) is not None


def _ilike(text: str, pattern: str, escape: str = "\\") -> bool | None:
    return _like(text.lower(), pattern.lower(), escape)


@lru_cache(maxsize=1024)
def _matcher(pattern: str, escape: str) -> re.Pattern[str] | None:
    """A pattern of LIKE as a regular expression; None where the escape character stands before nothing special.

    What stands between two % is matched where it comes first, and for good: trying all other places as well would take
    time without end, and find nothing more.
    """
    pieces = [""]
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            escaped = next(characters, "")
            if escaped not in ("%", "_", escape):
                return None
            pieces[-1] += re.escape(escaped)
        elif character == "%":
            pieces.append("")
        else:
            pieces[-1] += "." if character == "_" else re.escape(character)
    first, *between = pieces
    if not between:
        return re.compile(first, re.DOTALL)
    last = between.pop()
    return re.compile(first + "".join(f"(?>.*?{piece})" for piece in between) + f".*{last}", re.DOTALL)


def _replace(text: str, search: str, other: str = "") -> str:
    return text.replace(search, other) if search else text


def _partition(*named: str | None) -> str:
    """Names and values in turns, such that other values give another text.

    >>> _partition("host", "a", "channel", None), _partition("host", "a, channel=b")
    ('host=a, channel=NULL', 'host="a, channel=b"')
    """
    return ", ".join(f"{name}={_told_apart(value)}" for name, value in zip(named[::2], named[1::2], strict=True))


def _told_apart(value: str | None) -> str:
    if value is None:
        return "NULL"
    return json.dumps(value, ensure_ascii=False) if value == "NULL" or "," in value or '"' in value else value


TEXT_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "upper": str.upper,
    "lower": str.lower,
    "length": len,
    "substring": _substring,
    "trim": lambda text: text.strip(" "),
    "ltrim": lambda text: text.lstrip(" "),
    "rtrim": lambda text: text.rstrip(" "),
    "replace": _replace,
    "concat": lambda *texts: "".join(texts),
    "startswith": str.startswith,
    "endswith": str.endswith,
    "contains": str.__contains__,
    "like": _like,
    "ilike": _ilike,
    "partition": _partition,
}
"""The functions that are of text in any case."""
OF_NULLS = frozenset(("partition",))
"""Those that make a value of unknown ones, too."""

# Code points are in the order of the bytes of UTF-8, which is that of Spark.
_ORDER: dict[str, Callable[[str, str], bool]] = {
    "<": str.__lt__,
    "<=": str.__le__,
    ">": str.__gt__,
    ">=": str.__ge__,
}


def text_function(call: Call) -> Callable[..., Any]:
    """What computes a call that makes text or looks into it.

    >>> from slackwater.expressions.tree import Literal
    >>> from slackwater.core.schema import Kind
    >>> name = Literal("a_b", Kind.TEXT)
    >>> text_function(Call("like", (name, name), Kind.BOOL))("a%b", "a\\\\%_")
    True
    """
    if call.op in TEXT_FUNCTIONS:
        return TEXT_FUNCTIONS[call.op]
    if call.op in _ORDER:
        return _ORDER[call.op]
    if call.op == "cast_string" and call.args[0].kind is Kind.DECIMAL:
        scale = call.args[0].scale
        return lambda digits: decimals.written(digits, scale)
    if call.op == "cast_string":
        return TO_TEXT[call.args[0].kind]
    return FROM_TEXT[call.op]
