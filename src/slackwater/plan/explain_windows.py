"""Windows in words and as attributes: of a stream, of an aggregate, and between the streams of a join.

Invariant: every bound between two streams is told as tight as the others make it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from slackwater.core.time import format_duration
from slackwater.core.window_graph import Matrix, WindowGraph
from slackwater.expressions.render import render
from slackwater.language.bound import JoinQuery, LandmarkWindow, RateWindow, RowWindow, StreamRef
from slackwater.operators.description import Detail


def explain_windows(query: JoinQuery) -> list[Detail]:
    """Headings with lines under them; none where every window stands in brackets after its stream."""
    if not query.bounds:
        return []
    aliases = [stream.alias for stream in query.streams]
    alternatives = [pairs(matrix, aliases) for matrix in WindowGraph(len(aliases), query.bounds).closed]
    return [Detail.headed("windows" if at == 0 else "or windows", lines) for at, lines in enumerate(alternatives)]


def window_of(stream: StreamRef) -> str:
    """The window in brackets after a stream; nothing where it has none."""
    window = stream.window
    if isinstance(window, RowWindow):
        return f"the last {window.rows:,} tuples"
    if isinstance(window, RateWindow):
        clock = " of arrivals" if window.by_arrival else ""
        return f"the last n tuples, where n follows the rate: {format_duration(window.interval)}{clock}"
    if isinstance(window, LandmarkWindow):
        return f"from {render(window.start)}" + (f" to {render(window.end)}" if window.end is not None else "")
    return "" if stream.range is None else format_duration(stream.range)


def window_attributes(stream: StreamRef) -> dict[str, Any]:
    """The same as data; empty where the stream has none."""
    window = stream.window
    if isinstance(window, RowWindow):
        return {"rows": window.rows, "slide_rows": window.slide}
    if isinstance(window, RateWindow):
        return {"rate_us": window.interval, "by_arrival": window.by_arrival}
    if isinstance(window, LandmarkWindow):
        end = None if window.end is None else render(window.end)
        return {"from": render(window.start), "to": end, "slide_us": window.slide}
    return {} if stream.range is None else {"range_us": stream.range, "slide_us": stream.slide}


def pairs(most: Matrix, aliases: Sequence[str]) -> list[str]:
    """How far apart every two streams may be.

    >>> from slackwater.core.window_graph import close
    >>> from slackwater.core.time import before, within
    >>> for line in pairs(close(3, (*within(0, 1, 5000), *before(1, 2, 2000))), ["a", "b", "c"]):
    ...     print(line)
    a and b at most 5 ms apart
    c at most 5 ms before and 7 ms after a
    b before c, at most 2 ms
    """
    return [_pair(most[j][i], most[i][j], aliases[i], aliases[j]) for j in range(len(most)) for i in range(j)]


def _pair(after: int, before: int, first: str, second: str) -> str:
    """`second` may be so much after `first`, and so much before it."""
    if after == before:
        return f"{first} and {second} at most {format_duration(after)} apart"
    if before == 0:
        return f"{first} before {second}, at most {format_duration(after)}"
    if after == 0:
        return f"{second} before {first}, at most {format_duration(before)}"
    return f"{second} at most {format_duration(before)} before and {format_duration(after)} after {first}"
