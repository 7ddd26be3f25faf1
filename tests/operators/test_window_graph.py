"""Joins with windows between pairs of streams, against the truth by trying all combinations."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from slackwater.core.batch import ROW
from slackwater.core.time import before, within
from slackwater.core.window_graph import WindowGraph
from slackwater.disorder.controllers import FixedSlack
from slackwater.operators.join.operator import WindowJoin
from slackwater.operators.join.probing import STREAM, Equality
from slackwater.operators.join.tree import left_deep
from slackwater.operators.pipeline import Epochs
from tests.effort import tried
from tests.kit import laws
from tests.kit.drive import drive, pipeline_of, results_of
from tests.kit.examples import KINDS, ROWS, K, L
from tests.kit.oracles import SlackRule, oracle_join, oracle_tuple_release
from tests.kit.traces import cuttings, largest_delay_of, pieces, traces

from .test_ledger import LONG, settled

MOST = {2: 40, 3: 30, 4: 20, 5: 15}


@st.composite
def graphs(draw, most_alternatives=2):
    """Connected graphs of 2 to 5 streams: windows and directed windows, in up to two alternatives."""
    streams = draw(st.integers(2, 5))
    sizes, kinds = st.integers(0, 6), st.sampled_from([within, before])
    alternatives = []
    for _ in range(draw(st.integers(1, most_alternatives))):
        order = draw(st.permutations(range(streams)))
        # Every stream hangs on one before it; some further pairs are bound too.
        pairs = [(order[at], order[draw(st.integers(0, at - 1))]) for at in range(1, streams)]
        pairs += draw(st.lists(st.permutations(range(streams)).map(lambda some: tuple(some[:2])), max_size=2))
        alternatives.append(
            tuple(b for i, j in pairs for b in draw(kinds)(*draw(st.permutations((i, j))), draw(sizes)))
        )
    return WindowGraph(streams, tuple(alternatives))


@st.composite
def joins(draw):
    graph = draw(graphs())
    streams = graph.streams
    rows = st.sampled_from([K, L])
    linked = [(s, draw(st.integers(0, s - 1))) for s in range(1, streams) if draw(st.integers(0, 5))]
    equalities = tuple(Equality(a, draw(rows), b, draw(rows)) for a, b in linked)
    emit = tuple((s, ROW) for s in range(streams))
    return WindowJoin(graph.windows, equalities, (), (), emit, ROWS, graph=graph)


def drawn_trace(spec, data):
    batch = data.draw(traces(spec.streams, KINDS, most=MOST[spec.streams], filtered=True))
    return batch, data.draw(cuttings(len(batch)))


@tried(60)
@given(data=st.data())
def test_any_graph_gives_the_true_results_as_rows_and_counted(data):
    spec = data.draw(joins())
    batch, cuts = drawn_trace(spec, data)
    for one in (spec, replace(spec, count_only=True, emit=())):
        for epochs in (Epochs(), Epochs(each_tuple=True)):
            laws.any_cutting_gives_the_true_results(one, pipeline_of(one), batch, epochs, cuts)


@tried(40)
@given(data=st.data())
def test_late_tuples_count_in_any_graph_as_in_the_published_algorithm(data):
    spec = data.draw(joins())
    batch, cuts = drawn_trace(spec, data)
    slack = data.draw(st.sampled_from([0, 3]))
    released = oracle_tuple_release(batch, spec.streams, SlackRule(slack))
    for one in (spec, replace(spec, count_only=True, emit=())):
        laws.late_tuples_count_as_published(
            one, pipeline_of(one), batch, Epochs(each_tuple=True), cuts, FixedSlack(slack), released
        )


@tried(60)
@given(data=st.data())
def test_results_made_and_lost_are_the_true_results_of_any_graph(data):
    spec = data.draw(joins())
    batch, cuts = drawn_trace(spec, data)
    discipline = data.draw(st.sampled_from(["epoch", "tuple"]))
    ledger, unknown = settled(spec, batch, cuts, data.draw(st.sampled_from([0, 2])), discipline, LONG)
    true = Counter(ts for ts, _ in oracle_join(spec, batch).elements())
    assert unknown == 0
    assert {ts: made + lost for ts, (made, lost) in ledger.items() if made + lost} == dict(true)


@tried(25)
@given(data=st.data())
def test_a_tree_of_joins_gives_the_true_results_of_any_graph(data):
    spec = left_deep(data.draw(joins()))
    batch, cuts = drawn_trace(spec, data)
    laws.any_cutting_gives_the_true_results(spec, pipeline_of(spec), batch, Epochs(), cuts)


@tried(25)
@given(data=st.data())
def test_one_window_per_stream_written_as_a_graph_changes_nothing(data):
    windows = tuple(data.draw(st.lists(st.integers(0, 6), min_size=2, max_size=4)))
    on = tuple(Equality(s, K, s + 1, K) for s in range(len(windows) - 1))
    plain = WindowJoin(windows, on, (), (), tuple((s, ROW) for s in range(len(windows))), ROWS)
    graph = WindowGraph.of_windows(windows)
    batch, cuts = drawn_trace(plain, data)
    slack = FixedSlack(largest_delay_of(batch) // 2)
    wanted = drive(pipeline_of(plain)(slack, Epochs()), pieces(batch, cuts))
    assert graph.plain
    spec = replace(plain, graph=graph)
    found = drive(pipeline_of(spec)(slack, Epochs()), pieces(batch, cuts))
    assert results_of(spec, found.emissions) == results_of(plain, wanted.emissions)


def test_streams_bound_only_through_the_arriving_one_are_counted_and_not_enumerated():
    on = Equality(0, K, 1, K), Equality(1, K, 2, K)
    star = WindowGraph(3, ((*within(0, 1, 5), *within(0, 2, 3)),))
    spec = WindowJoin(star.windows, on, (), (), (), ROWS, count_only=True, graph=star)
    # Two leaves of a star are as far apart as their ways to its centre allow; a leaf and the centre are nearer.
    assert spec.probes().leaves.tolist() == [0, 2, 2]
    path = WindowGraph(3, ((*before(0, 1, 5), *before(1, 2, 3)),))
    # From the middle of a path its ends are free; from its end the middle must be known before the beginning.
    walked = replace(spec, graph=path, windows=path.windows).probes()
    assert walked.leaves.tolist() == [0, 0, 2]
    assert walked.steps[2, :, STREAM].tolist() == [1, 0]
