"""Any query of queries, over any disordered streams, however they are cut: what the slow twin gives, tuple by tuple."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from slackwater.core.batch import FIRST_COLUMN, TS, Batch
from slackwater.core.schema import Field, Kind, Schema
from slackwater.disorder.controllers import FixedSlack
from slackwater.language.bind import bind
from slackwater.operators import graph_operator
from slackwater.operators.graph import OperatorGraph
from slackwater.operators.node import Node
from slackwater.operators.pipeline import Epochs
from slackwater.plan.physical import PhysicalPlan
from slackwater.plan.planner import plan
from tests.effort import tried
from tests.kit import laws
from tests.kit.drive import Outcome, drive, feed, pipeline_of, results_of
from tests.kit.examples import EXAMPLES, KINDS
from tests.kit.oracles import SlackRule, cuts_by_count, oracle_graph_by_epoch, oracle_graph_by_tuple
from tests.kit.traces import cuttings, pieces, seeded_trace

GRAPHS = [example for example in EXAMPLES if isinstance(example.spec, OperatorGraph)]
each_graph = pytest.mark.parametrize("example", GRAPHS, ids=lambda example: example.name)
SCHEMA = Schema((Field("ts", Kind.TIME, pa.timestamp("us")), *(Field(n, Kind.INT, pa.int64()) for n in "kn")), "ts")
WINDOWS = st.sampled_from(["0 us", "2 us", "4 us"])
SLIDING = st.sampled_from(["3 us", "6 us SLIDE 2 us", "5 us SLIDE 5 us"])
OTHERS = st.sampled_from(["SESSION 2 us", "SESSION 1 us AT MOST 4 us", "6 us CUMULATE 2 us"])


@st.composite
def sources(draw: st.DrawFn, depth: int) -> str:
    """What FROM may read: a stream, or a query in parentheses."""
    return "s" if depth == 0 or draw(st.booleans()) else f"({draw(queries(depth - 1))})"


@st.composite
def queries(draw: st.DrawFn, depth: int) -> str:
    """A query with the columns k and n, and others up to so deep inside it."""
    kind = draw(st.sampled_from(["join", "outer", "aggregate", "aggregate", "distinct", "select", "union"]))
    if kind == "join":
        left, right = draw(sources(depth)), draw(sources(depth))
        return f"SELECT x.k AS k, y.n AS n FROM {left} x [{draw(WINDOWS)}], {right} y [{draw(WINDOWS)}] WHERE x.k = y.k"
    if kind == "outer":
        # The second one reads what the first gives, and is bounded by the times of its members.
        words = draw(st.lists(st.sampled_from(["LEFT", "RIGHT", "FULL", "SEMI", "ANTI"]), min_size=1, max_size=2))
        seen = ["x", *(alias for word, alias in zip(words, "yz", strict=False) if word not in ("SEMI", "ANTI"))]
        read = f"{draw(sources(depth))} x [{draw(WINDOWS)}]"
        for word, alias, source in zip(words, "yz", (draw(sources(depth)), "s"), strict=False):
            read += f" {word} JOIN {source} {alias} [{draw(WINDOWS)}] ON x.k = {alias}.k AND x.n >= {alias}.n"
        return f"SELECT coalesce({', '.join(f'{one}.k' for one in seen)}, 0) AS k, {seen[-1]}.n AS n FROM {read}"
    if kind == "aggregate":
        call = draw(st.sampled_from(["COUNT(*)", "SUM(n)", "MAX(n)", "COUNT(DISTINCT n)"]))
        inside = f"SELECT k, {call} AS n FROM {draw(sources(depth))} x [{draw(st.one_of(SLIDING, OTHERS))}] GROUP BY k"
        return f"SELECT k, n FROM ({inside}) y"
    if kind == "distinct":
        return f"SELECT DISTINCT k, n FROM {draw(sources(depth))} x [{draw(WINDOWS)}]"
    if kind == "select":
        inside = draw(sources(depth))
        return f"SELECT k, n FROM {inside} x" + ("" if inside == "s" else " WHERE n > 1")
    return f"SELECT k, n FROM {draw(sources(depth))} x UNION ALL SELECT n AS k, k AS n FROM {draw(sources(depth))} y"


def arrivals(physical: PhysicalPlan, seed: int, tuples: int) -> Batch:
    """A dense trace in which every input has its columns where the plan wants them."""
    trace = seeded_trace(seed, len(physical.inputs), (Kind.INT, Kind.INT), tuples, 6, longest_step=1, keys=2)
    words = np.zeros((physical.operator.rows, len(trace)), np.int64)
    words[: TS + 2] = trace.words[: TS + 2]
    for stream, one in enumerate(physical.inputs):
        mine = trace.stream == stream
        for name, _, row in one.columns:
            words[row, mine] = trace.words[FIRST_COLUMN + "kn".index(name), mine]
    return Batch(trace.stream, words, trace.passes)


@tried(25)
@given(data=st.data())
def test_any_chain_gives_what_its_slow_twin_gives_whatever_is_late(data):
    text = data.draw(queries(2))
    physical = plan(bind(text, {"s": SCHEMA}).query)
    spec = physical.operator
    assume(isinstance(spec, OperatorGraph) and spec.streams <= 5)
    batch = arrivals(physical, data.draw(st.integers(0, 10**6)), 8 * (spec.streams + 1))
    cuts, slack = data.draw(cuttings(len(batch))), data.draw(st.sampled_from([0, 2]))
    make = pipeline_of(spec)
    wanted = {
        Epochs(each_tuple=True): oracle_graph_by_tuple(spec, batch, SlackRule(slack)),
        Epochs(): oracle_graph_by_epoch(spec, batch, cuts, SlackRule(slack)),
        Epochs(tuples=3): oracle_graph_by_epoch(spec, batch, cuts_by_count(batch, 3), SlackRule(slack)),
    }
    for epochs, outcome in wanted.items():
        laws.late_tuples_count_as_in_the_graph(spec, make, batch, epochs, cuts, FixedSlack(slack), outcome)
        laws.any_cutting_gives_the_true_results(spec, make, batch, epochs, cuts)


@each_graph
@pytest.mark.parametrize(
    "epochs", [Epochs(tuples=3), Epochs(tuples=40), Epochs(each_tuple=True)], ids=["epoch", "long epoch", "tuple"]
)
def test_the_pieces_that_climb_together_change_nothing(example, epochs, monkeypatch):
    spec = example.spec
    batch = seeded_trace(5, spec.streams, KINDS, tuples=90, largest_delay=8, longest_step=1, keys=2)
    answers = []
    for size in (graph_operator.PIECE, 1, 4):
        monkeypatch.setattr(graph_operator, "PIECE", size)
        outcome = drive(pipeline_of(spec)(FixedSlack(2), epochs), pieces(batch, [40, 90]))
        when = [(ts, clock) for e in outcome.emissions for ts, clock in zip(e.ts, e.clock, strict=True)]
        answers.append((results_of(spec, outcome.emissions), sorted(when), sorted(outcome.late_rows)))
    assert answers[0][0]
    assert answers[0][2]
    assert answers[0] == answers[1] == answers[2]


def test_the_results_of_a_long_epoch_do_not_wait_between_nodes_all_at_once(monkeypatch):
    text = "SELECT COUNT(*) AS n FROM (SELECT x.k AS k FROM s x [9 us], s y [9 us] WHERE x.k = y.k) z [9 us]"
    physical = plan(bind(text, {"s": SCHEMA}).query)
    trace = Batch.of([(n % 2, n // 4) for n in range(4000)], physical.operator.rows)
    sizes: list[int] = []
    made_of = Node.made_of

    def noted(self, synchronized):
        made = made_of(self, synchronized)
        sizes.append(len(made))
        return made

    monkeypatch.setattr(Node, "made_of", noted)
    monkeypatch.setattr(graph_operator, "PIECE", 100)
    outcome = feed(pipeline_of(physical.operator)(FixedSlack(0), Epochs()), [trace], Outcome(), end=False)
    assert sum(sizes) > 40_000
    assert max(sizes) < sum(sizes) / 20
    assert len(results_of(physical.operator, outcome.emissions)) > 100


@each_graph
@pytest.mark.parametrize("epochs", [Epochs(), Epochs(each_tuple=True)], ids=["epoch", "tuple"])
def test_what_is_kept_does_not_grow_with_the_stream(example, epochs):
    spec = example.spec
    batch = seeded_trace(7, spec.streams, KINDS, tuples=6000, largest_delay=12)
    pipeline = pipeline_of(spec)(FixedSlack(12), epochs)
    outcome = feed(pipeline, pieces(batch, range(50, len(batch) + 1, 50)), Outcome(), end=False)
    kept = [o.held + o.state_rows for o in outcome.observed]
    assert max(kept[len(kept) // 4 :]) <= 1.5 * max(kept[: len(kept) // 4])


def test_a_row_of_an_aggregate_belongs_to_the_window_above_in_which_it_lies():
    text = "SELECT SUM(n) AS n FROM (SELECT COUNT(*) AS n FROM s [2 us]) x [6 us]"
    physical = plan(bind(text, {"s": SCHEMA}).query)
    batch = Batch.of([(0, ts) for ts in range(12)], physical.operator.rows)
    outcome = drive(pipeline_of(physical.operator)(FixedSlack(0), Epochs(each_tuple=True)), [batch])
    assert results_of(physical.operator, outcome.emissions) == {(0, ()): (6,), (6, ()): (6,)}


def test_a_join_that_makes_nothing_does_not_hold_the_windows_above_it_back():
    text = "SELECT COUNT(*) AS n FROM (SELECT k FROM s UNION ALL SELECT x.k AS k FROM s x [2 us], s y [2 us] "
    physical = plan(bind(text + "WHERE x.k = y.k) u [10 us]", {"s": SCHEMA}).query)
    rows = physical.operator.rows
    pipeline = pipeline_of(physical.operator)(FixedSlack(0), Epochs(each_tuple=True))
    external_sync = Batch.of([(s, ts, s + 1) for ts in range(40) for s in range(3)], rows)
    outcome = feed(pipeline, [external_sync], Outcome(), end=False)
    assert results_of(physical.operator, outcome.emissions) == {(start, ()): (10,) for start in (0, 10, 20)}
