"""The order of probes: it may change at any tuple, and never changes what a join finds."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import permutations
from random import Random
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.core.batch import ROW, Batch
from slackwater.core.window_graph import WindowGraph
from slackwater.disorder.controllers import FixedSlack
from slackwater.operators.join import adaptive, operator
from slackwater.operators.join.adaptive import AdaptiveProbes
from slackwater.operators.join.operator import WindowJoin
from slackwater.operators.join.probe_order import cheapest_probe_order, cost_of
from slackwater.operators.join.probing import Equality, Linkage, ProbeOrder
from slackwater.operators.join.selectivity import Selectivities
from slackwater.operators.pipeline import Epochs
from slackwater.published.wjoin.spec import WJoin
from tests.effort import tried
from tests.kit import laws
from tests.kit.drive import Outcome, drive, feed, pipeline_of, results_of
from tests.kit.examples import EXAMPLES, KINDS, K, L
from tests.kit.oracles import SlackRule, oracle_join, oracle_tuple_release
from tests.kit.traces import cuttings, pieces, seeded_trace, traces

from .test_window_graph import joins

MANY_WAY = [
    example.spec for example in EXAMPLES
    if isinstance(example.spec, WindowJoin) and not isinstance(example.spec, WJoin) and example.spec.streams > 2
]  # fmt: skip


def any_route(random, linkage, root, now, known):
    """A route at random: any order, any class for an index, any urgency."""
    leaves = linkage.leaves(root)
    rest = [s for s in range(linkage.streams) if s != root and s not in leaves]
    streams = (*random.sample(rest, len(rest)), *random.sample(leaves, len(leaves)))
    by = tuple(random.randrange(max(1, len(linkage.classes))) for _ in streams)
    return ProbeOrder(streams, by, tuple(random.sample(streams, len(streams))))


class Straying:
    """Joins that are built inside take another route at random whenever they may; counts how often they did."""

    def __init__(self, seed):
        made = partial(AdaptiveProbes, choose=partial(any_route, Random(seed)), early=1)
        self._patches = patch.object(operator, "AdaptiveProbes", self._keep(made)), patch.object(adaptive, "MORE", 1)
        self.orders = []

    def _keep(self, made):
        def build(*given):
            self.orders.append(made(*given))
            return self.orders[-1]

        return build

    def __enter__(self):
        for one in self._patches:
            one.start()
        return self

    def __exit__(self, *failure):
        for one in self._patches:
            one.stop()

    @property
    def switches(self):
        return sum(order.switches for order in self.orders)


@tried(25)
@given(data=st.data())
def test_any_route_changed_at_any_tuple_gives_the_true_results_as_rows_and_counted(data):
    spec = data.draw(st.one_of(st.sampled_from(MANY_WAY), joins().filter(lambda join: join.streams > 2)))
    batch = data.draw(traces(spec.streams, KINDS, most={3: 30, 4: 20, 5: 15}[spec.streams], filtered=True))
    cuts = data.draw(cuttings(len(batch)))
    slack = data.draw(st.sampled_from([0, 3]))
    released = oracle_tuple_release(batch, spec.streams, SlackRule(slack))
    for one in (spec, replace(spec, count_only=True, emit=())):
        with Straying(data.draw(st.integers(0, 99))):
            laws.any_cutting_gives_the_true_results(one, pipeline_of(one), batch, Epochs(), cuts)
            laws.late_tuples_count_as_published(
                one, pipeline_of(one), batch, Epochs(each_tuple=True), cuts, FixedSlack(slack), released
            )


@tried(12)
@given(data=st.data())
def test_a_restored_join_goes_on_whatever_routes_it_had_taken(data):
    spec = data.draw(st.sampled_from(MANY_WAY))
    batch = data.draw(traces(spec.streams, KINDS, most={3: 30, 4: 20}[spec.streams], filtered=True))
    cuts = data.draw(cuttings(len(batch)))
    stop = data.draw(st.integers(0, len(cuts)))
    with Straying(data.draw(st.integers(0, 99))):
        laws.going_on_after_restore_equals_never_stopping(
            spec, pipeline_of(spec), batch, Epochs(), cuts, stop, lambda: FixedSlack(3)
        )


@pytest.mark.parametrize("count_only", [False, True])
def test_routes_do_change_and_indexes_with_them(count_only):
    chain = Equality(0, K, 1, K), Equality(1, L, 2, L), Equality(0, L, 2, K)
    spec = WindowJoin(
        (9, 9, 9), chain, (), (), () if count_only else tuple((s, ROW) for s in range(3)), L + 2, count_only
    )
    batch = seeded_trace(2, 3, KINDS, tuples=120, longest_step=1, keys=3)
    with Straying(5) as straying:
        outcome = drive(pipeline_of(spec)(FixedSlack(12), Epochs()), pieces(batch, range(5, 121, 5)))
    true = oracle_join(replace(spec, count_only=False, emit=tuple((s, ROW) for s in range(3))), batch)
    assert sum(results_of(spec, outcome.emissions).values()) == sum(true.values()) > 0
    assert straying.switches > 10
    assert len(straying.orders[0].indexes) == 6 > len(AdaptiveProbes(*linked(spec)).indexes)


def linked(spec):
    return spec.linkage(spec.count_only, True), np.array(spec.windows), spec.most, spec.count_only


def one_class(streams, count_only=False, **more):
    return Linkage(streams, tuple(Equality(s, K, s + 1, K) for s in range(streams - 1)), (), count_only, **more)


def known(streams, shares, live=1000.0, conditions=(), empty=0.1):
    """The same shares by stream whatever arrives."""
    return Selectivities(
        np.full(streams, live),
        np.broadcast_to(np.array(shares, np.float64), (streams, 1, streams)),
        np.broadcast_to(np.array(conditions, np.float64), (streams, len(conditions))),
        np.broadcast_to(np.array(empty, np.float64), (streams, streams)),
    )


def test_the_most_selective_stream_is_bound_first():
    probe_order, _ = cheapest_probe_order(one_class(4), 0, known(4, [0.01, 0.05, 0.02, 0.0001]))
    assert probe_order.streams == (3, 2, 1)


def test_the_leaf_that_is_most_often_empty_is_asked_first():
    linkage = one_class(4, count_only=True)
    shares = known(4, [0.01] * 4, empty=[0.1, 0.1, 0.2, 0.9])
    probe_order, cost = cheapest_probe_order(linkage, 0, shares)
    assert probe_order.urgent == (3, 2, 1)
    assert cost < cost_of(linkage, 0, linkage.probe_order(0), shares)


def test_a_stream_that_is_scanned_goes_behind_one_that_is_found_by_its_key():
    linkage = Linkage(3, (Equality(0, K, 2, K),), (frozenset({0, 1}),), False)
    probe_order, _ = cheapest_probe_order(linkage, 0, known(3, [0.01, 0.01, 0.0001], conditions=[0.5]))
    assert probe_order.streams == (2, 1)


@tried(30)
@given(shares=st.lists(st.floats(1e-4, 1), min_size=4, max_size=4))
def test_no_order_is_cheaper_than_the_cheapest_one(shares):
    # With windows between pairs a step is ready when all before it are bound; as they are equal, the search is exact.
    linkage = one_class(4, graph=WindowGraph.of_windows((5,) * 4))
    facts = known(4, shares)
    for root in range(4):
        probe_order, cost = cheapest_probe_order(linkage, root, facts)
        others = [s for s in range(4) if s != root]
        least = min(cost_of(linkage, root, ProbeOrder(order), facts) for order in permutations(others))
        assert cost == pytest.approx(cost_of(linkage, root, probe_order, facts)) == pytest.approx(least)


def test_what_is_nearly_as_good_is_not_worth_a_change():
    linkage = one_class(4)
    now = linkage.probe_order(0)
    assert adaptive.cheaper(linkage, 0, now, known(4, [0.0105, 0.0105, 0.0104, 0.0103])) == now
    assert adaptive.cheaper(linkage, 0, now, known(4, [0.01, 0.05, 0.02, 0.0001])) != now


def distinct_keys(streams, rare, tuples, begin=0):
    """Streams in turn with one key for all, but for one stream, whose keys are hardly ever those of the others."""
    key = [i // streams if i % streams == rare else 7 for i in range(tuples)]
    return [(i % streams, begin + i // streams, key[i]) for i in range(tuples)]


def test_a_join_finds_the_stream_with_few_partners_and_follows_when_that_changes(monkeypatch):
    monkeypatch.setattr(adaptive, "MORE", 1)
    spec = WindowJoin((20,) * 4, one_on_k(4), (), (), tuple((s, ROW) for s in range(4)), L + 1)
    pipeline = pipeline_of(spec)(FixedSlack(0), Epochs())
    built = spec.build()
    pipeline._operator = built
    # The keys of the rare stream go on from half to half, so that they stay rare.
    for begin, rare in ((0, 3), (1000, 1)):
        arrivals = distinct_keys(4, rare, 4000, begin)
        batches = [Batch.of(arrivals[at : at + 400], spec.rows) for at in range(0, 4000, 400)]
        feed(pipeline, batches, Outcome(), end=False)
        assert built.order.probe_orders[0].streams[0] == rare


def one_on_k(streams):
    return tuple(Equality(s, K, s + 1, K) for s in range(streams - 1))


def test_with_two_streams_and_one_key_nothing_is_counted():
    two = WindowJoin((5, 5), one_on_k(2), (), (), (), L + 1, count_only=True)
    assert not two.build().order.probe_stats.on
    assert WindowJoin((5,) * 3, one_on_k(3), (), (), (), L + 1, count_only=True).build().order.probe_stats.on


@pytest.mark.parametrize("missing", [1, 7])
def test_a_product_beyond_64_bits_is_no_error_where_another_factor_is_zero(missing):
    spec = WindowJoin((5,) * 8, one_on_k(8), (), (), (), L + 1, count_only=True)
    arrivals = [(s, 1, 7, 0) for s in range(1, 8) if s != missing for _ in range(1600)] + [(0, 2, 7, 0)]
    outcome = drive(pipeline_of(spec)(FixedSlack(0), Epochs()), [Batch.of(arrivals, spec.rows)])
    assert sum(results_of(spec, outcome.emissions).values()) == 0
