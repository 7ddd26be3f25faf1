"""Windows that follow rates, bound; and what does not go with them.

Invariant: the inputs of a join have such windows all or none: the sizes are kept in relation to one another, and what
counts tuples of one input has nothing to say about the time that another one goes by.

References: 001 §2.3.
"""

from __future__ import annotations

from typing import NoReturn

from slackwater.core.errors import QueryError
from slackwater.core.quality import Recall, RelativeError
from slackwater.language.bound import Match
from slackwater.language.clauses import Rate
from slackwater.language.parsed import ParsedQuery, ParsedStream


def bind_match(parsed: ParsedQuery) -> Match | None:
    """What MATCH TIME says."""
    return None if parsed.match is None else Match(parsed.match.within)


def check_rates(parsed: ParsedQuery, aggregation: bool) -> None:
    """Refuse what windows that follow rates cannot go with, and MATCH TIME without them."""
    rated = [(stream, stream.window) for stream in parsed.streams if isinstance(stream.window, Rate)]
    if not rated:
        if parsed.match is not None:
            _refuse(
                parsed,
                "MATCH TIME is for joins whose windows follow rates, as in a [RATE 10 SECONDS]; elsewhere write it as a"
                " condition, as in WHERE abs(a.ts - b.ts) <= INTERVAL 5 SECONDS",
                parsed.match.place,
            )
        return
    place = rated[0][1].place
    if aggregation and len(parsed.streams) > 1:
        message = (
            "an aggregate above a join whose windows follow rates needs a window of time of its own, as in"
            " SELECT COUNT(*) FROM (SELECT ...) j [RANGE 1 MINUTE]"
        )
        _refuse(parsed, message, place)
    if aggregation:
        _refuse(parsed, "RATE is for joins; in an aggregate write RANGE and a duration, or ROWS and a number", place)
    if len(parsed.streams) == 1:
        _refuse(parsed, "RATE is for joins; a query of one stream without aggregates needs no window", place)
    if parsed.windows:
        message = (
            "windows that follow rates do not go with windows between streams, which are of time; write RANGE, or drop"
            " these and write MATCH TIME WITHIN and a duration"
        )
        _refuse(parsed, message, parsed.windows[0].place)
    _check_all(parsed, rated)
    if isinstance(parsed.quality, Recall | RelativeError):
        name = "RECALL" if isinstance(parsed.quality, Recall) else "ERROR"
        message = (
            f"{name} is not offered with windows that follow rates: they count tuples, so a late one would change all"
            " windows after it, and what it costs has no bound; write DELAY, COMPLETE or NO WAIT"
        )
        _refuse(parsed, message, parsed.quality_place)


def _check_all(parsed: ParsedQuery, rated: list[tuple[ParsedStream, Rate]]) -> None:
    """Refuse a window that follows a rate beside one that does not, and wall-clock time beside event time."""
    for stream in parsed.streams:
        if not isinstance(stream.window, Rate):
            message = (
                f"RATE stands after every input of a join or after none, and {stream.alias} has none; write"
                f" {stream.alias} [RATE 10 SECONDS], or RANGE after all"
            )
            _refuse(parsed, message, stream.place if stream.window is None else stream.window.place)
    for _, window in rated:
        if window.by_arrival != rated[0][1].by_arrival:
            message = "BY ARRIVAL stands after every input of a join or after none, since all are sampled together"
            _refuse(parsed, message, window.place)


def _refuse(parsed: ParsedQuery, message: str, place: tuple[int, int]) -> NoReturn:
    raise QueryError(message, parsed.text, *place)
