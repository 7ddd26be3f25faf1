"""Queries of several operators where all tuples are known: one level after the other.

Invariant: shares no code with the kernels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from slackwater.core.batch import FIRST_COLUMN, Batch
from slackwater.operators.aggregate.filling import FillingAggregate
from slackwater.operators.aggregate.operator import WindowAggregate
from slackwater.operators.asof.spec import AsOfJoin
from slackwater.operators.contract import GraphNode, OperatorSpec
from slackwater.operators.distinct import StreamDistinct
from slackwater.operators.graph import OperatorGraph
from slackwater.operators.inputs import node_of, reads_node
from slackwater.operators.join.absence import OuterJoin
from slackwater.operators.join.operator import WindowJoin
from slackwater.operators.session.operator import SessionAggregate
from slackwater.operators.top import TopRows
from slackwater.operators.union import StreamUnion
from tests.kit import oracle_absence, oracle_asof
from tests.kit.oracle_aggregate import aggregate_of, result_kind, windows_of
from tests.kit.oracle_distinct import RowsThatLeft
from tests.kit.oracle_filling import steps_of
from tests.kit.oracle_join import joins, near_enough
from tests.kit.oracle_projection import Made, taken
from tests.kit.oracle_release import NEVER, Tuple, tuples_of
from tests.kit.oracle_session import OpenSessions
from tests.kit.oracle_top import OpenTop
from tests.kit.words import encode


def oracle_graph(graph: OperatorGraph, batch: Batch) -> list[Made]:
    """The true results on these tuples, whatever their order of arrival."""
    raw: list[list[Tuple]] = [[] for _ in range(graph.streams)]
    for e in tuples_of(batch):
        if e.passes:
            raw[e.stream].append(e)
    made: list[list[Made]] = []
    for node in graph.nodes:
        inputs = []
        for number, one in enumerate(node.inputs):
            if reads_node(one):
                inputs.append(list(above(graph.nodes[node_of(one)], made[node_of(one)], number)))
            else:
                inputs.append([Tuple(number, e.ts, e.words) for e in raw[one]])
        made.append(list(_made_of(node.operator, inputs)))
    return made[-1]


def above(below: GraphNode, made: Sequence[Made], number: int) -> Iterator[Tuple]:
    """What a node has made as tuples of an input of the node above."""
    assert below.outlet is not None
    early = 1 if isinstance(below.operator, WindowAggregate) and not isinstance(below.operator, SessionAggregate) else 0
    for ts, columns in made:
        e = taken(below.outlet, (ts - early, columns), number)
        if e is not None:
            yield e


def _made_of(spec: OperatorSpec, inputs: list[list[Tuple]]) -> Iterator[Made]:
    windows = open_windows(spec)
    if windows is not None:
        for e in sorted(inputs[0], key=lambda e: e.ts):
            windows.add(e, NEVER)
        yield from windows.up_to(None)
    elif isinstance(spec, StreamUnion):
        yield from (united_row(spec, e) for mine in inputs for e in mine)
    elif isinstance(spec, StreamDistinct):
        rows = RowsThatLeft(spec)
        yield from (made for e in sorted(inputs[0], key=lambda e: e.ts) for made in rows.made_of(e))
    elif isinstance(spec, AsOfJoin):
        yield from oracle_asof.of_inputs(spec, inputs)
    elif isinstance(spec, OuterJoin):
        yield from oracle_absence.of_inputs(spec, inputs)
    else:
        assert isinstance(spec, WindowJoin)
        for members in product(*inputs):
            if near_enough(spec, members) and joins(spec, members):
                yield joined_result(spec, members)


def joined_result(spec: WindowJoin, members: tuple[Tuple, ...]) -> Made:
    """The result that these members make."""
    return max(e.ts for e in members), tuple(members[stream].words[row] for stream, row in spec.emit)


def united_row(spec: StreamUnion, e: Tuple) -> Made:
    """The row that a tuple of any input makes."""
    return e.ts, e.words[FIRST_COLUMN : FIRST_COLUMN + spec.width]


def open_windows(spec: OperatorSpec) -> OpenWindows | OpenSessions | OpenTop | None:
    """The windows of an aggregate of any sort, or of top-n, without a tuple; None where rows leave as they come."""
    if isinstance(spec, TopRows):
        return OpenTop(spec)
    if isinstance(spec, SessionAggregate):
        return OpenSessions(spec)
    return OpenWindows(spec) if isinstance(spec, WindowAggregate) else None


class OpenWindows:
    """The tuples of every window and group that has not been emitted."""

    def __init__(self, spec: WindowAggregate) -> None:
        self.spec = spec
        self.members: dict[tuple[int, int, tuple[int, ...]], list[Tuple]] = {}

    def add(self, e: Tuple, met: int) -> None:
        """A tuple that met this watermark enters the windows behind it."""
        bounds = [(start, start + self.spec.range) for start in windows_of(self.spec, e.ts)]
        if isinstance(self.spec, FillingAggregate):
            bounds = steps_of(self.spec, e.ts)
        for start, end in bounds:
            if end > met:
                key = tuple(e.words[row] for row in self.spec.keys)
                self.members.setdefault((end, start, key), []).append(e)

    def up_to(self, watermark: int | None) -> Iterator[Made]:
        """Emit the windows that end by then, or all."""
        for end, start, key in sorted(self.members):
            if watermark is None or end <= watermark:
                inside = self.members.pop((end, start, key))
                values = [encode(aggregate_of(a, inside), result_kind(a)) for a in self.spec.aggregates]
                yield end, (start, end, *key, *values)
