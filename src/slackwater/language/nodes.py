"""The clauses SQL does not have, as nodes of the tree that sqlglot's own nodes make of the rest.

A new clause is a class here, a method of the parser and a method of the generator.

Invariant: a node holds what was written as values of the model, in microseconds and shares; `place_of` is where it
stands in the text, which the root knows. Nothing of a tree is text to be parsed again.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar, overload

from sqlglot import exp

from slackwater.core.emitting import ONCE, Emit
from slackwater.core.errors import QueryError
from slackwater.core.join_kinds import JoinKind
from slackwater.core.options import Options
from slackwater.core.quality import Complete, Quality
from slackwater.core.results import AS_MADE, Out

Place = tuple[int, int]
EXPLAIN_AS = ("TEXT", "JSON")
"""The forms that EXPLAIN has; the first is that of a text that names none."""
MOST_STREAMS = 8
"""Streams of a join."""
MOST_WINDOWS = 1_000_000
"""In how many windows a tuple may be."""
_T = TypeVar("_T")
TEXT, TIME, _PLACE = "text", "time", "place"
"""What the root of a tree, a stream whose event time is named, and each node, remember besides their arguments."""


class Part(Generic[_T]):
    """An argument of a node as an attribute of its type; a node without it has the default."""

    def __init__(self, default: Any = None) -> None:
        self._default = default
        self._name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, node: None, owner: type) -> Part[_T]: ...
    @overload
    def __get__(self, node: exp.Expr, owner: type) -> _T: ...
    def __get__(self, node: exp.Expr | None, owner: type) -> Part[_T] | _T:
        if node is None:
            return self
        found = node.args.get(self._name)
        value: _T = self._default if found is None else found
        return value


class Clause(exp.Expression):
    """A node that is not of SQL; each of its attributes is a `Part`."""

    def __init_subclass__(cls, **words: Any) -> None:
        super().__init_subclass__(**words)
        cls.arg_types = {name: False for name, part in vars(cls).items() if isinstance(part, Part)}

    @property
    def place(self) -> Place:
        """Where it stands in the text."""
        return place_of(self)


class Window(Clause):
    """`[RANGE range SLIDE slide]`; `in_rows`, `[ROWS range SLIDE slide]`, in tuples."""

    range = Part[int]()
    slide = Part[int | None]()
    in_rows = Part[bool](False)

    @property
    def slide_place(self) -> Place:
        """Where its SLIDE stands."""
        place: Place = self.meta["slide"]
        return place


class Landmarks(Clause):
    """`[START WHEN condition END WHEN condition]`, or without an end and with SLIDE."""

    start = Part[exp.Expr]()
    end = Part[exp.Expr | None]()
    slide = Part[int | None]()


class Rate(Clause):
    """`[RATE interval BY ARRIVAL]`."""

    interval = Part[int]()
    by_arrival = Part[bool](False)


class Filling(Clause):
    """`[RANGE range CUMULATE step]`."""

    range = Part[int]()
    step = Part[int]()


class Sessions(Clause):
    """`[SESSION gap AT MOST most]`."""

    gap = Part[int]()
    most = Part[int | None]()


class WindowForAll(Clause):
    """`WINDOW = size`: all streams within it of each other. `SLIDE` is for an aggregate above the join."""

    size = Part[int]()
    slide = Part[int | None]()


class WindowPath(Clause):
    """`PATH a -> b -> c WITHIN (...)`; a pair, `DWINDOW (a, b)` or `WINDOW (a, b)`, is a path of two streams.

    `ordered`: each stream comes with or after the one before it. `reversible`: or all of them in the opposite order.
    """

    streams = Part[list[exp.Identifier]]()
    sizes = Part[list[int]]()
    ordered = Part[bool](False)
    reversible = Part[bool](False)


class MatchTime(Clause):
    """`MATCH TIME WITHIN within`."""

    within = Part[int | None]()


class RelationToStream(Clause):
    """`ISTREAM`, `DSTREAM` or `RSTREAM EVERY period` behind SELECT."""

    out = Part[Out](AS_MADE)


class Emitted(Clause):
    """`EMIT ON ARRIVAL`, or another way to leave."""

    emit = Part[Emit]()


class Target(Clause):
    """`WITH RECALL 0.99 OVER 1 MINUTE`, or another target."""

    quality = Part[Quality]()


class Settings(Clause):
    """`OPTIONS (name = value, ...)`."""

    options = Part[Options]()

    @property
    def places(self) -> dict[str, Place]:
        """Where the options that are stated stand."""
        found: dict[str, Place] = self.meta["options"]
        return found


class ColonCast(exp.Cast):
    """`value::type`."""


class Item(Clause):
    """One item of the SELECT list, with the name it is given."""

    node = Part[exp.Expr]()
    called = Part[exp.Identifier | None]()

    @property
    def requested_name(self) -> str | None:
        """The name it is given."""
        return None if self.called is None else self.called.name


class Stream(Clause):
    """One entry of FROM: the name of a stream or of a sub-query, or a sub-query."""

    reads = Part["exp.Identifier | Select"]()
    called = Part[exp.Identifier | None]()
    window = Part[Window | Landmarks | Rate | Sessions | Filling | None]()
    join = Part[str](",")
    """What stands before it: a comma, JOIN, CROSS JOIN, or one of JOINED_AS or ASOF_JOINS."""
    on = Part[exp.Expr | None]()
    using = Part[list[exp.Identifier]](())
    """The columns of USING, instead of ON."""
    match_condition = Part[exp.Expr | None]()
    """What MATCH_CONDITION of an as-of join says, without the parentheses."""
    within = Part[int | None]()
    """How much older the version of an as-of join may be."""
    as_of = Part[exp.Column | None]()
    """The time behind FOR SYSTEM_TIME AS OF, which makes JOIN an as-of join."""

    @property
    def kind(self) -> JoinKind:
        """What becomes of tuples without partner."""
        return JOINED_AS.get(self.join, JoinKind.INNER)

    @property
    def join_as_written(self) -> str:
        """What stands before it where FOR SYSTEM_TIME stands behind it."""
        return self.join if self.as_of is None else self.join.replace("ASOF ", "")

    @property
    def outer(self) -> bool:
        """Of an as-of join: whether what has no version leaves too."""
        return ASOF_JOINS.get(self.join, False)

    @property
    def query(self) -> Select | None:
        """What the sub-query says; None where it reads a source."""
        found: Select | None = self.reads if isinstance(self.reads, Select) else self.meta.get("query")
        return found

    @property
    def source(self) -> str:
        """The source it reads; empty for a sub-query."""
        return self.reads.name if self.query is None else ""

    @property
    def alias(self) -> str:
        """What the query calls it."""
        return str((self.called or self.reads).name)

    @property
    def alias_place(self) -> Place:
        """Where the text says how it is called."""
        return place_of(self.called or self)


JOINED_AS = {
    "LEFT JOIN": JoinKind.LEFT,
    "RIGHT JOIN": JoinKind.RIGHT,
    "FULL JOIN": JoinKind.FULL,
    "LEFT SEMI JOIN": JoinKind.SEMI,
    "LEFT ANTI JOIN": JoinKind.ANTI,
}
"""Joins that give tuples without partner, or ask for them, by the words before a stream."""

ASOF_JOINS = {"ASOF JOIN": False, "LEFT ASOF JOIN": True}
"""As-of joins by the words before a stream, and whether they give what finds nothing."""
VERSIONED_AS = {"JOIN": "ASOF JOIN", "LEFT JOIN": "LEFT ASOF JOIN"}
"""The as-of join that FOR SYSTEM_TIME AS OF makes of a join."""


class Named(Clause):
    """`name AS (SELECT ...)` before the query that reads it."""

    called = Part[exp.Identifier]()
    query = Part["Select"]()


class RowNumber(Clause):
    """`ROW_NUMBER() OVER (PARTITION BY ... ORDER BY ...)`."""

    partition = Part[list[exp.Expr] | None]()
    """None where ORDER BY stands behind the query, and the window is all there is."""
    order = Part[list[exp.Ordered]]()


class Top(Clause):
    """`ORDER BY ... LIMIT most`, or `QUALIFY ROW_NUMBER() OVER (...) <= most`."""

    ranking = Part[RowNumber]()
    most = Part[int]()
    called = Part[exp.Identifier | None]()
    """The name under which a row's number is selected, if it is; it is the last column."""


class Select(Clause):
    """A query: its clauses as written, and those of the queries behind each UNION ALL."""

    items = Part[list[Item]]()
    streams = Part[list[Stream]]()
    where = Part[exp.Expr | None]()
    windows = Part[list[WindowForAll | WindowPath]](())
    """WINDOW, DWINDOW and PATH, before and after WHERE."""
    match = Part[MatchTime | None]()
    groups = Part[list[exp.Expr] | None]()
    having = Part[exp.Expr | None]()
    top = Part[Top | None]()
    kind = Part[str]("")
    """The word behind SELECT that asks for another kind of query, one of `kinds.KINDS`; empty for a plain SELECT."""
    to_stream = Part[RelationToStream | None]()
    united = Part[list["Select"]](())
    """What stands behind each UNION ALL."""
    explain = Part[str | None]()
    """The form in which the plan is asked for, instead of the results."""
    named = Part[list[Named]](())
    emitted = Part[Emitted | None]()
    target = Part[Target | None]()
    settings = Part[Settings | None]()

    @property
    def named_bounds(self) -> frozenset[str]:
        """What the SELECT list calls the bounds of the window, where it has other names for them."""
        bounds = [item for item in self.items if item.node.name.lower() in ("window_start", "window_end")]
        called = {(item.requested_name or item.node.name).lower() for item in bounds}
        return frozenset(called - {"window_start", "window_end"})

    @property
    def conditions(self) -> list[exp.Expr]:
        """The ON conditions, then WHERE."""
        found = [stream.on for stream in self.streams] + [self.where]
        return [condition for condition in found if condition is not None]

    @property
    def members(self) -> list[Select]:
        """The queries of IN (SELECT ...) and EXISTS (SELECT ...) in the conditions."""
        found = [node for condition in self.conditions for node in condition.find_all(Select)]
        return [query for query in found if query.find_ancestor(Select) is self]

    @property
    def all_united(self) -> tuple[Select, ...]:
        """It, and what stands behind each UNION ALL."""
        return (self, *self.united)

    @property
    def quality(self) -> Quality:
        """The target; without one a query is COMPLETE."""
        return Complete() if self.target is None else self.target.quality

    @property
    def emit(self) -> Emit:
        """When results leave, and what may follow them."""
        return ONCE if self.emitted is None else self.emitted.emit

    @property
    def options(self) -> Options:
        """The options, as stated or as they are."""
        return Options() if self.settings is None else self.settings.options

    @property
    def out(self) -> Out:
        """How results leave."""
        return AS_MADE if self.to_stream is None else self.to_stream.out

    @property
    def kind_place(self) -> Place:
        """Where the word behind SELECT stands."""
        place: Place = self.meta["kind"]
        return place


def put(node: exp.Expr, start: int, stop: int) -> None:
    """Say where a node stands: the offset of its first character, and of the one after its last."""
    node.meta[_PLACE] = start, stop


def place_of(node: exp.Expr) -> Place:
    """Where a node stands in the text: offset of its first character, and of the one after its last."""
    if _PLACE in node.meta:
        place: Place = node.meta[_PLACE]
        return place
    places = [place_of(child) for child in node.iter_expressions()]
    if "start" in node.meta:
        places.append((node.meta["start"], node.meta["end"] + 1))
    places = [place for place in places if place[1] > 0]
    return min((start for start, _ in places), default=0), max((stop for _, stop in places), default=0)


def name_place(call: exp.Expr) -> Place:
    """Where the name of a function call stands, without its arguments."""
    return (call.meta["start"], call.meta["end"] + 1) if "start" in call.meta else place_of(call)


def text_of(node: exp.Expr) -> str:
    """The text that a node stands in."""
    text: str = node.root().meta[TEXT]
    return text


def refused(node: exp.Expr, message: str, place: Place | None = None) -> QueryError:
    """The complaint about a node, at its place or at one that is given."""
    return QueryError(message, text_of(node), *(place or place_of(node)))


def why_no_slide(slide: int, size: int, in_rows: bool = False) -> str | None:
    """Why a window would leave tuples out, or hold them all too often; None if it does not."""
    if not 0 < slide <= size:
        if in_rows:
            return "SLIDE must be at most ROWS, or tuples would fall between windows"
        return "SLIDE must be longer than nothing and no longer than RANGE, or tuples would fall between windows"
    if size // slide > MOST_WINDOWS:
        return f"every tuple would be in {size // slide:,} windows, and may be in {MOST_WINDOWS:,}; make SLIDE longer"
    return None


def why_no_step(step: int, size: int) -> str | None:
    """Why a window cannot be filled in such steps; None if it can."""
    if step <= 0 or size % step:
        return "the step of CUMULATE must be longer than nothing, and the window a whole number of steps"
    if size // step > MOST_WINDOWS:
        return f"every window would answer {size // step:,} times, and may {MOST_WINDOWS:,}; make the step longer"
    return None


def target_word(quality: Quality) -> str:
    """RECALL or ERROR, or the word of another target."""
    return str(quality).partition(" ")[0]
