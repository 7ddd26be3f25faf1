"""Event time: int64 microseconds since 1970-01-01 UTC, everywhere inside; durations in words; and bounds between times.

A bound between the event times of two streams of a join is what a window clause says, before anything follows from it.

Invariant: every event time that is admitted lies in [MIN_TIME, MAX_TIME], so that adding or subtracting a window,
a slack or a slide never overflows int64. A bound is one-sided and never negative; `ts_newer - ts_older <= most`. A
window both ways is two of them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

MICROSECOND = 1
MILLISECOND = 1_000
SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR

MAX_TIME = 2**61
MIN_TIME = -MAX_TIME
LONGEST = 1_000_000 * DAY
"""The longest duration that can be stated: windows, slacks and times still add up within 64 bits."""
BEFORE_ALL = -(2**62)
"""A clock or watermark that has not moved yet."""
AFTER_ALL = 2**62
"""The watermark once the input has ended."""

_UNITS: dict[str, int] = {
    name: size
    for names, size in (
        (("us", "microsecond", "microseconds"), MICROSECOND),
        (("ms", "milli", "millis", "millisecond", "milliseconds"), MILLISECOND),
        (("s", "sec", "secs", "second", "seconds"), SECOND),
        (("min", "mins", "minute", "minutes"), MINUTE),
        (("h", "hour", "hours"), HOUR),
        (("d", "day", "days"), DAY),
    )
    for name in names
}

_DURATION = re.compile(r"\s*(\d+)(?:\.(\d+))?\s*([A-Za-z]+)\s*")
MOST_DIGITS, MOST_SHOWN = 30, 60
"""Digits that a duration has before its point, and behind it; and characters of it in an error."""


def unit_size(name: str) -> int | None:
    """Microseconds in one unit, or None for a word that is no unit.

    >>> unit_size("SECONDS")
    1000000
    """
    return _UNITS.get(name.lower())


def parse_duration(text: str) -> int:
    """A duration in words as microseconds.

    >>> parse_duration("1.5 seconds")
    1500000
    >>> parse_duration("100ms")
    100000
    """
    match = _DURATION.fullmatch(text) if isinstance(text, str) else None
    size = unit_size(match.group(3)) if match else None
    shown = text if not isinstance(text, str) or len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."
    if match is None or size is None:
        raise ValueError(f"'{shown}' is not a duration; write a number and a unit, such as '5 seconds' or '100 ms'")
    # Of more digits Python makes no number, and none is needed.
    whole, rest = match.group(1).lstrip("0") or "0", (match.group(2) or "").rstrip("0")
    if len(whole) > MOST_DIGITS:
        raise ValueError(_too_long(shown))
    micros = Fraction(f"{whole}.{rest or 0}") * size if len(rest) <= MOST_DIGITS else Fraction(1, 2)
    if micros.denominator != 1:
        raise ValueError(f"'{shown}' is finer than a microsecond")
    if micros > LONGEST:
        raise ValueError(_too_long(shown))
    return int(micros)


def _too_long(shown: str) -> str:
    return f"'{shown}' is longer than any stream; a duration is at most {LONGEST // DAY:,} days"


def format_duration(micros: int) -> str:
    """The shortest exact way to write a duration.

    >>> format_duration(1_500_000), format_duration(300_000_000), format_duration(12_345_678)
    ('1.5 s', '5 min', '12.345678 s')
    """
    for size, name in ((DAY, "d"), (HOUR, "h"), (MINUTE, "min"), (SECOND, "s"), (MILLISECOND, "ms")):
        if abs(micros) >= size and (micros % size == 0 or size <= SECOND):
            whole, rest = divmod(abs(micros), size)
            digits = f"{float(Fraction(rest, size)):.6f}"[1:].rstrip("0").rstrip(".")
            return f"{'-' if micros < 0 else ''}{whole}{digits} {name}"
    return f"{micros} us" if micros else "0 s"


def readable(micros: float) -> str:
    """A duration for tables: to three digits from a minute on, else to a millisecond, or a tenth below 100 of them.

    >>> [readable(n) for n in (0, 999, 48_321, 1_164_200, 1_779_521_000, 81_930_600_000, 10 * MINUTE, 9_000 * DAY, -40)]
    ['0 s', '1 ms', '48.3 ms', '1.164 s', '29.7 min', '22.8 h', '10 min', '9,000 d', '-40 us']
    """
    for size, name in ((DAY, "d"), (HOUR, "h"), (MINUTE, "min")):
        if abs(micros) >= size:
            return f"{float(f'{micros / size:.3g}'):,.10g} {name}"
    unit = MILLISECOND if abs(micros) >= 100 * MILLISECOND else 100 if abs(micros) >= 100 else 1
    return format_duration(round(micros / unit) * unit)


def roughly(micros: float) -> str:
    """A duration for people, to two digits.

    >>> roughly(9 * DAY + HOUR), roughly(90 * SECOND), roughly(HOUR), roughly(667 * MINUTE), roughly(48_300)
    ('9 days', '1.5 minutes', '1 hour', '11 hours', '48 ms')
    """
    for size, name in ((DAY, "day"), (HOUR, "hour"), (MINUTE, "minute"), (SECOND, "second")):
        count = float(f"{micros / size:.2g}")
        if count >= 1:
            return f"{count:,.10g} {name}{'' if count == 1 else 's'}"
    return f"{float(f'{micros / MILLISECOND:.2g}'):g} ms"


@dataclass(frozen=True)
class WindowBound:
    """A tuple of stream `newer` is at most `most` microseconds newer than the one of stream `older` it joins."""

    newer: int
    older: int
    most: int


Bounds = tuple[WindowBound, ...]
"""All of them hold."""


def window_of(stream: int, size: int, streams: int) -> Bounds:
    """`stream [RANGE size]`: whatever joins a tuple of this stream is at most so much newer.

    >>> window_of(1, 5, streams=3)
    (WindowBound(newer=0, older=1, most=5), WindowBound(newer=2, older=1, most=5))
    """
    return tuple(WindowBound(other, stream, size) for other in range(streams) if other != stream)


def within(a: int, b: int, size: int) -> Bounds:
    """`WINDOW (a, b) = size`: the two are at most so much apart, either way round."""
    return WindowBound(a, b, size), WindowBound(b, a, size)


def before(first: int, then: int, size: int) -> Bounds:
    """`DWINDOW (first, then) = size`: the second comes with or after the first, at most so much later."""
    return WindowBound(then, first, size), WindowBound(first, then, 0)
