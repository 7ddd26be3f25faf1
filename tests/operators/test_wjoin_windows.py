"""The algorithms of the W-join report over windows that differ from pair to pair: global, local and pairwise."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.core.batch import Batch
from slackwater.core.errors import UsageError
from slackwater.core.schema import NULL_WORD, Kind
from slackwater.core.time import BEFORE_ALL, before, within
from slackwater.core.window_graph import WindowGraph
from slackwater.published.wjoin.approaches import APPROACHES, GCA, LCA, PAIRWISE
from slackwater.published.wjoin.spec import ALGORITHMS, by_algorithm
from tests.effort import tried
from tests.kit.oracle_release import SlackRule, oracle_tuple_release
from tests.kit.oracles import oracle_join, oracle_join_processing
from tests.kit.traces import seeded_trace

from .test_window_graph import graphs
from .test_wjoin import (
    assert_as_in_the_pseudo_code,
    each_algorithm,
    equi_join,
    processed,
    results,
    run_of,
    tuples,
)

ASKS_AT_EVERY_STEP = [algorithm for algorithm in ALGORITHMS if algorithm != "merge"]
each_asking_algorithm = pytest.mark.parametrize("algorithm", ASKS_AT_EVERY_STEP)


def path(*sizes, both_ways=False):
    """A path through all streams, with these windows between one and the next."""
    there = tuple(b for s, size in enumerate(sizes) for b in before(s, s + 1, size))
    back = tuple(b for s, size in enumerate(sizes) for b in before(s + 1, s, size))
    return WindowGraph(len(sizes) + 1, (there, back) if both_ways else (there,))


def joined(graph, algorithm, approach=LCA, **snapshot_delta):
    spec = replace(equi_join(graph.streams, 0), windows=graph.windows, graph=graph, **snapshot_delta)
    return by_algorithm(spec, algorithm, approach, buckets=4, clean_every=7)


# Few of them, for the ledger's condition on both directions is compiled anew for every size.
BOTH_WAYS = [path(*sizes, both_ways=True) for sizes in ((4,), (3, 0), (2, 5, 1), (4, 1, 2, 2, 3))]
PATHS = st.one_of(
    st.lists(st.integers(0, 6), min_size=1, max_size=5).map(lambda sizes: path(*sizes)), st.sampled_from(BOTH_WAYS)
)


@st.composite
def wjoins(draw, algorithm):
    """Any graph by its largest or by local windows, and paths pairwise; some joins with fewer equalities."""
    approach = draw(st.sampled_from([LCA, GCA] if algorithm == "merge" else APPROACHES))
    graph = draw(PATHS if approach == PAIRWISE else st.one_of(graphs(most_alternatives=1), PATHS))
    spec = joined(graph, algorithm, approach)
    if algorithm in ("nested_loop", "merge", "ripple") and graph.streams < 5 and draw(st.booleans()):
        return replace(spec, equalities=spec.equalities[1:])
    return spec


@each_algorithm
@tried(50)
@given(data=st.data())
def test_results_and_comparisons_are_those_of_the_pseudo_code_with_any_windows(algorithm, data):
    spec = data.draw(wjoins(algorithm))
    assert_as_in_the_pseudo_code(spec, data, most={2: 60, 3: 40, 4: 30}.get(spec.streams, 22))


@each_asking_algorithm
@tried(30)
@given(data=st.data())
def test_streams_taken_in_turn_give_the_true_results_with_any_windows(algorithm, data):
    spec = data.draw(wjoins(algorithm))
    streams, keys = st.integers(0, spec.streams - 1), st.sampled_from([1, 2, NULL_WORD])
    clocks, rows = [0] * spec.streams, []
    for s, step, key in data.draw(st.lists(st.tuples(streams, st.integers(0, 4), keys), max_size=24)):
        clocks[s] += step * (s + 1)
        rows.append((s, clocks[s], key))
    found, comparisons, slow = processed(spec, [(tuples(*rows), BEFORE_ALL)])
    wanted = oracle_join(spec, Batch.of(rows, spec.rows))
    assert Counter(members for _, members in found) == Counter({m: n for (_, m), n in wanted.items()})
    assert comparisons == slow.comparisons


CASES = [
    (algorithm, approach)
    for algorithm in ALGORITHMS
    for approach in APPROACHES
    if algorithm != "merge" or approach != PAIRWISE
]


@pytest.mark.parametrize(("algorithm", "approach"), CASES)
@pytest.mark.parametrize("both_ways", [False, True], ids=["one way", "both ways"])
def test_late_tuples_stand_in_their_place_on_a_path(algorithm, approach, both_ways):
    spec = joined(path(6, 9, both_ways=both_ways), algorithm, approach)
    batch = seeded_trace(3, 3, (Kind.INT,), 150, largest_delay=12, longest_step=1, keys=2)
    released = oracle_tuple_release(batch, 3, SlackRule(0))
    assert sum(step.late and step.tuple.ts >= step.met - 9 for step in released) > 10
    found, comparisons, slow = processed(spec, [(released, BEFORE_ALL)])
    assert Counter(found) == Counter(result for result, _ in oracle_join_processing(spec, released))
    assert len(found) > 100
    assert comparisons == slow.comparisons
    count_only = replace(spec, count_only=True, emit=()).build()
    assert sum(output.results for output in count_only.process(run_of(released), True)) == len(found)


@each_algorithm
@pytest.mark.parametrize("approach", [LCA, GCA])
def test_streams_may_have_windows_of_their_own(algorithm, approach):
    plain = replace(equi_join(3, 0), windows=(4, 9, 6))
    spec = by_algorithm(plain, algorithm, approach, buckets=4, clean_every=7)
    batch = seeded_trace(4, 3, (Kind.INT,), 150, largest_delay=12, longest_step=1, keys=2)
    released = oracle_tuple_release(batch, 3, SlackRule(3))
    found, comparisons, slow = processed(spec, [(released, BEFORE_ALL)])
    assert Counter(found) == Counter(result for result, _ in oracle_join_processing(plain, released))
    assert len(found) > 50
    assert comparisons == slow.comparisons


def test_what_keeps_a_path_both_ways_is_given_once():
    """Seen everywhere at once, an object has gone there and back."""
    at_once = tuples((0, 5, 7), (1, 5, 7), (2, 5, 7))
    for algorithm, approach in CASES:
        found, _, _ = processed(joined(path(3, 3, both_ways=True), algorithm, approach), [(at_once, BEFORE_ALL)])
        assert found == [(5, (0, 1, 2))]


def one_wide_pair(narrow, wide, streams=4):
    """All streams within a narrow window of each other, but for the first two."""
    pairs = [(i, j, wide if (j, i) == (0, 1) else narrow) for i in range(streams) for j in range(i)]
    return WindowGraph(streams, (tuple(b for pair in pairs for b in within(*pair)),))


@pytest.mark.parametrize("algorithm", ["nested_loop", "hash", "merge"])
@pytest.mark.parametrize("narrow", [8, 30])
def test_local_windows_need_fewer_comparisons_than_one_for_all(algorithm, narrow):
    random = np.random.default_rng(3)
    rows = [(int(random.integers(4)), t // 3, int(random.integers(9))) for t in range(3000)]
    run = run_of(tuples(*rows), 1000)
    made, compared = [], []
    for approach in (LCA, GCA):
        operator = joined(one_wide_pair(narrow, 40), algorithm, approach).build()
        made.append(Counter(results(operator, run)))
        compared.append(operator.comparisons)
    assert made[0] == made[1]
    assert made[0].total() > 10
    assert compared[0] < compared[1]


def test_windows_count_as_they_were_stated_and_missing_ones_by_the_shortest_way():
    graph = one_wide_pair(1, 10)
    assert graph.closed[0][0][1] == 2
    assert joined(graph, "merge", LCA).filters.earlier == (10, 10, 1, 1)
    assert joined(graph, "merge", GCA).filters.earlier == (10, 10, 10, 10)
    along = WindowGraph(3, ((*within(0, 1, 5), *within(1, 2, 3)),))
    assert joined(along, "merge", LCA).filters.earlier == (8, 5, 8)


@pytest.mark.parametrize("approach", [LCA, GCA])
@pytest.mark.parametrize("algorithm", ["nested_loop", "hash", "merge"])
def test_with_one_window_for_all_an_approach_changes_nothing(algorithm, approach):
    rows = tuples(*[(t % 3, t // 2, t % 2) for t in range(60)])
    plain, reported = by_algorithm(equi_join(3, 5), algorithm), by_algorithm(equi_join(3, 5), algorithm, approach)
    assert reported.filters.refined == ()
    found, comparisons, _ = processed(reported, [(rows, BEFORE_ALL)])
    assert (found, comparisons) == processed(plain, [(rows, BEFORE_ALL)])[:2]
    assert len(found) > 20


def test_a_path_is_followed_from_neighbour_to_neighbour():
    steps = joined(path(1, 2, 3), "nested_loop", PAIRWISE).build()._steps.steps[0]
    assert steps[:, :, 0].tolist() == [[1, 2, 3], [2, 3, 0], [3, 1, 0], [2, 1, 0]]


def test_an_approach_is_refused_where_it_does_not_apply():
    with pytest.raises(UsageError, match="there is lca, gca, pairwise"):
        joined(path(1, 2), "merge", "exact")
    with pytest.raises(UsageError, match="'nested_loop' and 'hash'"):
        joined(path(1, 2), "merge", PAIRWISE)
    with pytest.raises(UsageError, match="in one way only"):
        joined(one_wide_pair(1, 2), "nested_loop", PAIRWISE)
    with pytest.raises(UsageError, match="in one way only"):
        by_algorithm(equi_join(3, 5), "nested_loop", PAIRWISE)
