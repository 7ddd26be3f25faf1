"""What is parsed and not offered: one pass over the tree of a query, before any name is resolved.

Invariant: whatever a text says that would not be looked at, or that does not go with the rest of it, is refused where
it stands, never ignored. A stream has a window of time, or another one, or none; never two. The inputs of a join have
windows that follow rates all or none: the sizes are kept in relation to one another, and what counts tuples of one
input has nothing to say about the time that another one goes by.

A query is over instantaneous windows where relations of one instant are combined: a join of windows that have a SLIDE;
an aggregate or a join over a sub-query without a window of its own, which has such windows inside; IN and EXISTS with a
query; SELECT DISTINCT from a window with a SLIDE; and any query around one of these. A query that has a meaning without
instants keeps it, as has one that compares the bounds of windows, by the names that it gives them. All windows of one
query slide together.

References: 001 §2.3; 004 §2.1.2.
"""

from __future__ import annotations

from slackwater.core.errors import QueryError
from slackwater.core.join_kinds import JoinKind
from slackwater.core.options import Options
from slackwater.core.quality import Complete, Quality, Recall, RelativeError, asks_estimates
from slackwater.core.results import ISTREAM, RSTREAM
from slackwater.core.time import format_duration
from slackwater.language.absence import check_absence, has_absence
from slackwater.language.asof_binding import as_of, check_as_of
from slackwater.language.groups import is_aggregation
from slackwater.language.kinds import KINDS
from slackwater.language.nodes import (
    MOST_STREAMS,
    Filling,
    Landmarks,
    Rate,
    Select,
    Sessions,
    Stream,
    Window,
    WindowForAll,
    refused,
    target_word,
    why_no_slide,
)
from slackwater.language.top_binding import check_no_top_inside, check_top

OF_TARGETS = frozenset(
    ("controller", "adaptation_interval", "granularity", "basic_window", "selectivity", "retrospect", "retention")
)
PUBLISHED = ("model", "pd")
MOST_UNITED = 8
_NO_SLIDE = "SLIDE belongs to aggregates; the window of a join moves with every tuple"
_NO_TARGET = (
    "{} is not offered with {}: a late tuple would change all windows after it, so what it costs has no bound;"
    " write DELAY, COMPLETE or NO WAIT"
)
_OTHERS = {Landmarks: "landmark windows", Sessions: "sessions", Filling: "windows that fill in steps"}
"""Windows of an aggregate that are not those of RANGE and SLIDE."""
_NO_TARGET_OF_SESSIONS = (
    "{} is not offered with {}: a late tuple may make one of two, so what it costs has no bound yet; write DELAY,"
    " COMPLETE or NO WAIT"
)
_NOT_IN_A_CHAIN = (
    "{} {} not offered in a query of several operators (sub-queries, UNION ALL, aggregates above joins); {}"
)


_NOT_ABOVE = "{} is not offered above sub-queries, nor with an aggregate of its own; {}"


def check(query: Select) -> None:
    """Refuse a query that is not offered."""
    check_no_top_inside(query)
    if over_instants(query):
        if query.top is not None:
            raise refused(query.top, "the first rows of windows that slide together are not offered; leave this out")
        check_instants(query)
    else:
        if _is_chained(query):
            _check_chain(query)
        _check_query(query, query.quality)
    _check_options(query)


def _is_chained(query: Select) -> bool:
    """Whether a query takes several operators."""
    nested = any(stream.query is not None for stream in query.streams)
    joined = len(query.streams) + len(query.members)
    absent = joined > 2 and has_absence(query)
    several = absent or ((joined > 1 or query.top is not None) and is_aggregation(query))
    several |= bool(query.kind) and joined > 1 and as_of(query) is None
    return bool(query.united) or nested or several


def _check_chain(query: Select) -> None:
    """Refuse windows of rows, landmarks, and results that leave later, in a query of several operators.

    Windows that follow rates may stand there: what comes from below is in order and never late.
    """
    for select in query.all_united:
        found = as_of(select)
        inside = [*select.members, *(one for one in select.streams if one.query is not None)]
        if found is not None and (is_aggregation(select) or inside):
            remedy = "it reads streams, and others read it: FROM (SELECT ... ASOF JOIN ...) j"
            raise refused(found, _NOT_ABOVE.format(found.join, remedy))
        if select.to_stream is not None and select.out.kind != ISTREAM:
            raise refused(select.to_stream, _NOT_IN_A_CHAIN.format(select.out.kind, "is", "leave it out"))
        for stream in select.streams:
            what = _other(stream)
            of_one = isinstance(stream.window, Sessions | Filling) and len(select.streams) == 1
            if what is not None and stream.window is not None and not of_one:
                raise refused(stream.window, _NOT_IN_A_CHAIN.format(what, "are", "write RANGE and a duration"))
            if stream.query is not None:
                _check_chain(stream.query)


def _check_query(query: Select, quality: Quality) -> None:
    if len(query.all_united) > MOST_UNITED:
        message = f"UNION ALL takes up to {MOST_UNITED} queries, not {len(query.all_united)}"
        raise refused(query.all_united[MOST_UNITED], message)
    for select in query.all_united:
        for stream in select.streams:
            if stream.query is not None:
                _check_query(stream.query, Complete())
        # A target is for the whole query, and a union is asked for one below.
        _check_select(select, quality if not query.united else Complete())


def _check_select(select: Select, quality: Quality) -> None:
    aggregation = is_aggregation(select)
    check_absence(select, aggregation)
    check_as_of(select)
    check_top(select, aggregation, quality)
    if select.kind:
        why = KINDS[select.kind].refusal(select, aggregation)
        if why is not None:
            raise why
    rated = [stream for stream in select.streams if isinstance(stream.window, Rate)]
    if rated:
        _check_rates(select, rated, aggregation, quality)
    elif select.match is not None:
        raise refused(
            select.match,
            "MATCH TIME is for joins whose windows follow rates, as in a [RATE 10 SECONDS]; elsewhere write it as a"
            " condition, as in WHERE abs(a.ts - b.ts) <= INTERVAL 5 SECONDS",
        )
    if select.windows and len(select.streams) == 1:
        message = "WINDOW and PATH are between the streams of a join; for one stream put the window in FROM"
        raise refused(select.windows[0], f"{message}, as in s [RANGE 1 MINUTE]")
    _check_windows(select, aggregation)
    _check_other_windows(select, aggregation, quality)
    why_not = _leaving(select, aggregation, quality)
    if why_not is not None and select.to_stream is not None:
        raise refused(select.to_stream, why_not)


def _check_windows(select: Select, aggregation: bool) -> None:
    joined = len(select.streams) > 1
    for clause in select.windows:
        if isinstance(clause, WindowForAll) and clause.slide is not None:
            why = _NO_SLIDE if not aggregation else why_no_slide(clause.slide, clause.size)
            if why is not None:
                raise refused(clause, why)
    for stream in select.streams:
        window = stream.window
        if window is None:
            # In a join conditions on event times may say it, which only names tell (`window_bounds`).
            if aggregation and not joined:
                message = (
                    f"stream {stream.alias} needs a window in an aggregate, as in {stream.alias} [RANGE 5 SECONDS]"
                )
                raise refused(stream, message)
        elif isinstance(window, Window):
            if window.slide is not None and (joined or not aggregation):
                hint = "; for an aggregate above it write WINDOW 5 SECONDS SLIDE 1 SECOND" if aggregation else ""
                raise refused(window, _NO_SLIDE + hint, window.slide_place)
            if aggregation and window.range <= 0:
                raise refused(window, "the window of an aggregate must be longer than nothing")
            why = None if window.slide is None else why_no_slide(window.slide, window.range, window.in_rows)
            if why is not None:
                raise refused(window, why, window.slide_place)


def _other(stream: Stream) -> str | None:
    """What a window of rows, or from tuple to tuple, is called."""
    for kind, name in _OTHERS.items():
        if isinstance(stream.window, kind):
            return name
    return "windows of rows" if isinstance(stream.window, Window) and stream.window.in_rows else None


def _check_other_windows(select: Select, aggregation: bool, quality: Quality) -> None:
    """Refuse what windows of rows and landmark windows cannot go with."""
    for stream in select.streams:
        window, what = stream.window, _other(stream)
        if window is None or what is None:
            continue
        if isinstance(window, Landmarks) and not aggregation:
            message = "a landmark window is for aggregates; in a join write RANGE and a duration, or ROWS and a number"
            raise refused(window, message)
        if isinstance(window, Sessions | Filling) and not aggregation:
            message = f"{what} are for aggregates of one stream; in a join write RANGE and a duration"
            raise refused(window, message)
        # Above other operators RECALL is of the rows that reach the aggregate, whatever that makes of them.
        of_rows = (
            isinstance(quality, Recall) and stream.query is not None and not isinstance(window, Landmarks | Window)
        )
        if isinstance(quality, Recall | RelativeError) and not of_rows:
            no_target = _NO_TARGET_OF_SESSIONS if isinstance(window, Sessions) else _NO_TARGET
            raise _refused_target(select, no_target.format(target_word(quality), what))
        if select.windows:
            message = f"{what} do not go with windows between streams, which are of time; write RANGE, or drop these"
            raise refused(window, message)


def _check_rates(select: Select, rated: list[Stream], aggregation: bool, quality: Quality) -> None:
    """Refuse what windows that follow rates cannot go with."""
    first = rated[0].window
    assert isinstance(first, Rate), "it follows a rate"
    if aggregation and len(select.streams) > 1:
        message = (
            "an aggregate above a join whose windows follow rates needs a window of time of its own, as in"
            " SELECT COUNT(*) FROM (SELECT ...) j [RANGE 1 MINUTE]"
        )
        raise refused(first, message)
    if aggregation:
        raise refused(first, "RATE is for joins; in an aggregate write RANGE and a duration, or ROWS and a number")
    if len(select.streams) == 1:
        raise refused(first, "RATE is for joins; a query of one stream without aggregates needs no window")
    if select.windows:
        message = (
            "windows that follow rates do not go with windows between streams, which are of time; write RANGE, or drop"
            " these and write MATCH TIME WITHIN and a duration"
        )
        raise refused(select.windows[0], message)
    for stream in select.streams:
        if not isinstance(stream.window, Rate):
            message = (
                f"RATE stands after every input of a join or after none, and {stream.alias} has none; write"
                f" {stream.alias} [RATE 10 SECONDS], or RANGE after all"
            )
            raise refused(stream.window or stream, message)
    for stream in rated:
        if isinstance(stream.window, Rate) and stream.window.by_arrival != first.by_arrival:
            message = "BY ARRIVAL stands after every input of a join or after none, since all are sampled together"
            raise refused(stream.window, message)
    if isinstance(quality, Recall | RelativeError):
        message = (
            f"{target_word(quality)} is not offered with windows that follow rates: they count tuples, so a late one"
            " would change all windows after it, and what it costs has no bound; write DELAY, COMPLETE or NO WAIT"
        )
        raise _refused_target(select, message)


def _leaving(select: Select, aggregation: bool, quality: Quality) -> str | None:
    """Why results cannot leave as is asked; None if they can. ISTREAM is what a query without a word does."""
    kind, every = select.out.kind, select.out.every
    if kind == ISTREAM or (aggregation and kind == RSTREAM and every is None):
        return None
    if aggregation and every is not None:
        return "EVERY is for joins; the answers of an aggregate come with its windows, as SLIDE says"
    if kind == RSTREAM and every is None:
        return "RSTREAM gives all results in force again and again; say how often, as in RSTREAM EVERY 1 SECOND"
    if isinstance(quality, Recall | RelativeError):
        return f"RECALL and ERROR are about results when they are made; with {kind} write DELAY, COMPLETE or NO WAIT"
    if select.windows:
        return f"{kind} needs one window for each stream; windows between streams do not say when a result ends"
    for stream in select.streams:
        if stream.window is None:
            return f"{kind} needs a window, to know when a result ends, as in {stream.alias} [RANGE 5 SECONDS]"
        if _other(stream) or isinstance(stream.window, Rate):
            return f"{kind} needs windows of time, to know when a result ends; stream {stream.alias} has another one"
    return None


def _check_options(query: Select) -> None:
    """Refuse options that say something about what the query does not have."""
    settings, quality = query.settings, query.quality
    if settings is None:
        return
    for name, place in settings.places.items():
        why = _of_no_use(name, settings.options, quality)
        if why is not None:
            raise refused(settings, f"option {name} {why}; leave it out", place)
    # The model counts delays in steps of g and windows in pieces of b; steps and pieces must fall together.
    b, g = settings.options.basic_window, settings.options.granularity
    if not isinstance(quality, Recall | RelativeError) or b % g == 0 or g % b == 0:
        return
    message = (
        f"basic_window ({format_duration(b)}) must be a multiple of granularity ({format_duration(g)}) or divide it;"
        f" write basic_window = {format_duration(g)}, or another multiple"
    )
    raise refused(settings, message, settings.places.get("basic_window") or settings.places["granularity"])


def _of_no_use(name: str, options: Options, quality: Quality) -> str | None:
    if not isinstance(quality, Recall | RelativeError):
        if name not in OF_TARGETS:
            return None
        return f"is for WITH RECALL and WITH ERROR, where a slack is looked for, and this query is {quality}"
    if name == "controller" and options.controller in PUBLISHED and quality.at_most is not None:
        return f"is '{options.controller}', as published, and that knows no AT MOST"
    if name == "controller" and options.controller in PUBLISHED and asks_estimates(quality):
        return f"is '{options.controller}', as published, and that gives no estimates"
    if name == "selectivity" and isinstance(quality, RelativeError):
        return "is for recall targets alone: an aggregate selects nothing"
    if name == "selectivity" and options.controller != "model":
        return "is for controller = 'model' alone"
    if name == "retrospect" and isinstance(quality, Recall):
        return "is for WITH ERROR alone: recall is measured over the period that RECALL states"
    if name == "retrospect" and options.controller not in PUBLISHED:
        return "is for controller = 'model' and 'pd', which look back so far"
    return None


def _refused_target(select: Select, message: str) -> QueryError:
    assert select.target is not None, "a target is refused that is stated"
    return refused(select.target, message)


def check_aliases(select: Select) -> None:
    """Refuse more entries of FROM than a join takes, and two of one name."""
    if len(select.streams) > MOST_STREAMS:
        message = f"a join takes 2 to {MOST_STREAMS} streams, not {len(select.streams)}"
        raise refused(select.streams[MOST_STREAMS], message)
    taken: set[str] = set()
    for stream in select.streams:
        if stream.alias in taken:
            message = f"two streams in FROM are called '{stream.alias}'; name one otherwise with AS"
            raise refused(stream, message, stream.alias_place)
        taken.add(stream.alias)


def over_instants(query: Select) -> bool:
    """Whether a query is one over instantaneous windows."""
    if query.united:
        return any(_select_over_instants(one) for one in (query, *query.united))
    return _select_over_instants(query)


def _select_over_instants(query: Select) -> bool:
    streams = query.streams
    if (query.members and any(map(_slides_inside, (query, *query.members)))) or any(
        stream.query is not None and over_instants(stream.query) for stream in streams
    ):
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
    """Whether some window of a query slides, or of those inside it that have no window of their own. Where a query
    gives the bounds of its windows names, the queries around it go by these."""
    if any(one.named_bounds for one in (query, *query.united)):
        return False
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
    found = as_of(query)
    if found is not None:
        raise refused(found, f"{found.join} is not offered where windows slide together; it takes no windows")
    outer = next((stream for stream in query.streams if stream.kind is not JoinKind.INNER), None)
    if outer is not None:
        message = f"{outer.join} is not offered where windows slide together; write IN or EXISTS with a query in WHERE"
        raise refused(outer, message)
    if query.united:
        message = "UNION ALL is not offered where windows slide together; run one query for each part"
        raise refused(query.united[0], message)
    for stream in query.streams:
        if stream.using:
            message = "USING is not offered where windows slide together; write ON, as in ON a.key = b.key"
            raise refused(stream.using[0], message)
    if query.windows:
        message = "WINDOW and PATH are between tuples of a join; where windows slide together each stands in brackets"
        raise refused(query.windows[0], message)
    if query.match is not None:
        message = "MATCH TIME is for windows that follow rates, and these slide together; leave it out"
        raise refused(query.match, message)
    if not outermost and query.to_stream is not None and query.out.kind != ISTREAM:
        message = f"{query.out.kind} says how results leave, and these stay inside of the query; leave it out"
        raise refused(query.to_stream, message)
