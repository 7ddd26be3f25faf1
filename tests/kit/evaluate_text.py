"""Functions of text and time, and casts, the slow and obvious way: the oracle for kernels and columns.

Invariant: shares no code with what it judges. Times are those that `datetime` knows, the years 1 to 9999.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from slackwater.core.schema import Kind

_EPOCH = datetime(1970, 1, 1)
_LIMITS = {"tinyint": 2**7, "smallint": 2**15, "int": 2**31, "bigint": 2**63}


def _at(micros: int) -> datetime:
    return _EPOCH + timedelta(microseconds=micros)


def _micros(at: datetime) -> int:
    return (at - _EPOCH) // timedelta(microseconds=1)


def _substring(text: str, position: int, length: int | None = None) -> str:
    """Characters have the places 1, 2, ... and -n, ..., -1; those before the first are there, and empty."""
    start = position - 1 if position > 0 else position + len(text) if position else 0
    until = len(text) if length is None else start + length
    return "".join(one for place, one in enumerate(text) if start <= place < until)


def _like(text: str, pattern: str, escape: str = "\\") -> bool:
    if not pattern:
        return not text
    if pattern[0] == escape:
        return text[:1] == pattern[1] and _like(text[1:], pattern[2:], escape)
    if pattern[0] == "%":
        return any(_like(text[cut:], pattern[1:], escape) for cut in range(len(text) + 1))
    return bool(text) and pattern[0] in ("_", text[0]) and _like(text[1:], pattern[1:], escape)


def _truncated(unit: str, micros: int) -> int:
    at = _at(micros)
    day = at.replace(hour=0, minute=0, second=0, microsecond=0)
    return _micros(
        {
            "year": day.replace(month=1, day=1),
            "quarter": day.replace(month=(at.month - 1) // 3 * 3 + 1, day=1),
            "month": day.replace(day=1),
            "week": day - timedelta(days=min(at.weekday(), (day - datetime.min).days)),
            "day": day,
            "hour": at.replace(minute=0, second=0, microsecond=0),
            "minute": at.replace(second=0, microsecond=0),
            "second": at.replace(microsecond=0),
            "millisecond": at.replace(microsecond=at.microsecond // 1000 * 1000),
            "microsecond": at,
        }[unit]
    )


def _months_later(micros: int, months: int) -> int:
    at = _at(micros)
    year, month = divmod(at.year * 12 + at.month - 1 + months, 12)
    for day in range(at.day, 0, -1):
        try:
            return _micros(at.replace(year=year, month=month + 1, day=day))
        except ValueError:
            continue
    raise AssertionError("no month is without days")


def _printed_float(value: float) -> str:
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    shown = "".join(map(str, digits))
    point = len(shown) + exponent
    minus = "-" if sign else ""
    if value == 0:
        return f"{minus}0.0"
    if -3 < point <= 7:
        padded = shown.ljust(point, "0") if point > 0 else "0" * (1 - point) + shown
        cut = max(point, 1)
        return f"{minus}{padded[:cut]}.{padded[cut:] or '0'}"
    return f"{minus}{shown[0]}.{shown[1:] or '0'}E{point - 1}"


def _to_text(value: Any, kind: Kind) -> str:
    if kind is Kind.TIME:
        at = _at(value)
        shown = f"{at.year:04}-{at:%m-%d %H:%M:%S}"
        return shown + (f".{at.microsecond:06}".rstrip("0") if at.microsecond else "")
    if kind is Kind.FLOAT:
        return _printed_float(value)
    return str(value).lower() if kind is Kind.BOOL else str(value)


def _whole(target: str, value: Any, kind: Kind) -> int | None:
    if kind is Kind.TEXT:
        written = value.strip()
        digits = written[1:] if written[:1] in ("+", "-") else written
        if not (digits.isascii() and digits.isdigit()):
            return None
        value = int(written)
    elif kind is Kind.TIME:
        value = value // 1_000_000
    limit = _LIMITS[target]
    # Infinity has no integer at all.
    if kind is Kind.FLOAT and abs(value) >= 2.0**63:
        return None
    whole = int(value)
    return whole if -limit <= whole < limit and whole != -(2**63) else None


def cast(op: str, value: Any, kind: Kind) -> Any:
    """What a cast makes of a known value of some kind."""
    target = op.removeprefix("cast_")
    if target == "string":
        return _to_text(value, kind)
    if target in _LIMITS:
        return _whole(target, value, kind)
    if target == "boolean":
        words = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}
        return words.get(value.strip().lower()) if kind is Kind.TEXT else value != 0
    if target == "timestamp":
        return _micros(datetime.fromisoformat(value)) if kind is Kind.TEXT else int(value * 1_000_000)
    # The time becomes a float first, as in Spark.
    number = float(value) / 1e6 if kind is Kind.TIME else float(value)
    return struct.unpack("f", struct.pack("f", number))[0] if target == "float" else number


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "upper": lambda text: "".join(one.upper() for one in text),
    "lower": lambda text: text.lower(),
    "length": lambda text: sum(1 for _ in text),
    "substring": _substring,
    "trim": lambda text: FUNCTIONS["ltrim"](FUNCTIONS["rtrim"](text)),
    "ltrim": lambda text: FUNCTIONS["ltrim"](text[1:]) if text[:1] == " " else text,
    "rtrim": lambda text: FUNCTIONS["rtrim"](text[:-1]) if text[-1:] == " " else text,
    "replace": lambda text, search, other="": other.join(text.split(search)) if search else text,
    "concat": lambda *texts: "".join(texts),
    "startswith": lambda text, start: text[: len(start)] == start,
    "endswith": lambda text, end: text[len(text) - len(end) :] == end if len(end) <= len(text) else False,
    "contains": lambda text, part: text.find(part) >= 0,
    "like": _like,
    "ilike": lambda text, pattern, escape="\\": _like(text.lower(), pattern.lower(), escape),
    "year": lambda t: _at(t).year,
    "quarter": lambda t: (_at(t).month + 2) // 3,
    "month": lambda t: _at(t).month,
    "day": lambda t: _at(t).day,
    "dayofweek": lambda t: _at(t).isoweekday() % 7 + 1,
    "weekday": lambda t: _at(t).weekday(),
    "dayofyear": lambda t: _at(t).timetuple().tm_yday,
    "weekofyear": lambda t: _at(t).isocalendar().week,
    "yearofweek": lambda t: _at(t).isocalendar().year,
    "hour": lambda t: _at(t).hour,
    "minute": lambda t: _at(t).minute,
    "second": lambda t: _at(t).second,
    "seconds": lambda t: (_at(t).second * 1_000_000 + _at(t).microsecond) / 1e6,
    "date_trunc": _truncated,
    "shift": lambda t, micros: t + micros,
    "shift_months": _months_later,
}
"""By the operator of the tree."""
