"""Random trees over random disordered traces: both engines, any cutting and any stop give what the oracle gives."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from slackwater.core.batch import FIRST_COLUMN, Batch
from slackwater.core.schema import NULL_FLOAT, NULL_WORD, Kind
from slackwater.disorder.controllers import FixedSlack
from slackwater.operators.instant.sql import can_be_column
from slackwater.operators.pipeline import Epochs
from slackwater.relations.algebra import operators
from slackwater.testing.drive import Outcome, drive, feed, pipeline_of
from slackwater.testing.laws import Store
from slackwater.testing.oracle_instant import processed
from slackwater.testing.oracle_release import SlackRule, oracle_epoch_release, oracle_tuple_release
from slackwater.testing.random_relations import KINDS, RandomTrees
from slackwater.testing.traces import assemble, pieces
from slackwater.testing.words import decode
from tests.effort import EXAMPLES, tries

FLOATS = (0.0, -0.0, 1.0, -2.5, 3.25, 7.5, 1.0, float("nan"))


def a_trace(seed: int, streams: int, tuples: int = 60) -> Batch:
    """A disordered trace whose floats are short binary fractions."""
    random = np.random.default_rng(seed)
    arrivals = []
    for _ in range(tuples):
        words = []
        for kind in KINDS:
            if random.random() < 0.06:
                words.append(NULL_FLOAT if kind is Kind.FLOAT else NULL_WORD)
            elif kind is Kind.FLOAT:
                words.append(int(np.array(FLOATS[random.integers(len(FLOATS))]).view(np.int64)))
            else:
                words.append(int(random.integers(-1, 4)))
        delay = int(random.integers(0, 9)) if random.random() < 0.3 else 0
        step = 40 if random.random() < 0.02 else int(random.integers(0, 3))
        arrivals.append((int(random.integers(streams)), step, delay, True, tuple(words)))
    return assemble(int(random.choice([0, -17, 1_700_000_000_000_000])), arrivals, FIRST_COLUMN + len(KINDS))


def shown(spec, results: Counter) -> Counter:
    """Results with floats to nine digits."""
    kinds = [column.kind for column in spec.relation.columns]
    found: Counter = Counter()
    for (at, (start, end, *words)), times in results.items():
        values = [decode(word, kind) for word, kind in zip(words, kinds, strict=True)]
        row = tuple(f"{value + 0.0:.9g}" if isinstance(value, float) else value for value in values)
        found[at, start, end, row] += times
    return found


def emitted(spec, outcome: Outcome) -> Counter:
    found: Counter = Counter()
    for emission in outcome.emissions:
        for line, at in enumerate(emission.ts.tolist()):
            found[at, tuple(int(column[line]) for column in emission.columns)] += 1
    return shown(spec, found)


def check(spec, seed: int) -> None:
    random = np.random.default_rng(seed)
    batch = a_trace(seed, spec.streams)
    cuts = sorted({*random.integers(1, len(batch), 5).tolist(), len(batch)})
    slack = int(random.choice([0, 3, 9]))
    for way, released in (
        (Epochs(), oracle_epoch_release(batch, spec.streams, cuts, SlackRule(slack))),
        (Epochs(each_tuple=True), oracle_tuple_release(batch, spec.streams, SlackRule(slack))),
    ):
        wanted = shown(spec, processed(spec, released))
        make = pipeline_of(spec)
        assert emitted(spec, drive(make(FixedSlack(slack), way), pieces(batch, cuts))) == wanted
        stop = int(random.integers(0, len(cuts)))
        outcome, stored = Outcome(), Store()
        kernel = make(FixedSlack(slack), way)
        for number, part in enumerate(pieces(batch, cuts)):
            if number == stop and stored.entries:
                kernel = make(FixedSlack(slack), way)
                kernel.restore(stored.read())
            feed(kernel, [part], outcome, end=False)
            stored.write(kernel)
        feed(kernel, [], outcome, end=True)
        assert emitted(spec, outcome) == wanted


SEEDS = range(EXAMPLES)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_row_engine_gives_what_the_oracle_gives(seed):
    trees = RandomTrees(seed)
    check(trees.spec(streams=1 + seed % 2, most=5), seed)


@pytest.mark.parametrize("seed", range(tries(12)))
def test_any_placement_gives_what_the_oracle_gives(seed):
    trees = RandomTrees(seed)
    spec = trees.spec(streams=1 + seed % 2, most=5)
    everything = tuple("column" if can_be_column(node) else "row" for node in operators(spec.relation))
    check(replace(spec, placement=everything), seed)
    check(replace(spec, placement=trees.placement(spec.relation)), seed + 1)
