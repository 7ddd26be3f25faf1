"""Which queries are over instantaneous windows, and what their windows may be.

A query is one where relations of one instant are combined: a join of windows that have a SLIDE; an aggregate or a join
over a sub-query without a window of its own, which has such windows inside; IN and EXISTS with a query; SELECT DISTINCT
from a window with a SLIDE; and any query around one of these.

Invariant: a query that has a meaning without instants keeps it. All windows of one query slide together.
"""

from __future__ import annotations

from slackwater.core.quality import Recall, RelativeError
from slackwater.core.results import ISTREAM, RSTREAM
from slackwater.core.time import format_duration
from slackwater.language.groups import is_aggregation
from slackwater.language.nodes import Select, Stream, Window, refused, target_word, why_no_slide


def over_instants(query: Select) -> bool:
    """Whether a query is one over instantaneous windows."""
    if query.united:
        return any(_select_over_instants(one) for one in (query, *query.united))
    return _select_over_instants(query)


def _select_over_instants(query: Select) -> bool:
    streams = query.streams
    if query.members or any(stream.query is not None and over_instants(stream.query) for stream in streams):
        return True
    bare = [stream.query for stream in streams if stream.query is not None and stream.window is None]
    if len(streams) > 1:
        return any(map(_slides, streams)) or (not query.windows and any(map(_slides_inside, bare)))
    if bare:
        return is_aggregation(query) and _slides_inside(bare[0])
    return query.kind == "DISTINCT" and _slides(streams[0])


def _slides(stream: Stream) -> bool:
    """Whether an entry of FROM has a window of time with a SLIDE."""
    return isinstance(stream.window, Window) and not stream.window.in_rows and stream.window.slide is not None


def _slides_inside(query: Select) -> bool:
    """Whether some window of a query slides, or of those inside it that have no window of their own."""
    for stream in (stream for one in (query, *query.united) for stream in one.streams):
        if _slides(stream) or (stream.query is not None and stream.window is None and _slides_inside(stream.query)):
            return True
    return False


def check_instants(query: Select) -> None:
    """Refuse what does not go with instants in a whole query."""
    if query.target is not None and isinstance(query.quality, Recall | RelativeError):
        message = (
            f"{target_word(query.quality)} is not offered over windows that slide together: what a missing tuple does"
            " to a join or an aggregate of an instant has no bound; write COMPLETE, NO WAIT or DELAY"
        )
        raise refused(query.target, message)
    if query.to_stream is not None and (query.out.every is not None or query.out.kind not in (ISTREAM, RSTREAM)):
        message = f"{query.out.kind} is not offered here: at every slide all rows of that instant leave; leave it out"
        if query.out.every is not None:
            message = "EVERY is for joins that move with every tuple; here rows leave at every SLIDE"
        raise refused(query.to_stream, message)
    check_select(query, outermost=True)


def check_select(query: Select, outermost: bool = False) -> None:
    """Refuse clauses that one SELECT, which is part of such a query, cannot have."""
    if query.united:
        message = "UNION ALL is not offered where windows slide together; run one query for each part"
        raise refused(query.united[0], message)
    if query.windows:
        message = "WINDOW and PATH are between tuples of a join; where windows slide together each stands in brackets"
        raise refused(query.windows[0], message)
    if query.match is not None:
        message = "MATCH TIME is for windows that follow rates, and these slide together; leave it out"
        raise refused(query.match, message)
    if not outermost and query.to_stream is not None and query.out.kind != ISTREAM:
        message = f"{query.out.kind} says how results leave, and these stay inside of the query; leave it out"
        raise refused(query.to_stream, message)


class Slides:
    """Reads the windows of a query one after the other, and knows the slide that the first has stated."""

    def __init__(self) -> None:
        self.slide: int | None = None

    def window_of(self, stream: Stream) -> Window:
        """The window of an entry that reads a source."""
        window, known = stream.window, self.slide
        wanted = f"{stream.alias} [RANGE 5 MINUTES SLIDE {format_duration(known) if known else '1 SECOND'}]"
        if window is None:
            message = f"stream {stream.alias} needs a window that slides with the others, as in {wanted}"
            raise refused(stream, message)
        if not isinstance(window, Window) or window.in_rows:
            message = f"windows that slide together are of time; write RANGE and SLIDE, as in {wanted}"
            raise refused(window, message)
        if window.slide is None:
            message = (
                "all windows of this query are read at the same instants, so this one needs the SLIDE of the others,"
                f" as in {wanted}"
            )
            raise refused(window, message)
        if known is not None and window.slide != known:
            message = (
                f"this window slides by {format_duration(window.slide)} and another of this query by"
                f" {format_duration(known)}; all are read at the same instants, so write the same SLIDE"
            )
            raise refused(window, message, window.slide_place)
        why = why_no_slide(window.slide, window.range)
        if why is not None:
            raise refused(window, why, window.slide_place)
        self.slide = window.slide
        return window

    def no_window_of(self, stream: Stream) -> None:
        """Refuse a window behind a sub-query."""
        if stream.window is not None:
            message = (
                f"{stream.alias} is read at the same instants as the windows inside it, and has no window of its own;"
                " leave it out"
            )
            raise refused(stream.window, message)
