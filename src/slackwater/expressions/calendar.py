"""Times taken apart, cut and shifted: the calendar in UTC, on microseconds since 1970.

Invariant: nothing here raises or traps, whatever the bits, as in `arithmetic.py`. The calendar is the Gregorian one,
carried on before its beginning, as in Spark; every division rounds down, so times before 1970 are like any other.

Days become dates, and dates days, by counting years from March: then the leap day is the last of its year.
"""

from __future__ import annotations

from slackwater.core.jit import inner
from slackwater.core.time import DAY, HOUR, MILLISECOND, MINUTE, SECOND

_ERA = 146_097
"""Days in 400 years, after which the calendar repeats."""
_MARCH_OF_0 = 719_468
"""Days from the first of March of the year 0 to 1970."""


@inner
def _date(days: int) -> tuple[int, int, int]:
    """Year, month and day of a day since 1970."""
    since = days + _MARCH_OF_0
    era = since // _ERA
    of_era = since - era * _ERA
    year = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    from_march = (5 * of_year + 2) // 153
    day = of_year - (153 * from_march + 2) // 5 + 1
    month = from_march + 3 if from_march < 10 else from_march - 9
    return year + era * 400 + (1 if month <= 2 else 0), month, day


@inner
def _day(year: int, month: int, day: int) -> int:
    """The day since 1970 of a date."""
    from_march = year - 1 if month <= 2 else year
    era = from_march // 400
    of_era = from_march - era * 400
    from_march = month - 3 if month > 2 else month + 9
    of_year = (153 * from_march + 2) // 5 + day - 1
    return era * _ERA + of_era * 365 + of_era // 4 - of_era // 100 + of_year - _MARCH_OF_0


def year(t: int) -> int:
    """The year; 0 is the one before 1."""
    return _date(t // DAY)[0]


def quarter(t: int) -> int:
    """1 to 4."""
    return (_date(t // DAY)[1] + 2) // 3


def month(t: int) -> int:
    """1 to 12."""
    return _date(t // DAY)[1]


def day(t: int) -> int:
    """Of the month, from 1."""
    return _date(t // DAY)[2]


def dayofweek(t: int) -> int:
    """1 is Sunday."""
    return (t // DAY + 4) % 7 + 1


def weekday(t: int) -> int:
    """0 is Monday."""
    return (t // DAY + 3) % 7


def dayofyear(t: int) -> int:
    """From 1."""
    days = t // DAY
    return days - _day(_date(days)[0], 1, 1) + 1


def weekofyear(t: int) -> int:
    """As in ISO 8601: a week belongs to the year of its Thursday."""
    days = t // DAY
    thursday = days - (days + 3) % 7 + 3
    return (thursday - _day(_date(thursday)[0], 1, 1)) // 7 + 1


def yearofweek(t: int) -> int:
    """The year that the week belongs to."""
    days = t // DAY
    return _date(days - (days + 3) % 7 + 3)[0]


def hour(t: int) -> int:
    """0 to 23."""
    return t // HOUR % 24


def minute(t: int) -> int:
    """0 to 59."""
    return t // MINUTE % 60


def second(t: int) -> int:
    """0 to 59."""
    return t // SECOND % 60


def seconds(t: int) -> float:
    """The second with its fraction."""
    return float(t % MINUTE) / 1e6


def trunc_year(t: int) -> int:
    """The first instant of the year."""
    return _day(_date(t // DAY)[0], 1, 1) * DAY


def trunc_quarter(t: int) -> int:
    """The first instant of the quarter."""
    date = _date(t // DAY)
    return _day(date[0], (date[1] - 1) // 3 * 3 + 1, 1) * DAY


def trunc_month(t: int) -> int:
    """The first instant of the month."""
    date = _date(t // DAY)
    return _day(date[0], date[1], 1) * DAY


def trunc_week(t: int) -> int:
    """The first instant of the Monday at or before."""
    days = t // DAY
    return (days - (days + 3) % 7) * DAY


def trunc_day(t: int) -> int:
    """Midnight."""
    return t // DAY * DAY


def trunc_hour(t: int) -> int:
    """The full hour."""
    return t // HOUR * HOUR


def trunc_minute(t: int) -> int:
    """The full minute."""
    return t // MINUTE * MINUTE


def trunc_second(t: int) -> int:
    """The full second."""
    return t // SECOND * SECOND


def trunc_millisecond(t: int) -> int:
    """The full millisecond."""
    return t // MILLISECOND * MILLISECOND


def trunc_microsecond(t: int) -> int:
    """Nothing is finer."""
    return t


def shift_months(t: int, months: int) -> int:
    """The same day and time so many months later; the last day of a month that has no such day."""
    days = t // DAY
    date = _date(days)
    ahead = date[0] * 12 + date[1] - 1 + months
    first = _day(ahead // 12, ahead % 12 + 1, 1)
    after = _day((ahead + 1) // 12, (ahead + 1) % 12 + 1, 1)
    return (first + min(date[2], after - first) - 1) * DAY + (t - days * DAY)
