"""Windows that are not of time, bound; and what does not go with them.

Invariant: a stream has a window of time, or another one, or none; never two.
"""

from __future__ import annotations

from dataclasses import replace

from slackwater.core.errors import QueryError
from slackwater.core.quality import Recall, RelativeError
from slackwater.core.results import ISTREAM
from slackwater.language.bound import RateWindow, RowWindow, StreamRef
from slackwater.language.clauses import Rate, Window
from slackwater.language.landmarks import Landmarks, bind_landmarks
from slackwater.language.parsed import ParsedQuery

_NO_TARGET = (
    "{} is not offered with {}: a late tuple would change all windows after it, so what it costs has no bound;"
    " write DELAY, COMPLETE or NO WAIT"
)
_NOT_IN_A_CHAIN = (
    "{} {} not offered in a query of several operators (sub-queries, UNION ALL, aggregates above joins); {}"
)


def with_window(stream: StreamRef, window: Window | Landmarks | Rate | None, text: str) -> StreamRef:
    """An entry of FROM with the window that stands in brackets after it."""
    if window is None:
        return stream
    if isinstance(window, Landmarks):
        return bind_landmarks(stream, window, text)
    if isinstance(window, Rate):
        return replace(stream, window=RateWindow(window.interval, window.by_arrival))
    if window.in_rows:
        return replace(stream, window=RowWindow(window.range, window.slide))
    return replace(stream, range=window.range, slide=window.slide)


def check_chain(parsed: ParsedQuery) -> None:
    """Refuse windows of rows and landmark windows, and results that leave later, in a query of several operators.

    Windows that follow rates may stand there: what comes from below is in order and never late.
    """
    for select in (parsed, *parsed.united):
        if select.kind:
            raise QueryError(
                _NOT_IN_A_CHAIN.format(f"SELECT {select.kind}", "is", "it reads a stream, and no query reads it"),
                parsed.text,
                *select.kind_place,
            )
        if select.out.kind != ISTREAM:
            raise QueryError(
                _NOT_IN_A_CHAIN.format(select.out.kind, "is", "leave it out"), parsed.text, *select.out_place
            )
        for stream in select.streams:
            what = _other(stream.window)
            if what is not None and stream.window is not None:
                raise QueryError(
                    _NOT_IN_A_CHAIN.format(what, "are", "write RANGE and a duration"), parsed.text, *stream.window.place
                )
            if stream.query is not None:
                check_chain(stream.query)


def _other(window: Window | Landmarks | Rate | None) -> str | None:
    """What a window of rows, or from tuple to tuple, is called."""
    if isinstance(window, Landmarks):
        return "landmark windows"
    return "windows of rows" if isinstance(window, Window) and window.in_rows else None


def check_other_windows(parsed: ParsedQuery, aggregation: bool) -> None:
    """Refuse what windows of rows and landmark windows cannot go with."""
    for window in (stream.window for stream in parsed.streams):
        what = _other(window)
        if window is None or what is None:
            continue
        if isinstance(window, Landmarks) and not aggregation:
            message = "a landmark window is for aggregates; in a join write RANGE and a duration, or ROWS and a number"
            raise QueryError(message, parsed.text, *window.place)
        if isinstance(parsed.quality, Recall | RelativeError):
            name = "RECALL" if isinstance(parsed.quality, Recall) else "ERROR"
            raise QueryError(_NO_TARGET.format(name, what), parsed.text, *parsed.quality_place)
        if parsed.windows:
            message = f"{what} do not go with windows between streams, which are of time; write RANGE, or drop these"
            raise QueryError(message, parsed.text, *window.place)
