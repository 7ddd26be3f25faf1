"""Windows as Spark and Flink write them, read as windows in brackets.

`GROUP BY window(ts, '5 minutes', '1 minute')` and `FROM HOP(TABLE s, DESCRIPTOR(ts), INTERVAL 1 MINUTE, INTERVAL 5
MINUTES)` are `s [RANGE 5 MINUTES SLIDE 1 MINUTE]`; `GROUP BY session_window(ts, '30 minutes'), user` and `FROM
SESSION(TABLE s PARTITION BY user, DESCRIPTOR(ts), INTERVAL 30 MINUTES)` are `s [SESSION 30 MINUTES]`; `s WATERMARK ts
DELAY OF INTERVAL 10 SECONDS` is WITH DELAY. Rows of TUMBLE and HOP that nothing is aggregated in have the bounds of
their window as columns, which is how Flink joins windows: then `TABLE(TUMBLE(TABLE s, ...))` is a sub-query.

Invariant: the tree has brackets and a target, whatever was written, and is written so. Which column was named as the
event time is remembered with the stream (`meta[TIME]`), for the binder to compare with that of the stream.
"""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from slackwater.core.errors import QueryError
from slackwater.core.quality import Delay
from slackwater.core.time import format_duration, parse_duration, unit_size
from slackwater.language.clause_parser import ClauseParser
from slackwater.language.forms import first_aggregate, span
from slackwater.language.nodes import (
    TIME,
    Filling,
    Item,
    Select,
    Sessions,
    Stream,
    Target,
    Window,
    name_place,
    place_of,
    put,
    why_no_step,
)
from slackwater.language.scope import Scope
from slackwater.language.tokens import is_name

_GROUPS = ("window", "tumble", "hop", "session_window", "session")
"""What GROUP BY calls for a window."""
_TABLES = ("TUMBLE", "HOP", "SESSION", "CUMULATE")
_SIZES = {"TUMBLE": ("SIZE",), "HOP": ("SLIDE", "SIZE"), "SESSION": ("GAP",), "CUMULATE": ("STEP", "SIZE")}
_AS_IN = {
    "TUMBLE": "TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL 1 MINUTE)",
    "HOP": "HOP(TABLE s, DESCRIPTOR(ts), INTERVAL 10 SECONDS, INTERVAL 1 MINUTE)",
    "CUMULATE": "CUMULATE(TABLE s, DESCRIPTOR(ts), INTERVAL 1 HOUR, INTERVAL 1 DAY)",
    "SESSION": "SESSION(TABLE s PARTITION BY key, DESCRIPTOR(ts), INTERVAL 30 MINUTES)",
}
_BOUNDS = {"window_start", "window_end", "window_time"}
_MOST_WINDOWS = 8
"""In how many windows a row may be that has the bounds of its window; each is a query of a UNION ALL."""
_ALIGNED = "windows are aligned to 1970-01-01 UTC, and an offset is not offered; leave it out"


class WindowFunctionParser(ClauseParser):
    """Reads windows that are written as functions, and watermarks."""

    waits: Target | None
    """The target that the watermark with the longest delay says, which is `delay`."""
    delay: int

    def read_interval(self, what: str) -> int:
        """INTERVAL '1' MINUTE, INTERVAL 1 MINUTE or '1 minute', as microseconds."""
        self.accept("INTERVAL")
        first, unit = self.peek(), self.peek(1)
        if first is None or unit is None or first.token_type != TokenType.STRING or unit_size(unit.text) is None:
            return self.read_duration(what)
        self.take()
        self.take()
        try:
            return parse_duration(f"{first.text} {unit.text}")
        except ValueError as error:
            raise QueryError(str(error), self.sql, first.start, unit.end + 1) from None

    # In FROM.

    def begins_table_function(self) -> bool:
        """Whether TUMBLE(...) or another comes next, by itself or in TABLE(...), and not a stream called so."""
        return self.word() in (*_TABLES, "TABLE") and self.word(1) == "("

    def read_table_function(self, stream: Stream) -> None:
        """What it reads and its window, for an entry of FROM."""
        wrapped = self.accept("TABLE", "(")
        token = self.peek()
        name = self.word()
        if token is None or name not in _TABLES or self.word(1) != "(":
            self.fail(f"expected a window here, as in TABLE({_AS_IN['TUMBLE']})")
        self.take()
        self.take()
        self._named_argument("DATA")
        if is_name(self.peek(1)):
            self.accept("TABLE")
        self.read_table(stream)
        keys = self._partition(name)
        self._comma(name)
        self._named_argument("TIMECOL")
        self._descriptor(stream, name)
        lengths = {}
        for what in _SIZES[name]:
            self._comma(name)
            given = self._named_argument(*_SIZES[name]) or what
            lengths[given] = self.read_interval(f"the {given.lower()} of the window")
        if self.accept(","):
            self.fail("a session has a gap and nothing else" if name == "SESSION" else _ALIGNED)
        for _ in range(1 + wrapped):
            if not self.accept(")"):
                self.fail(f"expected ')' here, as in {_AS_IN[name]}")
        if len(lengths) < len(_SIZES[name]):
            self.fail(f"{name} needs its slide and its size, as in {_AS_IN[name]}", token)
        place = token.start, self._prev.end + 1
        if name == "SESSION":
            window: Window | Sessions | Filling = self._session(lengths["GAP"], place)
            window.meta["keys"] = keys
        elif name == "CUMULATE":
            window = self._filled(lengths["SIZE"], lengths["STEP"], place)
        else:
            window = _window(lengths["SIZE"], lengths.get("SLIDE"), place)
        window.meta["function"] = name
        stream.set("window", window)

    def read_table(self, stream: Stream) -> None:
        """What a window is of: TABLE s, s, or a query in parentheses."""
        raise NotImplementedError

    def is_numbered(self, query: object) -> bool:
        """Whether a query numbers its rows."""
        raise NotImplementedError

    def _partition(self, name: str) -> set[str]:
        """The columns of PARTITION BY, if that comes next."""
        keys: set[str] = set()
        if name == "SESSION" and self.accept("PARTITION", "BY"):
            keys.add(self.name("a column that sessions are of").name.lower())
            # A comma also stands before DESCRIPTOR(ts), and before TIMECOL => DESCRIPTOR(ts).
            while self.word() == "," and self.word(2) not in ("(", "="):
                self.take()
                keys.add(self.name("a column that sessions are of").name.lower())
        return keys

    def _filled(self, size: int, step: int, place: tuple[int, int]) -> Filling:
        why = why_no_step(step, size)
        if why is not None:
            raise QueryError(why, self.sql, *place)
        window = Filling(range=size, step=step)
        put(window, *place)
        return window

    def _session(self, gap: int, place: tuple[int, int]) -> Sessions:
        if gap <= 0:
            raise QueryError("the gap between sessions must be longer than nothing", self.sql, *place)
        window = Sessions(gap=gap)
        put(window, *place)
        return window

    def _descriptor(self, stream: Stream, name: str) -> None:
        if not self.accept("DESCRIPTOR", "("):
            self.fail(f"expected DESCRIPTOR and the event time here, as in {_AS_IN[name]}")
        stream.meta[TIME] = exp.Column(this=self.name("the column of event times"))
        if not self.accept(")"):
            self.fail("expected ')' here, as in DESCRIPTOR(ts)")

    def _named_argument(self, *names: str) -> str | None:
        """SIZE =>, if that comes next; Flink lets arguments have names."""
        if self.word() not in names or self.word(1) != "=" or self.word(2) != ">":
            return None
        found = self.word()
        self._advance(3)
        return found

    def _comma(self, name: str) -> None:
        if not self.accept(","):
            self.fail(f"expected ',' here, as in {_AS_IN[name]}")

    def begins_watermark(self) -> bool:
        """Whether a watermark comes next, and not a stream's other name."""
        return self.word() == "WATERMARK" and is_name(self.peek(1)) and self.word(2) in ("DELAY", ".", "AS")

    def read_watermark(self, stream: Stream) -> None:
        """WATERMARK ts DELAY OF INTERVAL 10 SECONDS, if that comes next."""
        if not self.begins_watermark():
            return
        first = self.take()
        stream.meta[TIME] = exp.Column(this=self.name("the column of event times"))
        if not self.accept("DELAY", "OF"):
            self.fail("expected DELAY OF and an interval here, as in WATERMARK ts DELAY OF INTERVAL 10 SECONDS")
        delay = self.read_interval("the delay")
        if self.waits is None or delay > self.delay:
            self.waits, self.delay = self.placed(Target(quality=Delay(delay)), first), delay

    # In GROUP BY.

    def move_window(self, select: Select) -> None:
        """A window that GROUP BY names becomes that of the stream."""
        called = [one for one in select.groups or () if isinstance(one, exp.Anonymous)]
        calls = [one for one in called if one.name.lower() in _GROUPS]
        if not calls:
            self._check_functions(select)
            _take_windows(select)
            return
        call, name = calls[0], calls[0].name.lower()
        if len(calls) > 1:
            raise self._refused("a query has one window; leave this one out", calls[1])
        if len(select.streams) > 1:
            why = (
                f"{name} in GROUP BY is for one stream; make a sub-query of the join, as in FROM (SELECT ...) j"
                f" GROUP BY {name}(_ts, '5 minutes'); beside a static relation put it in FROM: s [RANGE 5 MINUTES]"
            )
            raise self._refused(why, call)
        (stream,) = select.streams
        if stream.window is not None:
            raise self._refused(f"{stream.alias} has a window already; leave one of them out", call)
        rest = [one for one in select.groups or () if one is not call]
        shown = [item.node for item in select.items] + ([] if select.having is None else [select.having])
        if not rest and not any(first_aggregate(node) for node in shown):
            raise self._refused("GROUP BY needs an aggregate in the SELECT list, such as COUNT(*)", call)
        stream.meta[TIME], size, slide = window_said(call, self.sql)
        of_sessions = name.startswith("session")
        stream.set(
            "window", self._session(size, place_of(call)) if of_sessions else _window(size, slide, place_of(call))
        )
        select.set("groups", rest or None)

    def _check_functions(self, select: Select) -> None:
        """Refuse windows in FROM that nothing is aggregated in."""
        for stream in select.streams:
            window = stream.window
            function = None if window is None else window.meta.get("function")
            if isinstance(window, Sessions):
                self._check_keys(select, window)
            if window is None or function is None or (len(select.streams) == 1 and select.groups is not None):
                if isinstance(window, Window) and function is not None and stream.query is not None:
                    _name_own_window(select, stream, window)
                continue
            if len(select.streams) == 1 and (select.top is not None or self.is_numbered(select)):
                continue
            if len(select.streams) > 1 or not any(first_aggregate(item.node) for item in select.items):
                if isinstance(window, Window):
                    self._show_bounds(select, stream, window)
                    continue
                why = (
                    f"{function} is for aggregates of one stream, with GROUP BY window_start, window_end; in a join"
                    " write [RANGE 1 MINUTE], or conditions on event times"
                )
                raise self._refused(why, window)

    def _show_bounds(self, select: Select, stream: Stream, window: Window) -> None:
        """Make an entry of FROM a sub-query, whose rows have the window that they are in; of windows that slide, the
        rows once for each window."""
        name = exp.to_identifier(stream.alias)
        reads = Stream(reads=stream.reads, called=name if isinstance(stream.reads, Select) else None, join=",")
        reads.meta.update({key: stream.meta.pop(key) for key in (TIME, "query") if key in stream.meta})
        slide = window.slide or window.range
        shown, *others = (_with_bounds(reads, window, earlier) for earlier in range(0, window.range, slide))
        if len(others) >= _MOST_WINDOWS:
            why = (
                f"a row would be in {len(others) + 1} windows, and rows with the bounds of theirs in up to"
                f" {_MOST_WINDOWS}; write {stream.alias} [RANGE {format_duration(window.range)} SLIDE"
                f" {format_duration(slide)}] in a join, or an aggregate"
            )
            raise self._refused(why, window)
        shown.set("united", others)
        stream.set("reads", shown)
        stream.set("called", stream.called or name)
        stream.set("window", None)
        alone = len(select.streams) == 1 and select.where is None and not select.kind and not others
        if alone and _is_all(select.items):
            # SELECT * of it is the sub-query itself.
            select.set("items", shown.items)
            select.set("streams", shown.streams)

    def _check_keys(self, select: Select, window: Sessions) -> None:
        """Refuse sessions of other keys than those of GROUP BY, where a function names keys."""
        groups = select.groups or ()
        named = {one.name.lower() for one in groups if isinstance(one, exp.Column)}
        if "keys" in window.meta and (len(groups) != len(named) or named - _BOUNDS != window.meta["keys"]):
            raise self._refused("sessions are those of the keys of GROUP BY; name the same in PARTITION BY", window)

    def _refused(self, message: str, node: exp.Expr) -> QueryError:
        return QueryError(
            message, self.sql, *(place_of(node) if isinstance(node, Window | Sessions | Filling) else name_place(node))
        )


def window_said(call: exp.Anonymous, text: str) -> tuple[exp.Expr, int, int | None]:
    """The event time, the size and the slide that window(...), TUMBLE(...), HOP_START(...) or another says."""
    kind, parts = call.name.lower().partition("_")[0], call.expressions
    least, most = {"window": (2, 4), "tumble": (2, 3), "hop": (3, 4), "session": (2, 2)}[kind]
    if not least <= len(parts) <= most:
        durations = "INTERVAL '1' MINUTE, INTERVAL '5' MINUTE" if kind == "hop" else "'5 minutes'"
        message = f"{call.name} takes the event time and durations, as in {call.name}(ts, {durations})"
        raise QueryError(message, text, *name_place(call))
    sizes = [_length(part, text) for part in parts[1:]]
    if len(parts) == most and kind != "session" and sizes.pop() != 0:
        raise QueryError(_ALIGNED, text, *place_of(parts[-1]))
    first, second = sizes[0], sizes[1] if len(sizes) > 1 else sizes[0]
    size, slide = (second, first) if kind == "hop" else (first, second)
    return parts[0], size, None if slide == size else slide


def _name_own_window(select: Select, stream: Stream, window: Window) -> None:
    """What an aggregate calls window_start is that of its own window, also where the rows it reads have one."""
    lengths = [window.range] if window.slide is None else [window.slide, window.range]
    kind = "TUMBLE" if window.slide is None else "HOP"

    def own(node: exp.Expr) -> exp.Expr:
        bound = node.name.lower().removeprefix("window_") if isinstance(node, exp.Column) else ""
        if bound not in ("start", "end", "time") or node.args.get("table") is not None:
            return node
        call = exp.Anonymous(
            this=f"{kind}_{'rowtime' if bound == 'time' else bound}".upper(),
            expressions=[stream.meta[TIME].copy(), *(exp.Literal.string(format_duration(size)) for size in lengths)],
        )
        put(call, *place_of(node))
        return call

    for item in select.items:
        item.set("node", item.node.transform(own))
    select.set("groups", [node.transform(own) for node in select.groups or ()])


def _take_windows(select: Select) -> None:
    """Groups by the bounds of windows below, under the names these have, are of the rows of one window each."""
    (stream, *others), groups = select.streams, select.groups or ()
    below = stream.query
    if below is None or others or stream.window is not None or below.united or len(below.streams) > 1:
        return
    window = below.streams[0].window
    named = any(isinstance(one, exp.Column) and one.name.lower() in below.named_bounds for one in groups)
    if named and isinstance(window, Window) and not window.in_rows:
        stream.set("window", _window(window.slide or window.range, None, place_of(stream)))


def _with_bounds(reads: Stream, window: Window, earlier: int) -> Select:
    """The rows of a stream with the bounds of a window that they are in: the one that begins last, or `earlier`."""
    slide, inner = window.slide or window.range, reads.copy()
    size = exp.Literal.string(format_duration(slide))
    last = exp.Anonymous(this="TIME_BUCKET", expressions=[size, inner.meta[TIME].copy()])
    items = [Item(node=exp.Star())]
    ends = {"window_start": 0, "window_end": window.range, "window_time": window.range - 1}
    bounds = {bound: _moved(last.copy(), end - earlier) for bound, end in ends.items()}
    items += [Item(node=node, called=exp.to_identifier(bound)) for bound, node in bounds.items()]
    shown = Select(kind="", items=items, streams=[inner])
    if earlier + slide > window.range:
        shown.set("where", exp.LT(this=inner.meta[TIME].copy(), expression=bounds["window_end"].copy()))
    for part in (inner, *items, shown):
        put(part, *place_of(window))
    return shown


def _moved(moment: exp.Expr, by: int) -> exp.Expr:
    """A time, so many microseconds later, or earlier."""
    size = exp.Interval(this=exp.Literal.string(str(abs(by))), unit=exp.Var(this="MICROSECONDS"))
    moved = exp.Sub if by < 0 else exp.Add
    return moved(this=moment, expression=size) if by else moment


def _is_all(items: list[Item]) -> bool:
    """Whether a SELECT list is a star and nothing else."""
    return [type(item.node) for item in items] == [exp.Star]


def _length(node: exp.Expr, text: str) -> int:
    if isinstance(node, exp.Interval):
        found = span(node, Scope(text, ()))
        if not found.months:
            return found.micros
    elif isinstance(node, exp.Literal) and node.is_string:
        try:
            return parse_duration(str(node.this).lower().removeprefix("interval "))
        except ValueError as error:
            raise QueryError(str(error), text, *place_of(node)) from None
    raise QueryError("expected a duration here, such as '5 minutes'", text, *place_of(node))


def _window(size: int, slide: int | None, place: tuple[int, int]) -> Window:
    window = Window(range=size, slide=None if slide == size else slide, in_rows=False)
    window.meta["slide"] = place
    put(window, *place)
    return window
