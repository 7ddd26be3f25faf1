"""Joins as trees of binary joins: the results of the m-way join, the ledger, and the corners; laws cover the rest."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.core.batch import FIRST_COLUMN, ROW, TS, Batch
from slackwater.core.quality import Recall
from slackwater.core.schema import Kind
from slackwater.disorder.controllers import FixedSlack, KeepsLedger
from slackwater.disorder.release.state import NO_PARTITION
from slackwater.expressions.functions import typed_call
from slackwater.expressions.tree import Column, Literal
from slackwater.operators import graph_operator
from slackwater.operators.join.operator import WindowJoin
from slackwater.operators.join.probing import Equality
from slackwater.operators.join.tree import JoinTree, left_deep
from slackwater.operators.pipeline import Epochs, KernelTerms, Pipeline
from tests.effort import tried, tries
from tests.kit.drive import NO_GUARD, Outcome, drive, feed, pipeline_of, results_of
from tests.kit.examples import EXAMPLES, KINDS, ROWS
from tests.kit.laws import Store
from tests.kit.oracles import oracle_join
from tests.kit.traces import cuttings, largest_delay_of, pieces, seeded_trace, traces

K, L = FIRST_COLUMN, FIRST_COLUMN + 1
TREES = [example for example in EXAMPLES if isinstance(example.spec, JoinTree)]
each_tree = pytest.mark.parametrize("example", TREES, ids=lambda example: example.name)
DISCIPLINES = [Epochs(), Epochs(each_tuple=True)]
each_discipline = pytest.mark.parametrize("epochs", DISCIPLINES, ids=["epoch", "tuple"])


MOST = {2: 60, 3: 60, 4: 40, 5: 32}


def dense(streams):
    """Traces in which many tuples join, and many are late."""
    return st.integers(0, 10**6).map(
        lambda seed: seeded_trace(seed, streams, KINDS, MOST[streams], largest_delay=6, longest_step=1, keys=2)
    )


def any_trace(streams):
    return st.one_of(dense(streams), traces(streams, KINDS, most=MOST[streams], filtered=True))


def column(stream, name):
    return Column(stream, name, Kind.FLOAT if name == "v" else Kind.INT)


@st.composite
def joins(draw):
    """Joins of 2 to 5 streams with equalities between any columns, and conditions over two or three streams."""
    streams = draw(st.integers(2, 5))
    two = st.permutations(range(streams)).map(lambda order: sorted(order[:2]))
    rows = st.sampled_from([K, L])
    equalities = draw(st.lists(st.builds(lambda pair, a, b: Equality(pair[0], a, pair[1], b), two, rows, rows),
                               min_size=streams - 2, max_size=streams))  # fmt: skip
    conditions = []
    if draw(st.booleans()):
        a, b = draw(two)
        external_sync = typed_call("abs", (typed_call("-", (column(a, "v"), column(b, "v"))),))
        conditions.append(typed_call("<", (external_sync, Literal(4.0, Kind.FLOAT))))
    if streams > 2 and draw(st.booleans()):
        a, b, c = sorted(draw(st.permutations(range(streams)))[:3])
        total = typed_call("+", (column(a, "l"), column(b, "l")))
        conditions.append(typed_call(">=", (typed_call("+", (total, column(c, "k"))), Literal(1, Kind.INT))))
    windows = tuple(draw(st.lists(st.integers(0, 6), min_size=streams, max_size=streams)))
    names = ((K, "k"), (L, "l"), (L + 1, "v"), (TS, "ts"))
    columns = tuple((s, name, row) for s in range(streams) for row, name in names)
    emit = (*((s, ROW) for s in range(streams)), (0, TS), (streams - 1, K))
    return WindowJoin(windows, tuple(equalities), tuple(conditions), columns, emit, ROWS)


@tried(25)
@given(data=st.data())
def test_with_enough_slack_a_tree_gives_the_rows_of_the_multiway_join(data):
    spec = data.draw(joins())
    batch = data.draw(any_trace(spec.streams))
    cuts = data.draw(cuttings(len(batch)))
    slack = FixedSlack(largest_delay_of(batch))
    for epochs in DISCIPLINES:
        whole, tree = (drive(pipeline_of(one)(slack, epochs), pieces(batch, cuts)) for one in (spec, left_deep(spec)))
        assert results_of(spec, tree.emissions) == results_of(spec, whole.emissions)
        assert tree.timestamps == whole.timestamps
        assert (tree.observed[-1].late, tree.observed[-1].held) == (0, 0)


class Watching(KeepsLedger, FixedSlack):
    """A fixed slack whose user looks into the ledger."""

    def __init__(self, slack):
        super().__init__(slack)
        self.ledger, self.retention, self.interval, self.memory = None, 1000, 1, 100
        self.target = Recall(0.9, 20)


@each_tree
@tried(15)
@given(data=st.data())
def test_results_made_and_results_lost_are_the_true_results(example, data):
    spec = example.spec
    batch = data.draw(any_trace(spec.streams))
    cuts, stop = data.draw(cuttings(len(batch))), data.draw(st.integers(0, 9))
    watching = Watching(data.draw(st.sampled_from([0, 2, 6])))
    epochs = data.draw(st.sampled_from([*DISCIPLINES, Epochs(tuples=3)]))
    make, stored, outcome = pipeline_of(spec), Store(), Outcome()
    pipeline = make(watching, epochs)
    for number, part in enumerate(pieces(batch, cuts)):
        feed(pipeline, [part], outcome, end=False)
        stored.write(pipeline)
        if number == stop:
            pipeline = make(watching, epochs)
            pipeline.restore(stored.read())
    feed(pipeline, [], outcome, end=True)
    true = Counter(ts for ts, _ in oracle_join(spec.whole, batch).elements())
    made = Counter()
    for emission in outcome.emissions:
        for line, ts in enumerate(emission.ts.tolist()):
            made[ts] += 1 if emission.multiplicity is None else int(emission.multiplicity[line])
    moments = range(int(batch.ts.min()), int(batch.ts.max()) + 1) if len(batch) else []
    ledger = {ts: tuple(of.item() for of in watching.ledger.between(np.array([ts, ts + 1]))) for ts in moments}
    assert {ts: n for ts, (n, _) in ledger.items() if n} == dict(made)
    assert {ts: made + lost for ts, (made, lost) in ledger.items() if made + lost} == dict(true)
    reported = pipeline.observe().quality
    assert (reported.good, reported.bad) == (sum(made.values()), sum(true.values()) - sum(made.values()))


@each_tree
@pytest.mark.parametrize("piece", [1, 3])
@each_discipline
def test_the_pieces_that_climb_together_change_nothing(example, epochs, piece, monkeypatch):
    spec = example.spec
    batch = seeded_trace(5, spec.streams, KINDS, tuples=120, largest_delay=8, longest_step=1, keys=2)
    answers = []
    for size in (graph_operator.PIECE, piece):
        monkeypatch.setattr(graph_operator, "PIECE", size)
        outcome = drive(pipeline_of(spec)(FixedSlack(2), epochs), pieces(batch, [40, 80, 120]))
        answers.append((results_of(spec, outcome.emissions), sorted(outcome.late_rows)))
    assert answers[0] == answers[1]


@tried(40)
@given(data=st.data())
def test_of_two_streams_a_tree_is_the_multiway_join_whatever_is_late(data):
    (spec,) = (example.spec for example in EXAMPLES if example.name == "equi-join")
    batch = data.draw(any_trace(2))
    cuts, slack = data.draw(cuttings(len(batch))), data.draw(st.sampled_from([0, 2]))
    parts = data.draw(st.sampled_from([(), (NO_PARTITION, L), (K, L)]))
    for epochs in (*DISCIPLINES, Epochs(tuples=3)):
        whole, one_node = (
            drive(
                Pipeline(one, one.build(), FixedSlack(slack), KernelTerms(epochs, partition_slots=parts), NO_GUARD),
                pieces(batch, cuts),
            )
            for one in (spec, left_deep(spec))
        )
        assert results_of(spec, one_node.emissions) == results_of(spec, whole.emissions)
        assert sorted(one_node.late_rows) == sorted(whole.late_rows)


@pytest.mark.parametrize("seed", range(tries(25)))
def test_the_order_of_arrival_inside_an_epoch_changes_nothing(seed):
    # On Spark the tuples of a micro-batch come by stream and part.
    spec = tree(4, 5, 3)
    batch = seeded_trace(seed, 3, KINDS, 120, largest_delay=6, longest_step=1, keys=1)
    epochs = pieces(batch, range(10, 121, 10))
    shuffled = [part.take(np.random.default_rng(seed).permutation(len(part))) for part in epochs]
    answers = []
    for parts in (epochs, shuffled):
        outcome = drive(pipeline_of(spec)(FixedSlack(0), Epochs()), parts)
        answers.append((results_of(spec, outcome.emissions), sorted(outcome.late_rows)))
    assert answers[0] == answers[1]


def tree(*windows):
    equalities = tuple(Equality(0, K, s, K) for s in range(1, len(windows)))
    emit = tuple((s, ROW) for s in range(len(windows)))
    return left_deep(WindowJoin(windows, equalities, (), (), emit, ROWS))


def test_a_node_does_not_wait_for_the_streams_above_it():
    # The third stream is far behind. For an m-way join the straggler of the first one, at 8, would be in time.
    arrivals = [(2, 1, 7), (0, 10, 7), (1, 10, 7), (0, 8, 7), (1, 12, 7), (0, 12, 7), (2, 12, 7)]
    outcome = drive(pipeline_of(tree(5, 5, 5))(FixedSlack(0), Epochs(tuples=1)), [Batch.of(arrivals, ROWS)])
    assert outcome.late_rows == [3]
    made = set(results_of(tree(5, 5, 5), outcome.emissions))
    assert (12, (3, 4, 6)) in made, "a late tuple still joins what comes after it"
    assert (12, (3, 2, 6)) not in made, "its node had already processed the other one"
    assert (12, (1, 2, 6)) in made


@each_discipline
def test_a_join_below_that_makes_nothing_holds_nobody_back(epochs):
    pipeline = pipeline_of(tree(5, 5, 5))(FixedSlack(0), epochs)
    arrivals = [(s, t, s) for t in range(0, 400, 2) for s in range(3)]
    outcome = feed(pipeline, pieces(Batch.of(arrivals, ROWS), range(30, 601, 30)), Outcome(), end=False)
    assert outcome.observed[-1].held < 12
    assert outcome.observed[-1].watermark >= 390


@each_discipline
@pytest.mark.parametrize("silent", [0, 1, 2])
def test_a_silent_stream_holds_the_others_back_until_the_idle_timeout(epochs, silent):
    spec = tree(50, 50, 50)
    speaking = [s for s in range(3) if s != silent]
    arrivals = [(silent, 0, 7)] + [(s, t, 7) for t in range(0, 60, 2) for s in speaking]
    watermarks = []
    for timeout in (None, 10):
        pipeline = Pipeline(spec, spec.build(), FixedSlack(0), KernelTerms(epochs, idle_timeout=timeout), NO_GUARD)
        outcome = feed(pipeline, pieces(Batch.of(arrivals, ROWS), range(1, len(arrivals) + 1)), Outcome(), end=False)
        watermarks.append(outcome.observed[-1].watermark)
        made = results_of(spec, outcome.emissions)
        assert (len(made) > 100) == (timeout is not None)
    assert watermarks[0] <= 0
    assert watermarks[1] >= 40


def test_an_epoch_without_arrivals_lets_out_what_a_silent_stream_held_back():
    spec = tree(50, 50, 50)
    pipeline = Pipeline(spec, spec.build(), FixedSlack(0), KernelTerms(Epochs(), idle_timeout=10), NO_GUARD)
    batch = Batch.of([(0, 0, 7), (1, 20, 7), (2, 20, 7)], ROWS)
    pipeline.absorb(Batch(batch.stream, batch.words, batch.passes, np.array([100, 100, 100])))
    assert not any(len(emission.ts) for emission in pipeline.advance())
    assert sum(len(emission.ts) for emission in pipeline.on_processing_time(105)) == 0
    pipeline.absorb(Batch(batch.stream, batch.words, batch.passes, np.array([112, 112, 112])).take(slice(1, 3)))
    assert sum(len(emission.ts) for emission in pipeline.advance()) == 4


def test_a_delay_is_carried_from_the_tuple_that_triggered_to_the_last_node():
    spec = tree(50, 50, 50)
    built = spec.build()
    pipeline = Pipeline(spec, built, FixedSlack(100), KernelTerms(Epochs()), NO_GUARD)
    seen = {}
    process = built.process

    def noted(run, ordered):
        seen.update({(int(s), int(ts)): int(d) for s, ts, d in zip(run.stream, run.ts, run.delay, strict=True)})
        yield from process(run, ordered)

    built.process = noted
    drive(pipeline, [Batch.of([(0, 5, 7), (1, 30, 7), (1, 9, 7), (2, 40, 7), (2, 33, 7)], ROWS)])
    assert seen[0, 9] == 21, "the combination that the delayed tuple made"
    assert seen[0, 30] == 0
    assert seen[1, 33] == 7


def test_every_equality_and_condition_is_asked_at_the_lowest_node_that_knows_its_streams():
    near = typed_call("<", (column(0, "v"), column(2, "v")))
    columns = ((0, "v", L + 1), (2, "v", L + 1))
    equalities = (Equality(0, K, 3, K), Equality(1, K, 3, K), Equality(0, L, 2, L))
    spec = WindowJoin((5, 6, 7, 8), equalities, (near,), columns, ((3, ROW),), ROWS)
    lowest, middle, top = left_deep(spec).nodes
    assert lowest.equalities == (Equality(0, K, 1, K),), "what follows from the others is asked as early as possible"
    assert [len(node.equalities) for node in (lowest, middle, top)] == [1, 1, 1]
    # Beside those of the query, one for every member that must be inside its own window.
    assert [len(node.conditions) for node in (lowest, middle, top)] == [0, 1 + 2, 3]
    assert [node.windows for node in (lowest, middle, top)] == [(5, 6), (6, 7), (7, 8)]
