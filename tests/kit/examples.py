"""Examples of every operator spec, on which the laws are tried.

Invariant: every spec class of `slackwater.operators` has an example here; `specs_without_example` names those that
have none.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from dataclasses import dataclass, is_dataclass, replace
from inspect import isabstract
from typing import Any

import slackwater.operators
from slackwater.core.batch import FIRST_COLUMN, ROW, TS
from slackwater.core.join_kinds import JoinKind
from slackwater.core.schema import NULL_FLOAT, NULL_WORD, Kind
from slackwater.core.time import Bounds, before, within
from slackwater.core.window_graph import WindowGraph
from slackwater.expressions.aggregates import FUNCTIONS
from slackwater.expressions.computed import Computed
from slackwater.expressions.functions import typed_call
from slackwater.expressions.tree import Column, Expr, Literal
from slackwater.operators.aggregate.algebra import AggregateSpec
from slackwater.operators.aggregate.changing import Changing
from slackwater.operators.aggregate.count_windows import CountWindows, LandmarkAggregate, RowAggregate
from slackwater.operators.aggregate.filling import FillingAggregate
from slackwater.operators.aggregate.having import Having
from slackwater.operators.aggregate.operator import WindowAggregate
from slackwater.operators.asof.spec import AsOfJoin
from slackwater.operators.contract import GraphNode, OperatorSpec
from slackwater.operators.distinct import StreamDistinct
from slackwater.operators.graph import OperatorGraph
from slackwater.operators.handing import Handing, PanePartials
from slackwater.operators.inputs import from_node
from slackwater.operators.join.absence import OuterJoin
from slackwater.operators.join.count_windows import BY_TIME, EVER, RowWindows, by_rows
from slackwater.operators.join.operator import WindowJoin
from slackwater.operators.join.probing import Equality
from slackwater.operators.join.rate_windows import ROUNDS, by_rate
from slackwater.operators.join.tree import left_deep
from slackwater.operators.projection import Carried, Projection
from slackwater.operators.relation_to_stream import RelationToStream
from slackwater.operators.session.operator import SessionAggregate
from slackwater.operators.top import SortKey, TopRows
from slackwater.operators.union import StreamUnion
from slackwater.published.wjoin.approaches import GCA, LCA, PAIRWISE
from slackwater.published.wjoin.spec import ALGORITHMS, by_algorithm
from tests.kit.instant_examples import instant_specs
from tests.kit.oracles import ORACLES

DIFFERENT = ("COUNT_DISTINCT", "SUM_DISTINCT", "AVG_DISTINCT")
K, L, V = FIRST_COLUMN, FIRST_COLUMN + 1, FIRST_COLUMN + 2
KINDS = (Kind.INT, Kind.INT, Kind.FLOAT)
"""Every example reads tuples with two integer columns and a float one, in rows K, L and V."""
ROWS = FIRST_COLUMN + len(KINDS)
IN_TREES = (
    "equi-join",
    "three-way, one class",
    "three-way chain",
    "three-way star with a condition",
    "three-way, one linked and one not",
    "three-way cross",
    "three-way, two columns of the first equal to one of the last",
    "four-way star",
    "three-way, a window for two pairs",
    "three-way path, either way",
    "four-way, a star of windows",
)
"""The joins that are tried as trees of binary joins too."""


@dataclass(frozen=True)
class Example:
    """A spec with a name."""

    name: str
    spec: Any


def _aggregate(name: str, range_: int, slide: int | None, keys: tuple[int, ...], *aggregates: AggregateSpec) -> Example:
    return Example(name, WindowAggregate(range_, slide, keys, aggregates, ROWS))


def _having(name: str, range_: int, slide: int, keys: tuple[int, ...], *aggregates: AggregateSpec) -> Example:
    """Groups of two tuples or more; the first aggregate is their count."""
    columns = ("window_start", "window_end", *(f"k{n}" for n in range(len(keys))), "n", *(f"a{n}" for n in range(9)))
    many = typed_call(">", (Column(0, "n", Kind.INT), Literal(1, Kind.INT)))
    having = Having((many,), columns[: 2 + len(keys) + len(aggregates)])
    return Example(name, WindowAggregate(range_, slide, keys, aggregates, ROWS, having=having))


def _by_rows(name: str, range_: int, slide: int | None, keys: tuple[int, ...], *aggregates: AggregateSpec) -> Example:
    return Example(name, RowAggregate(range_, slide, keys, aggregates, ROWS))


def _landmarks() -> Iterator[Example]:
    """Windows from a tuple whose K is 1 to one whose L is 1; and from the former on."""
    aggregates = (AggregateSpec("COUNT"), AggregateSpec("AVG", V, Kind.FLOAT), AggregateSpec("MIN", TS, Kind.TIME))
    yield Example("from landmark to landmark", LandmarkAggregate(0, None, (), aggregates, ROWS, start=K, end=L))
    yield Example("since a landmark, by key", LandmarkAggregate(0, None, (L,), aggregates, ROWS, start=K, every=5))


def _filling() -> Iterator[Example]:
    """Windows that are filled in steps."""
    counts = (AggregateSpec("COUNT"), AggregateSpec("SUM", L))
    yield Example("filled in steps, by key", FillingAggregate(12, 3, (K,), counts, ROWS))
    yield Example("filled in steps, every function", FillingAggregate(8, 4, (), _every(V, Kind.FLOAT), ROWS))
    yield Example("filled at once", FillingAggregate(5, 5, (K, L), counts, ROWS))


def _sessions() -> Iterator[Example]:
    """Sessions of a key and of all tuples, some at most so long, some of which are wanted."""
    count, total = AggregateSpec("COUNT"), AggregateSpec("SUM", L)
    yield Example("sessions by key", SessionAggregate(3, None, (K,), (count, total), ROWS))
    every = SessionAggregate(1, None, (), _every(V, Kind.FLOAT), ROWS, most=15)
    yield Example("sessions of all tuples, every function", every)
    holistic = (AggregateSpec("COUNT_DISTINCT", L), AggregateSpec("MEDIAN", L), AggregateSpec("LAST", V, Kind.FLOAT))
    yield Example("sessions by two keys, at most so long", SessionAggregate(4, None, (K, L), holistic, ROWS, most=9))
    yield Example("sessions by key, as long as their gap", SessionAggregate(4, None, (K,), (count,), ROWS, most=4))
    wanted = _having("", 9, 3, (K,), count, AggregateSpec("AVG", V, Kind.FLOAT)).spec
    some = SessionAggregate(2, None, (K,), wanted.aggregates, ROWS, most=7, having=wanted.having)
    yield Example("wanted sessions", some)


def _top() -> Iterator[Example]:
    """The first tuples of windows, of all of one and of those of a key; what is emitted decides between equal ones."""
    k, v = SortKey(K, Kind.INT), SortKey(V, Kind.FLOAT)
    most = SortKey(V, Kind.FLOAT, descending=True, nulls_first=False)
    yield Example("first of a window", TopRows(10, (), (most,), 3, (k, v), ROWS))
    by_two = (SortKey(L, Kind.INT, nulls_first=False), replace(most, nulls_first=True))
    yield Example("first of a window by key", TopRows(7, (K,), by_two, 1, (k, v, SortKey(ROW, Kind.INT)), ROWS))
    yield Example("first by time, of few keys", TopRows(12, (K, L), (SortKey(TS, Kind.TIME),), 2, (v,), ROWS))


def _changing() -> Iterator[Example]:
    """Windows that are corrected, and rows of open ones."""
    counts = (AggregateSpec("COUNT"), AggregateSpec("SUM", L))
    yield Example("tumbling by key, corrected", Changing(WindowAggregate(10, None, (K,), counts, ROWS), correctable=15))
    wanted = _having("", 9, 3, (K,), AggregateSpec("COUNT"), AggregateSpec("MEDIAN", V, Kind.FLOAT)).spec
    yield Example("wanted groups, corrected", Changing(wanted, correctable=6))
    yield Example("wanted groups, early", Changing(wanted, every=4))
    chosen = AggregateSpec("MAX_BY", L, Kind.TEXT, by=V, float_by=True), AggregateSpec("MIN_BY", V, Kind.FLOAT, by=L)
    yield Example("chosen values, corrected", Changing(WindowAggregate(9, 3, (K,), chosen, ROWS), correctable=8))
    some = WindowAggregate(12, 4, (K,), counts, ROWS)
    yield Example("sums, early and corrected", Changing(some, correctable=9, error=0.3))


def _every(row: int, kind: Kind) -> tuple[AggregateSpec, ...]:
    functions = ("COUNT", "SUM", "AVG", "MIN", "MAX", "FIRST", "LAST", "VAR", "STDDEV", "MEDIAN", *DIFFERENT)
    chosen = AggregateSpec("MAX_BY", row, kind, by=V, float_by=True), AggregateSpec("MIN_BY", row, kind, by=L)
    asked = AggregateSpec("QUANTILE", row, kind, 0.9), AggregateSpec("APPROX_COUNT_DISTINCT", row, kind, 0.3)
    return (*(AggregateSpec(f, row, kind) for f in functions), *chosen, *asked)


def _exact(row: int) -> tuple[AggregateSpec, ...]:
    return tuple(AggregateSpec(f, row, Kind.DECIMAL) for f in ("SUM", "AVG", "MIN", "MAX", *DIFFERENT))


def _join(windows: tuple[int, ...], *equalities: Equality, conditions: tuple[Expr, ...] = ()) -> WindowJoin:
    names = ((K, "k"), (L, "l"), (V, "v"))
    columns = tuple((s, name, row) for s in range(len(windows)) for row, name in names)
    emit = tuple((s, ROW) for s in range(len(windows)))
    return WindowJoin(windows, equalities, conditions, columns, emit, ROWS)


def _graphed(
    streams: int, *alternatives: Bounds, on: tuple[Equality, ...], conditions: tuple[Expr, ...] = ()
) -> WindowJoin:
    graph = WindowGraph(streams, alternatives)
    return replace(_join(graph.windows, *on, conditions=conditions), graph=graph)


def _graphs() -> dict[str, WindowJoin]:
    """Joins with windows between pairs of streams."""
    chain = tuple(Equality(s, K, s + 1, K) for s in range(3))
    here = (*before(0, 1, 4), *before(1, 2, 3))
    there = (*before(2, 1, 3), *before(1, 0, 4))
    later = typed_call("<=", (Column(0, "v", Kind.FLOAT), Column(2, "v", Kind.FLOAT)))
    return {
        "three-way, a window for two pairs": _graphed(3, (*within(0, 1, 5), *within(1, 2, 2)), on=chain[:2]),
        "three-way path": _graphed(3, here, on=chain[:2]),
        "three-way path, either way": _graphed(3, here, there, on=chain[:2]),
        "three-way path, either way, with a condition": _graphed(3, here, there, on=chain[:1], conditions=(later,)),
        "three-way cross with a narrow pair": _graphed(
            3, (*within(0, 1, 0), *within(1, 2, 2), *within(0, 2, 3)), on=()
        ),
        "four-way, a star of windows": _graphed(4, (*within(0, 1, 2), *within(0, 2, 1), *before(0, 3, 3)), on=chain),
        "four-way, all within but one pair": _graphed(
            4, (*(b for i in range(4) for j in range(i) for b in within(i, j, 4)), *before(2, 3, 1)), on=chain
        ),
    }


def _distance(one: int, other: int) -> Expr:
    places = tuple(Column(s, name, kind) for s in (one, other) for name, kind in (("k", Kind.INT), ("v", Kind.FLOAT)))
    return typed_call("<", (typed_call("dist", places), Literal(2.0, Kind.FLOAT)))


def _within(one: int, other: int) -> Expr:
    difference = typed_call("-", (Column(one, "l", Kind.INT), Column(other, "l", Kind.INT)))
    return typed_call("<=", (typed_call("abs", (difference,)), Literal(1, Kind.INT)))


def _joins() -> Iterator[Example]:
    on_k = Equality(0, K, 1, K)
    v = [Column(s, "v", Kind.FLOAT) for s in range(3)]
    near = typed_call("<", (typed_call("abs", (typed_call("-", (v[0], v[1])),)), Literal(3.0, Kind.FLOAT)))
    rising = typed_call("<=", (v[1], v[2]))
    unequal = typed_call("<>", (Column(0, "l", Kind.INT), Column(1, "l", Kind.INT)))
    joins = {
        "selection": _join((0,)),
        "equi-join": _join((5, 5), on_k),
        "equi-join, own window per stream": _join((0, 7), on_k),
        "equi-join on two keys": _join((5, 4), on_k, Equality(0, L, 1, L)),
        "equi-join, one column equal to two": _join((6, 6), on_k, Equality(0, L, 1, K)),
        "equi-join with a condition": _join((6, 3), on_k, conditions=(unequal,)),
        "theta join": _join((4, 6), conditions=(near,)),
        "distance join": _join((4, 6), conditions=(_distance(0, 1),)),
        "three-way, two bands": _join((3, 4, 3), conditions=(near, _within(1, 2))),
        "cross join": _join((2, 3)),
        "three-way, one class": _join((5, 5, 5), on_k, Equality(1, K, 2, K)),
        "three-way chain": _join((4, 6, 5), on_k, Equality(1, L, 2, L)),
        "three-way star with a condition": _join((4, 0, 5), on_k, Equality(0, L, 2, K), conditions=(rising,)),
        "three-way, one linked and one not": _join((3, 2, 2), on_k),
        "three-way cross": _join((1, 2, 1)),
        "three-way, two columns of the first equal to one of the last": _join(
            (5, 3, 6), Equality(0, K, 2, K), Equality(0, L, 2, K)
        ),
        "four-way star": _join((4, 4, 3, 3), on_k, Equality(0, L, 2, L), Equality(0, K, 3, L)),
        **_graphs(),
    }
    for name, spec in joins.items():
        yield Example(name, spec)
        yield Example(f"{name}, counted", replace(spec, count_only=True, emit=()))
        if spec.streams > 1 and name in IN_TREES:
            yield Example(f"{name}, as a tree", left_deep(spec))
    yield from _by_algorithms(joins["equi-join"], joins["three-way, one class"], _join((4, 4), conditions=(near,)))
    yield from _counting(joins)
    yield from _with_absent(joins)
    yield from _as_of()
    yield Example("equi-join, as it ends", RelationToStream(joins["equi-join, own window per stream"]))
    yield Example("theta join, every third instant", RelationToStream(joins["theta join"], every=3))
    for name in ("three-way chain", "four-way star"):
        yield Example(f"{name}, as a tree, counted", left_deep(replace(joins[name], count_only=True, emit=())))


def _by_algorithms(two: WindowJoin, three: WindowJoin, theta: WindowJoin) -> Iterator[Example]:
    """Joins by every algorithm, and some over different windows; few buckets, so that keys meet in them."""
    for algorithm in ALGORITHMS:
        yield Example(f"three-way, by {algorithm}", by_algorithm(three, algorithm, buckets=4, clean_every=40))
    yield Example("equi-join, by hash", by_algorithm(two, "hash", buckets=2))
    counted = replace(two, count_only=True, emit=())
    yield Example("equi-join, by merge, counted", by_algorithm(counted, "merge"))
    for algorithm in ("nested_loop", "merge"):
        yield Example(f"theta join, by {algorithm}", by_algorithm(theta, algorithm))
    graphs = _graphs()
    for name, algorithm, approach in (
        ("three-way, a window for two pairs", "merge", LCA),
        ("three-way path, either way", "nested_loop", PAIRWISE),
        ("three-way path, either way", "merge", LCA),
        ("four-way, a star of windows", "hash", GCA),
    ):
        made = by_algorithm(graphs[name], algorithm, approach, buckets=4)
        yield Example(f"{name}, by {algorithm}, {approach}", made)


def _with_absent(joins: dict[str, WindowJoin]) -> Iterator[Example]:
    """Joins that give rows for what has no partner; some that ask one stream alone, some that look at rows."""
    equi, theta = joins["equi-join, own window per stream"], joins["theta join"]
    high = typed_call(">", (Column(0, "v", Kind.FLOAT), Literal(0.0, Kind.FLOAT)))
    picky = replace(joins["equi-join with a condition"], conditions=(high, *theta.conditions))
    before_or_after = replace(_graphed(2, (*before(0, 1, 4), *within(0, 1, 4)), on=equi.equalities))
    emit, names = ((0, ROW), (1, ROW), (0, L), (1, V)), ((0, "row"), (1, "row"), (0, "l"), (1, "v"))
    shown = replace(equi, emit=emit)
    nulls = (NULL_WORD, NULL_WORD, NULL_WORD, NULL_FLOAT)
    one_sided = replace(equi, emit=((0, ROW), (0, V)))
    alone = typed_call("is_null", (Column(1, "v", Kind.FLOAT),))
    few = typed_call("<", (Column(0, "l", Kind.INT), Literal(2, Kind.INT)))
    either = typed_call("or", (alone, few))
    theta_nulls = (NULL_WORD, NULL_WORD)
    yield Example("left outer join", OuterJoin(shown, JoinKind.LEFT, nulls, ROWS))
    yield Example("right outer join", OuterJoin(shown, JoinKind.RIGHT, nulls, ROWS))
    yield Example("full outer join", OuterJoin(shown, JoinKind.FULL, nulls, ROWS))
    by_key = replace(shown, conditions=(high,))
    yield Example("left outer join, asking one stream", OuterJoin(by_key, JoinKind.LEFT, nulls, ROWS))
    yield Example("left outer theta join", OuterJoin(theta, JoinKind.LEFT, theta_nulls, ROWS))
    yield Example("left outer join, picky", OuterJoin(picky, JoinKind.LEFT, theta_nulls, ROWS))
    yield Example("full outer join, picky", OuterJoin(picky, JoinKind.FULL, theta_nulls, ROWS))
    yield Example("full outer join after", OuterJoin(before_or_after, JoinKind.FULL, theta_nulls, ROWS))
    yield Example("right outer join after", OuterJoin(before_or_after, JoinKind.RIGHT, theta_nulls, ROWS))
    some = OuterJoin(shown, JoinKind.LEFT, nulls, ROWS, (either,), names)
    yield Example("left outer join, some rows", some)
    yield Example("left outer join, some rows, counted", replace(some, counted=True))
    yield Example("full outer join, counted", OuterJoin(equi, JoinKind.FULL, theta_nulls, ROWS, counted=True))
    for kind in (JoinKind.SEMI, JoinKind.ANTI):
        name = kind.value.removeprefix("left ")
        yield Example(f"{name} join", OuterJoin(one_sided, kind, nulls[2:], ROWS))
        for which, join in (("theta", theta), ("picky", picky), ("after", before_or_after)):
            yield Example(f"{name} join, {which}", OuterJoin(replace(join, emit=((0, ROW),)), kind, nulls[:1], ROWS))


def _as_of() -> Iterator[Example]:
    """As-of joins; rows without identities are told apart by their values alone."""
    emit, names = ((0, ROW), (1, TS), (1, ROW), (1, V), (0, L)), ((0, "row"), (1, "ts"), (1, "row"), (1, "v"), (0, "l"))
    nulls = (NULL_WORD, NULL_WORD, NULL_WORD, NULL_FLOAT, NULL_WORD)
    plain = AsOfJoin(((K, K),), emit, nulls, ROWS)
    yield Example("as-of join", plain)
    yield Example("as-of join, left", replace(plain, outer=True))
    yield Example("as-of join, strictly older", replace(plain, strict=True))
    yield Example("as-of join, within", replace(plain, within=6))
    yield Example("as-of join, left, strictly older, within", replace(plain, strict=True, outer=True, within=3))
    yield Example("as-of join of the same instant", replace(plain, within=0, outer=True))
    yield Example("as-of join without a key", replace(plain, keys=(), outer=True))
    yield Example("as-of join by two keys", replace(plain, keys=((K, L), (L, K)), within=20))
    values = replace(plain, emit=((0, ROW), (1, L), (1, V)), nulls=(NULL_WORD, NULL_WORD, NULL_FLOAT))
    yield Example("as-of join by values", replace(values, outer=True))
    alone = typed_call("is_null", (Column(1, "v", Kind.FLOAT),))
    few = typed_call("<", (Column(0, "l", Kind.INT), Literal(2, Kind.INT)))
    yield Example(
        "as-of join, some rows", replace(plain, outer=True, kept=(typed_call("or", (alone, few)),), names=names)
    )


def _counting(joins: dict[str, WindowJoin]) -> Iterator[Example]:
    """Joins in which some windows hold the last tuples of their stream."""
    last = {
        "equi-join": (3, 5),
        "theta join": (BY_TIME, 4),
        "three-way, one linked and one not": (3, 1, 2),
    }
    for name, counts in last.items():
        yield Example(f"{name}, by rows", by_rows(joins[name], counts))
    three = replace(joins["three-way, one class"], count_only=True, emit=())
    yield Example("three-way, by rows, counted", by_rows(three, (2, BY_TIME, 3)))
    equi, theta = joins["equi-join"], joins["theta join"]
    yield Example("equi-join, by rate", by_rate(equi, (12, 8), slices=4, first=3))
    yield Example("theta join, by rate in rounds", by_rate(theta, (5, 9), 4, ROUNDS, first=2))
    counted = replace(equi, count_only=True, emit=())
    yield Example("equi-join, by rate, whenever, counted", by_rate(counted, (6, 6), EVER, slices=3, first=2))


OPERATORS: tuple[Example, ...] = (
    _aggregate("tumbling count", 10, None, (), AggregateSpec("COUNT")),
    _aggregate("sliding, every function of an integer", 12, 3, (), *_every(L, Kind.INT)),
    _aggregate("sliding by key, sums and averages of a decimal", 8, 2, (K,), *_exact(L)),
    _aggregate("sliding by key, every function of a float", 9, 3, (K,), *_every(V, Kind.FLOAT)),
    _aggregate("slide does not divide range", 10, 4, (K,), AggregateSpec("SUM", L), AggregateSpec("MEDIAN", L)),
    _aggregate("two keys", 6, 2, (K, L), AggregateSpec("COUNT"), AggregateSpec("AVG", V, Kind.FLOAT)),
    _aggregate("gaps between windows", 3, 7, (K,), AggregateSpec("COUNT"), AggregateSpec("COUNT_DISTINCT", L)),
    _aggregate("texts", 8, 2, (K,), AggregateSpec("MIN", L, Kind.TEXT), AggregateSpec("MAX", L, Kind.TEXT)),
    _aggregate(
        "first and last", 8, 2, (K,), AggregateSpec("FIRST", L, Kind.TEXT), AggregateSpec("LAST", V, Kind.FLOAT)
    ),
    _aggregate(
        "chosen by others",
        8,
        2,
        (K,),
        AggregateSpec("MIN_BY", L, Kind.TEXT, by=V, float_by=True),
        AggregateSpec("MAX_BY", V, Kind.FLOAT, by=L),
        AggregateSpec("MAX_BY", L, by=V, float_by=True),
    ),
    _aggregate(
        "about how many",
        8,
        2,
        (K,),
        AggregateSpec("APPROX_COUNT_DISTINCT", V, Kind.FLOAT, 0.05),
        AggregateSpec("APPROX_COUNT_DISTINCT", L, Kind.TEXT, 0.1),
    ),
    _having("wanted groups", 6, 2, (K,), AggregateSpec("COUNT"), AggregateSpec("SUM", L)),
    _aggregate("a window for every tick", 5, 1, (), AggregateSpec("MAX", L), AggregateSpec("MIN", V, Kind.FLOAT)),
    Example("union", StreamUnion(2, len(KINDS), ROWS)),
    Example("distinct keys", StreamDistinct(6, (K,), ROWS)),
    Example("distinct rows", StreamDistinct(9, (K, L, V), ROWS)),
    Example("distinct keys, corrected", StreamDistinct(6, (K,), ROWS, correctable=8)),
    *(Example(name, spec) for name, spec in instant_specs()),
    _by_rows("the last tuples, tumbling", 7, None, (), AggregateSpec("COUNT"), AggregateSpec("MAX", TS, Kind.TIME)),
    _by_rows(
        "the newest of the last tuples", 7, 2, (), AggregateSpec("LAST", L), AggregateSpec("FIRST", V, Kind.FLOAT)
    ),
    _by_rows("the last tuples by key, sliding", 8, 3, (K,), *_every(V, Kind.FLOAT)),
    *_landmarks(),
    *_changing(),
    *_sessions(),
    *_filling(),
    *_top(),
    Example(
        "a sliding sum, as it ends", RelationToStream(WindowAggregate(9, 3, (K,), (AggregateSpec("SUM", L),), ROWS))
    ),
    *_joins(),
)
"""One operator each, or a tree of joins."""


def _graphs_of_operators() -> Iterator[Example]:
    """Queries of several operators: what a node makes is read by the next."""
    pair = replace(_join((5, 5), Equality(0, K, 1, K)), emit=((0, K), (1, L)))
    k, n = Column(0, "k", Kind.INT), Column(0, "n", Kind.INT)
    made_by_pair = (Carried("k", K, 0), Carried("n", L, 1))
    as_they_are = Projection(((0, "k"), (1, "l")), "_ts", made_by_pair, (), (), ROWS, ROWS)
    yield Example(
        "aggregate above a join",
        OperatorGraph(
            (
                GraphNode(pair, (0, 1), as_they_are),
                GraphNode(
                    WindowAggregate(10, 5, (K,), (AggregateSpec("COUNT"), AggregateSpec("SUM", L)), ROWS),
                    (from_node(0),),
                ),
            ),
            ROWS,
        ),
    )  # fmt: skip
    counts = WindowAggregate(6, 3, (K,), (AggregateSpec("COUNT"), AggregateSpec("MAX", L)), ROWS)
    several = typed_call(">", (n, Literal(1, Kind.INT)))
    twice = Computed(typed_call("+", (k, k)), L, "join key")
    busy = Projection((), "_ts", (Carried("k", K, 2), Carried("n", V, 3)), (several,), (twice,), ROWS, ROWS)
    with_counts = replace(_join((7, 4), Equality(0, L, 1, K)), emit=((0, V), (0, K), (1, ROW)))
    yield Example(
        "join of an aggregate and a stream",
        OperatorGraph((GraphNode(counts, (1,), busy), GraphNode(with_counts, (from_node(0), 0))), ROWS),
    )
    by_window = Projection((), "_ts", (Carried("start", K, 0), Carried("n", L, 3)), (), (), ROWS, ROWS)
    of_counts = WindowAggregate(12, None, (), (AggregateSpec("MAX", L), AggregateSpec("COUNT_DISTINCT", K)), ROWS)
    yield Example(
        "aggregate of aggregates",
        OperatorGraph((GraphNode(counts, (0,), by_window), GraphNode(of_counts, (from_node(0),))), ROWS),
    )
    by_count = (SortKey(L, Kind.INT, descending=True, nulls_first=False),)
    counted = Projection(
        (), "_ts", (Carried("start", V, 0), Carried("k", K, 2), Carried("n", L, 3)), (), (), ROWS, ROWS
    )
    first = TopRows(1, (), by_count, 2, (SortKey(K, Kind.INT), SortKey(L, Kind.INT)), ROWS, start=V)
    yield Example(
        "first of an aggregate",
        OperatorGraph((GraphNode(counts, (0,), counted), GraphNode(first, (from_node(0),))), ROWS),
    )
    of_different = Projection(((0, "k"), (0, "l")), "_ts", made_by_pair, (), (), ROWS, ROWS)
    summed = WindowAggregate(10, None, (K,), (AggregateSpec("COUNT"), AggregateSpec("SUM", L)), ROWS)
    yield Example(
        "aggregate of different rows",
        OperatorGraph(
            (GraphNode(StreamDistinct(4, (K, L), ROWS), (0,), of_different), GraphNode(summed, (from_node(0),))), ROWS
        ),
    )
    total = typed_call("+", (Column(0, "k", Kind.INT), Column(1, "l", Kind.INT)))
    computed = Projection(
        ((0, "k"), (1, "l")), "_ts", (Carried("k", K, 0), Carried("n", L, None, total)), (), (), ROWS, ROWS
    )
    selected = replace(_join((0,)), emit=((0, K), (0, L)))
    own = Projection(((0, "k"), (0, "l")), "_ts", made_by_pair, (), (), ROWS, ROWS)
    united = Projection(((0, "k"), (0, "n")), "_ts", made_by_pair, (), (), ROWS, ROWS)
    yield Example(
        "join of a union and a stream",
        OperatorGraph(
            (
                GraphNode(pair, (0, 1), computed),
                GraphNode(selected, (2,), own),
                GraphNode(StreamUnion(2, 2, ROWS), (from_node(0), from_node(1)), united),
                GraphNode(replace(_join((2, 3), Equality(0, L, 1, K)), emit=((0, K), (1, ROW))), (from_node(2), 3)),
            ),
            ROWS,
        ),
    )  # fmt: skip
    yield from _graphs_with_absent(pair, as_they_are)


def _graphs_with_absent(pair: WindowJoin, as_they_are: Projection) -> Iterator[Example]:
    """Rows of tuples without partner, read by others; columns that may be null are keys and are counted."""
    nulls = (NULL_WORD, NULL_WORD)
    left = OuterJoin(replace(pair, windows=(4, 2)), JoinKind.LEFT, nulls, ROWS)
    counts = WindowAggregate(
        10, 5, (K,), (AggregateSpec("COUNT"), AggregateSpec("COUNT", L), AggregateSpec("SUM", L)), ROWS
    )
    yield Example(
        "aggregate above a left join",
        OperatorGraph((GraphNode(left, (0, 1), as_they_are), GraphNode(counts, (from_node(0),))), ROWS),
    )
    latest = AsOfJoin(((K, K),), ((0, K), (1, L)), nulls, ROWS, outer=True)
    yield Example(
        "aggregate above an as-of join",
        OperatorGraph((GraphNode(latest, (0, 1), as_they_are), GraphNode(counts, (from_node(0),))), ROWS),
    )
    anti = OuterJoin(replace(_join((3, 4), Equality(0, L, 1, L)), emit=((0, K), (0, L))), JoinKind.ANTI, nulls, ROWS)
    semi = replace(anti, kind=JoinKind.SEMI)
    full = OuterJoin(
        replace(_join((5, 3), Equality(0, K, 1, K)), emit=((0, K), (1, K), (0, L))),
        JoinKind.FULL,
        (NULL_WORD,) * 3,
        ROWS,
    )
    yield Example(
        "full join of a left join and an anti join",
        OperatorGraph(
            (
                GraphNode(left, (0, 2), as_they_are),
                GraphNode(anti, (1, 3), as_they_are),
                GraphNode(full, (from_node(0), from_node(1))),
            ),
            ROWS,
        ),
    )
    yield Example(
        "left join of a semi join, and once more",
        OperatorGraph(
            (
                GraphNode(semi, (2, 0), as_they_are),
                GraphNode(left, (from_node(0), 1), as_they_are),
                GraphNode(replace(full, kind=JoinKind.LEFT), (from_node(1), 3)),
            ),
            ROWS,
        ),
    )  # fmt: skip


EXAMPLES: tuple[Example, ...] = (*OPERATORS, *_graphs_of_operators())


def _bounded(example: Example) -> Example:
    """The example without aggregates that no error can be stated for."""
    spec = example.spec
    if not isinstance(spec, WindowAggregate) or spec.having is not None:
        return example
    known = [(one, FUNCTIONS[one.function]) for one in spec.aggregates]
    bounded = tuple(
        one for one, function in known if not (function.chooses or function.of_different or function.sketched)
    )
    return replace(example, spec=replace(spec, aggregates=bounded))


WITHOUT_TARGETS = (Changing, CountWindows, RelationToStream, StreamUnion, *ORACLES)
WITH_TARGETS: tuple[Example, ...] = tuple(
    example
    for example in map(_bounded, OPERATORS)
    if not isinstance(example.spec, WITHOUT_TARGETS)
    and not isinstance(getattr(example.spec, "policy", None), RowWindows)
    and getattr(example.spec, "aggregates", True)
)
"""Those that a quality target may be stated for: windows of time, and results that leave as they are made."""


def operator_specs() -> set[type]:
    """Every operator spec class there is, found by walking the package.

    >>> sorted(spec.__name__ for spec in operator_specs())[-1]
    'WindowJoin'
    """
    package = slackwater.operators
    found = set()
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, type) and _is_spec(value):
                found.add(value)
    return found


def _is_spec(candidate: type) -> bool:
    return is_dataclass(candidate) and issubclass(candidate, OperatorSpec) and not isabstract(candidate)


def specs_without_example() -> list[str]:
    """The names of the spec classes nobody has written an example for.

    >>> specs_without_example()
    []
    """
    shown = {type(example.spec) for example in EXAMPLES}
    # What a fragment hands on is no result, and is shown right by the fragment above (`tests/spark/test_fragments.py`).
    return sorted(spec.__name__ for spec in operator_specs() - shown - {Handing, PanePartials})
