"""Plans that change while a query runs: results stay the same, a restart goes on with the plan in force, and what is
counted to decide about it is what the oracle counts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pytest

from slackwater.core.values import as_json, of_json
from slackwater.disorder.controllers import FixedSlack
from slackwater.expressions.relational import Relation, Scan, nodes
from slackwater.operators.contract import PLAIN
from slackwater.operators.instant import adapting, table_statistics
from slackwater.operators.instant.adapting import TableStatistics
from slackwater.operators.instant.spec import InstantRelation
from slackwater.operators.instant.store import WindowStore
from slackwater.operators.pipeline import Epochs
from slackwater.plan.placement.costs import CONSTANTS, Costs
from slackwater.plan.placement.learning import CostBased, statistics_of
from slackwater.plan.placement.phase_one import best_tree
from slackwater.plan.placement.place import place
from slackwater.plan.placement.plan_cost import Objective
from slackwater.plan.placement.sizes import numbered, sizes_of
from slackwater.plan.placement.statistics import Statistics
from tests.effort import EXAMPLES, tries
from tests.kit.drive import drive, pipeline_of
from tests.kit.instant_examples import PLACES, correlated, gone, two_lengths
from tests.kit.oracle_instant import relation_at, value_of
from tests.kit.oracle_release import tuples_of
from tests.kit.random_relations import ROWS, RandomTrees
from tests.kit.traces import pieces
from tests.operators.instant.test_relations import a_trace, check, emitted


@dataclass(frozen=True)
class Restless:
    """A planner that goes by chance: another tree, another placement, or neither."""

    seed: int

    def _chance(self, found: TableStatistics) -> np.random.Generator:
        return np.random.default_rng([self.seed, found.at % 2**32])

    def plan_for(self, stated: Relation, slide: int, found: TableStatistics):
        chance = self._chance(found)
        costs = Costs(**{name: float(10 ** chance.uniform(-9, -3)) for name in CONSTANTS})
        tree = best_tree(stated, Statistics(slide), costs, Objective()) if chance.random() < 0.5 else stated
        return tree, RandomTrees(int(chance.integers(1000))).placement(tree)

    def better_plan(self, stated: Relation, slide: int, running, found: TableStatistics):
        return self.plan_for(stated, slide, found) if self._chance(found).random() < 0.7 else None


def example(relation: Relation, **others) -> InstantRelation:
    return InstantRelation(relation, 3, (PLACES,), ROWS, **others)


@pytest.fixture
def at_every_instant(monkeypatch):
    """Rows are counted at every instant."""
    for name in ("FIRST", "SHORTEST", "LONGEST"):
        monkeypatch.setattr(adapting, name, 1)


@pytest.mark.parametrize("seed", range(tries(12)))
def test_results_do_not_change_with_the_plan(at_every_instant, seed):
    spec = RandomTrees(seed).spec(streams=1 + seed % 2, most=5)
    check(replace(spec, planner=Restless(seed)), seed)


def test_a_query_that_runs_says_that_its_plan_has_changed(at_every_instant):
    spec = example(correlated(), planner=Restless(1))
    batch = a_trace(3, 1, 120)
    kernel = pipeline_of(spec)(FixedSlack(9), Epochs())
    outcome = drive(kernel, pieces(batch, range(10, len(batch) + 1, 10)))
    seen = kernel.observe().engines
    assert seen.changed > 3
    assert seen.counted > seen.changed
    steady = drive(pipeline_of(replace(spec, planner=None))(FixedSlack(9), Epochs()), [batch])
    assert emitted(spec, outcome) == emitted(spec, steady)


def counted(spec, batch, at: int) -> tuple[TableStatistics, list[int]]:
    """Table statistics, and the rows of every node as the oracle counts them."""
    stores, tuples = [], tuples_of(batch)
    for stream in range(spec.streams):
        mine = [one for one in tuples if one.stream == stream and one.passes]
        words = np.array([[one.words[row] for one in mine] for _, row in spec.places[stream]], np.int64)
        stores.append(WindowStore(len(spec.places[stream])))
        stores[-1].append(np.array([one.ts for one in mine], np.int64), words.reshape(len(spec.places[stream]), -1))

    def contents(scan: Scan):
        rows = dict(spec.places[scan.stream])
        return [
            {column.name: value_of(one.words[rows[column.name]], column) for column in scan.columns}
            for one in tuples
            if one.stream == scan.stream and one.passes and at - scan.range <= one.ts < at
        ]

    found = table_statistics.take_statistics(spec.relation, stores, at, PLAIN)
    return found, [len(relation_at(node, contents)) for node in nodes(spec.relation)]


@pytest.mark.parametrize("seed", range(EXAMPLES))
def test_table_statistics_count_what_the_oracle_counts(seed):
    trees = RandomTrees(seed)
    spec, batch = trees.spec(streams=1 + seed % 2, most=5), a_trace(seed, 1 + seed % 2)
    at = (int(np.median(batch.ts)) // spec.slide + 1) * spec.slide
    found, rows = counted(spec, batch, at)
    assert list(found.rows) == rows
    assert of_json(TableStatistics, as_json(found)) == found
    assert found.is_of(spec.relation)


def test_a_join_with_too_many_pairs_is_counted_by_some_rows(monkeypatch):
    spec, batch = example(correlated()), a_trace(5, 1, 900)
    batch.ts[:] = np.arange(len(batch)) // 60
    batch.words[dict(PLACES)["v"]] = (np.arange(len(batch)) % 7.0).view(np.int64)
    whole, _ = counted(spec, batch, 12)
    monkeypatch.setattr(table_statistics, "MOST_PAIRS", int(whole.pairs[3]) // 3)
    some, _ = counted(spec, batch, 12)
    assert whole.rows[3] > 100
    assert some.pairs == whole.pairs
    assert some.rows[3] == pytest.approx(whole.rows[3], rel=0.3)


@pytest.mark.parametrize("make", [correlated, two_lengths, gone], ids=lambda make: make.__name__)
def test_sizes_by_table_statistics_are_those_that_were_counted(make):
    spec, batch = example(make()), a_trace(7, 1, 300)
    # Delays are cut off, and gaps are left out: the rate of a window is then what it holds.
    batch.ts[:] = np.arange(len(batch)) // 4
    found, rows = counted(spec, batch, 60)
    statistics = statistics_of(spec.relation, found, 1_000_000)
    estimated = [size.rows for size in sizes_of(numbered(spec.relation), statistics)]
    assert estimated == pytest.approx(rows, rel=0.35, abs=3.5)


def test_the_plan_in_force_is_the_best_for_what_was_counted_and_is_found_again():
    spec, batch = example(correlated()), a_trace(7, 1, 300)
    found, _ = counted(spec, batch, int(np.median(batch.ts)) // 3 * 3)
    dear = CostBased(Costs(row_instant=1.0))
    best = place(spec.relation, statistics_of(spec.relation, found, 3), Costs(row_instant=1.0))
    running = spec.relation, ("row",) * 3
    assert set(best.placement) == {"column"}
    assert dear.better_plan(spec.relation, 3, running, found) == (best.relation, best.placement)
    assert dear.plan_for(spec.relation, 3, found) == (best.relation, best.placement)
    assert dear.better_plan(spec.relation, 3, (best.relation, best.placement), found) is None
    # What costs next to nothing is left as it is.
    cheap = CostBased(Costs(**dict.fromkeys(CONSTANTS, 1e-15)))
    assert cheap.better_plan(spec.relation, 3, running, found) is None


def test_rows_are_counted_again_when_rates_change_and_more_and_more_rarely_else():
    watch, at = adapting.Adapting(), []
    steady = partial(TableStatistics, rows=(), pairs=(), keys=())
    for instant in range(1, 1000):
        rate = 1.0 if instant < 500 else 2.0
        if watch.is_due(lambda rate=rate: (rate,)):
            at.append(instant)
            watch.note(steady(instant, (rate,)), False)
    assert at == [16, 16 + 128, 16 + 128 + 256, 504]
