"""What stands in the windows, and what it weighs: as the slow twin counts it, whatever comes and however late."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from slackwater.core.batch import ROW, TS, Batch
from slackwater.core.memory import Resident
from slackwater.core.results import FILTER, SYNC, Ordering
from slackwater.core.schema import NULL_WORD, Field, Kind, Schema
from slackwater.disorder.controllers import FixedSlack
from slackwater.language.bind import bind
from slackwater.operators.graph import OperatorGraph
from slackwater.operators.join.count_windows import RowWindows
from slackwater.operators.join.operator import WindowJoin
from slackwater.operators.pipeline import Epochs, KernelTerms, Pipeline
from slackwater.operators.state_size import Member, NodeSpec, OfInput, WindowContents, plain_weights, state_size
from slackwater.plan.physical import PhysicalPlan
from slackwater.plan.planner import plan
from slackwater.plan.sizes import weights_of
from slackwater.published.in_order.join import OrderedJoin
from slackwater.published.in_order.operator import OrderedOperator
from tests.effort import each_with_members, tried
from tests.kit.drive import NO_GUARD, Outcome, feed, pipeline_of
from tests.kit.examples import EXAMPLES, KINDS
from tests.kit.oracle_graph import windows_of_graph
from tests.kit.oracle_memory import weighed, windows_of_join
from tests.kit.oracle_release import SlackRule
from tests.kit.traces import cuttings, pieces, seeded_trace, traces

EACH_TUPLE = Epochs(each_tuple=True)
JOINS = [example for example in EXAMPLES if isinstance(example.spec, WindowJoin) and example.spec.streams < 4]
each_join = each_with_members(JOINS)
SCHEMA = Schema((Field("ts", Kind.TIME, pa.timestamp("us")), *(Field(n, Kind.INT, pa.int64()) for n in "kn")), "ts")
PAIR = "(SELECT x.k AS k, y.n AS n FROM s x [2 us], s y [4 us] WHERE x.k = y.k)"
CHAINS = {
    "a join of a join": f"SELECT p.k AS k FROM {PAIR} p [3 us], s z [5 us] WHERE p.k = z.k",
    "a join of two joins": f"SELECT p.k AS k FROM {PAIR} p [3 us], {PAIR} q [2 us] WHERE p.k = q.k AND p.n = q.n",
    "a join of a join, by rates": """SELECT p.k AS k FROM
        (SELECT x.k AS k FROM s x [RATE 6 us], s y [RATE 4 us] MATCH TIME WITHIN 3 us WHERE x.k = y.k) p [RATE 5 us],
        s z [RATE 9 us] MATCH TIME WITHIN 4 us""",
    "a join of a selection": "SELECT p.k AS k FROM (SELECT k FROM s) p [3 us], s z [5 us] WHERE p.k = z.k",
}


def memories(pipeline: Pipeline, parts: list[Batch]):
    """What a pipeline observes of its memory after each part."""
    return [seen.memory for seen in feed(pipeline, parts, Outcome(), end=False).observed]


@each_join
@tried(10)
@given(data=st.data(), slack=st.sampled_from([0, 3]))
def test_a_join_holds_what_its_twin_holds(example, data, slack):
    spec = example.spec
    batch = data.draw(traces(spec.streams, KINDS, most=30, filtered=True))
    cuts = data.draw(cuttings(len(batch)))
    weights = plain_weights([range(spec.streams)])
    found = memories(pipeline_of(spec)(FixedSlack(slack), EACH_TUPLE), pieces(batch, cuts))
    for end, seen in zip(cuts, found, strict=True):
        assert seen == weighed([windows_of_join(spec, batch.take(slice(0, end)), SlackRule(slack))], weights)


@pytest.mark.parametrize("how", [SYNC, FILTER])
@given(data=st.data())
@tried(15)
def test_a_join_that_takes_tuples_before_their_turn_holds_them_too(how, data):
    (spec,) = (example.spec for example in JOINS if example.name == "equi-join")
    batch = data.draw(traces(spec.streams, KINDS, most=30))
    join = OrderedJoin(spec)
    pipeline = Pipeline(spec, OrderedOperator(join, Ordering(how)), FixedSlack(0), KernelTerms(EACH_TUPLE), NO_GUARD)
    cuts = data.draw(cuttings(len(batch)))
    for end, seen in zip(cuts, memories(pipeline, pieces(batch, cuts)), strict=True):
        plain = [len(window) for window in windows_of_join(spec, batch.take(slice(0, end)), SlackRule(0))]
        standing = [seen.windows[str(stream)].tuples for stream in range(spec.streams)]
        assert standing == plain if how == SYNC else all(n >= least for n, least in zip(standing, plain, strict=True))


def planned(text: str) -> PhysicalPlan:
    return plan(bind(text, {"s": SCHEMA}).query)


def arrivals(physical: PhysicalPlan, seed: int, tuples: int) -> Batch:
    """A dense trace of a plan's inputs, all of which read one source: they know its events by the same numbers."""
    trace = seeded_trace(seed, len(physical.inputs), (Kind.INT, Kind.INT), tuples, 6, longest_step=1, keys=3)
    words = np.zeros((physical.operator.rows, len(trace)), np.int64)
    words[TS] = trace.words[TS]
    for stream, one in enumerate(physical.inputs):
        mine = trace.stream == stream
        words[ROW, mine] = np.arange(np.count_nonzero(mine))
        for name, _, row in one.columns:
            if row < one.rows:
                words[row, mine] = trace.words[2 + "kn".index(name), mine]
    return Batch(trace.stream, words, trace.passes)


@pytest.mark.parametrize("options", ["", " OPTIONS (size_by = 'n')"], ids=["by words", "by size"])
@pytest.mark.parametrize("name", CHAINS)
@tried(8)
@given(seed=st.integers(0, 10**6), slack=st.sampled_from([0, 4]))
def test_a_chain_holds_what_its_twin_holds_and_counts_members_once(name, options, seed, slack):
    physical = planned(CHAINS[name] + options)
    spec, weights = physical.operator, weights_of(physical)
    assert isinstance(spec, OperatorGraph)
    batch = arrivals(physical, seed, 50)
    pipeline = Pipeline(spec, spec.build(), FixedSlack(slack), KernelTerms(EACH_TUPLE, weights=weights), NO_GUARD)
    cuts = [17, 33, 50]
    for end, seen in zip(cuts, memories(pipeline, pieces(batch, cuts)), strict=True):
        wanted = weighed(windows_of_graph(spec, batch.take(slice(0, end)), SlackRule(slack)), weights)
        assert seen == wanted
        if options:
            assert seen.query.events == seen.streams["s"].events <= np.max(batch.words[ROW, :end]) + 1


@tried(10)
@given(seed=st.integers(0, 10**6))
def test_a_tree_of_joins_holds_the_events_that_the_same_chain_holds(seed):
    """Members of combinations are known in both, and their windows are the same where all windows are."""
    tree = planned(
        "SELECT a.k FROM s a [4 us], s b [4 us], s c [4 us] WHERE a.k = b.k AND b.k = c.k"
        " OPTIONS (size_by = 'n', shape = 'binary')"
    )
    inside = "(SELECT a.k AS k FROM s a [4 us], s b [4 us] WHERE a.k = b.k)"
    chain = planned(f"SELECT p.k FROM {inside} p [4 us], s c [4 us] WHERE p.k = c.k OPTIONS (size_by = 'n')")
    seen = []
    for physical in (tree, chain):
        spec = physical.operator
        batch = arrivals(physical, seed, 60)
        made = Pipeline(
            spec, spec.build(), FixedSlack(2), KernelTerms(EACH_TUPLE, weights=weights_of(physical)), NO_GUARD
        )
        seen.append(memories(made, [batch])[-1])
    of_tree, of_chain = seen
    assert of_tree.windows["a ⨝ b"] == of_chain.windows["p"]
    assert (of_tree.query, of_tree.streams) == (of_chain.query, of_chain.streams)


@given(batch=traces(2, KINDS, most=40))
@tried(20)
def test_every_tuple_is_resident_expired_or_waiting(batch):
    (spec,) = (example.spec for example in JOINS if example.name == "equi-join")
    pipeline = pipeline_of(spec)(FixedSlack(3), EACH_TUPLE)
    (seen,) = feed(pipeline, [batch], Outcome(), end=False).observed if len(batch) else (pipeline.observe(),)
    resident = seen.memory.query.tuples
    young = batch.ts >= seen.watermark - np.array(spec.windows)[batch.stream]
    assert resident <= np.count_nonzero(young) <= resident + seen.held
    assert len(batch) - seen.held - resident >= np.count_nonzero(~young) - seen.held


@given(batch=traces(2, KINDS, most=40))
@tried(20)
def test_a_window_of_rows_holds_all_in_time_but_those_pushed_out(batch):
    by_rows = (example.spec for example in JOINS if type(example.spec.policy) is RowWindows)
    (spec,) = (one for one in by_rows if one.streams == 2 and all(one.policy.last))
    assume(len(batch))
    (seen,) = feed(pipeline_of(spec)(FixedSlack(0), EACH_TUPLE), [batch], Outcome(), end=False).observed
    assert seen.memory.query.tuples <= min(seen.in_time, sum(spec.policy.last))
    ended = feed(pipeline_of(spec)(FixedSlack(99), EACH_TUPLE), [batch], Outcome(), end=True).observed[-1]
    counts = np.bincount(batch.stream, minlength=2)
    assert ended.memory.query.tuples == np.minimum(counts, spec.policy.last).sum()


def test_an_aggregate_holds_partials_and_a_union_nothing():
    for example in EXAMPLES:
        spec = example.spec
        if type(spec).__name__ in ("WindowAggregate", "StreamUnion"):
            pipeline = pipeline_of(spec)(FixedSlack(0), EACH_TUPLE)
            seen = feed(pipeline, [seeded_trace(1, spec.streams, KINDS, 100)], Outcome(), end=False).observed[-1]
            assert seen.memory.query.tuples == seen.state_rows
            assert (seen.memory.query.bytes > 0) == (seen.state_rows > 0)


def test_sizes_that_are_none_are_the_words_of_the_event():
    physical = planned("SELECT a.k FROM s a [9 us], s b [9 us] WHERE a.k = b.k OPTIONS (size_by = 'n')")
    spec, (columns,) = physical.operator, {one.columns for one in physical.inputs}
    rows = {name: row for name, _, row in columns}
    words = np.zeros((spec.rows, 5), np.int64)
    words[TS], words[ROW] = [1, 1, 2, 3, 9], [0, 0, 1, 2, 3]
    words[rows["n"]] = [100, 100, -5, NULL_WORD, 7]
    batch = Batch(np.array([0, 1, 0, 0, 1]), words, np.ones(5, np.bool_))
    made = Pipeline(spec, spec.build(), FixedSlack(0), KernelTerms(EACH_TUPLE, weights=weights_of(physical)), NO_GUARD)
    (seen,) = memories(made, [batch])
    assert seen.windows["a"] == Resident(3, 3, 100 + 2 * 8 * spec.rows)
    assert seen.query == replace(seen.windows["a"], tuples=4)


@pytest.mark.parametrize(
    ("is_float", "sizes"),
    [
        (False, [0, 7, 2**48 - 1, 2**48, 2**62, -1, NULL_WORD]),
        (True, [0.0, 7.9, 2.0**48 - 1, 2.0**48, math.inf, -0.5, math.nan]),
    ],
)
def test_only_a_size_that_an_event_can_have_is_believed(is_float, sizes):
    """What is null, negative or beyond all measure counts as the three words that are kept."""
    said = np.array(sizes, np.float64).view(np.int64) if is_float else np.array(sizes)
    words = np.array([np.arange(7), np.arange(7), said])
    weights = (NodeSpec("s", (OfInput("s", (Member("s", size=2, is_float=is_float),)),)),)
    assert state_size([WindowContents.of_tuples(0, words)], weights).query == Resident(
        7, 7, 0 + 7 + 2**48 - 1 + 4 * 3 * 8
    )
