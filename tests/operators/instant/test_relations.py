"""Random trees over random disordered traces: both engines, any cutting and any stop give what the oracle gives."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from slackwater.core.batch import FIRST_COLUMN, Batch
from slackwater.core.schema import NULL_FLOAT, NULL_WORD, Kind
from slackwater.disorder.controllers import FixedSlack
from slackwater.expressions.functions import typed_call
from slackwater.expressions.relational import Aggregate, AggregateCall, Join, operators
from slackwater.operators.instant.spec import InstantRelation
from slackwater.operators.instant.sql import can_be_column
from slackwater.operators.pipeline import Epochs
from tests.effort import EXAMPLES, tries
from tests.kit.drive import Outcome, drive, feed, pipeline_of
from tests.kit.instant_examples import PLACES, window
from tests.kit.laws import Store
from tests.kit.oracle_instant import processed
from tests.kit.oracle_release import SlackRule, oracle_epoch_release, oracle_tuple_release
from tests.kit.random_relations import KINDS, ROWS, RandomTrees, reading_of, relation_column
from tests.kit.traces import assemble, pieces
from tests.kit.words import decode

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


def groups_of_a_join(random: np.random.Generator) -> Aggregate:
    """Groups of a join by its keys, by some of them, or by more. Either side is the one with fewer rows; that one has
    one row for each key, or not."""
    names = [str(name) for name in random.choice(["k", "l", "v"], random.integers(1, 3), replace=False)]
    scan = window(9)
    mine = [column for column in scan.columns if column.name in names]
    value = next(column for column in scan.columns if column.name not in names)
    counted = AggregateCall("MAX", reading_of(value), None, relation_column("top", value.kind))
    keyed = Aggregate(window(6), tuple(map(reading_of, mine)), tuple(mine), (counted,))
    bound = counted.column
    if random.random() < 0.3:
        keyed, bound = window(4), value
    sides = (scan, keyed) if random.random() < 0.5 else (keyed, scan)
    keys = tuple((reading_of(column), reading_of(column)) for column in mine)
    columns = [
        relation_column(f"{side}{column.name}", column.kind) for side, one in zip("ab", sides, strict=True)
        for column in one.columns
    ]  # fmt: skip
    condition = None
    if random.random() < 0.5:
        condition = typed_call("<=", (reading_of(value, 0 if sides[0] is scan else 1),
                                      reading_of(bound, 1 if sides[0] is scan else 0)))  # fmt: skip
    join = Join(*sides, keys, condition, "inner", tuple(columns))
    of_keys = [column for column in columns if column.name[1:] in names]
    by = [of_keys[at] for at in random.permutation(len(of_keys))[: random.integers(1, len(of_keys) + 1)]]
    if random.random() < 0.3:
        by.append(columns[int(random.integers(len(columns)))])
    argument = reading_of(columns[int(random.integers(len(columns)))])
    calls = (
        AggregateCall("COUNT", None, None, relation_column("n", Kind.INT)),
        AggregateCall("MIN", argument, None, relation_column("least", argument.kind)),
        AggregateCall("COUNT", argument, None, relation_column("some", Kind.INT)),
    )
    return Aggregate(
        join, tuple(map(reading_of, by)), tuple(relation_column(f"g{at}", one.kind) for at, one in enumerate(by)),
        calls[int(random.integers(0, 2)) :],
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(2 * EXAMPLES))
def test_groups_of_a_join_by_its_keys_are_what_the_oracle_gives(seed):
    check(InstantRelation(groups_of_a_join(np.random.default_rng(seed)), 3, (PLACES,), ROWS), seed)
