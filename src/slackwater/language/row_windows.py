"""Windows that count tuples, bound; and what does not go with them.

Invariant: a stream has a window of time, or another one, or none; never two.
"""

from __future__ import annotations

from dataclasses import replace

from slackwater.language.bound import RowWindow, StreamRef
from slackwater.language.clauses import Window
from slackwater.language.statement import ParsedQuery
from slackwater.model.errors import QueryError
from slackwater.model.quality import Recall, RelativeError

_NO_TARGET = (
    "{} is not offered with windows of rows: a late tuple would change all windows after it, so its price has no end;"
    " write DELAY, COMPLETE or NO WAIT"
)


def with_window(stream: StreamRef, window: Window | None) -> StreamRef:
    """An entry of FROM with the window that stands in brackets after it."""
    if window is None:
        return stream
    if window.in_rows:
        return replace(stream, window=RowWindow(window.range, window.slide))
    return replace(stream, range=window.range, slide=window.slide)


def check_row_windows(parsed: ParsedQuery) -> None:
    """Refuse what windows of rows cannot go with."""
    counting = [stream for stream in parsed.streams if stream.window is not None and stream.window.in_rows]
    if not counting:
        return
    if isinstance(parsed.quality, Recall | RelativeError):
        name = "RECALL" if isinstance(parsed.quality, Recall) else "ERROR"
        raise QueryError(_NO_TARGET.format(name), parsed.text, *parsed.quality_place)
    if parsed.windows:
        message = (
            "windows of rows do not go with windows between streams, which are of time; write RANGE, or drop these"
        )
        assert counting[0].window is not None
        raise QueryError(message, parsed.text, *counting[0].window.place)
