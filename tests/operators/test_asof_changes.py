"""As-of joins whose rows change: what a ledger counts and what corrections make, against trying all versions."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.core.batch import FIRST_COLUMN, ROW, TS, Batch
from slackwater.core.emitting import DELETE, INSERT, UPDATE
from slackwater.core.quality import Recall
from slackwater.core.schema import NULL_WORD, Kind
from slackwater.core.state import by_part, under, updated
from slackwater.disorder.controllers import FixedSlack
from slackwater.disorder.meters import LedgerTerms
from slackwater.disorder.release.release import Release, ReleaseSpec
from slackwater.operators.asof.answered import FEWEST
from slackwater.operators.asof.spec import AsOfJoin
from slackwater.operators.pipeline import Epochs
from tests.effort import tried
from tests.kit import laws, oracle_asof
from tests.kit.drive import Outcome, drive, feed, pipeline_of, results_of, truth
from tests.kit.examples import EXAMPLES, KINDS
from tests.kit.oracles import SlackRule, oracle_epoch_release, oracle_tuple_release
from tests.kit.traces import cuttings, pieces, seeded_trace, traces
from tests.operators.test_changing import EPOCHS, SLACKS, controller, released

EACH = [one for one in EXAMPLES if isinstance(one.spec, AsOfJoin)]
FOR_EVER, LONG = 10**9, 10**6
TERMS = LedgerTerms(Recall(0.9, 10), LONG, 1, 10)
K = FIRST_COLUMN
each_example = pytest.mark.parametrize("example", EACH, ids=lambda example: example.name)


class Settled:
    """An operator with its ledger, given runs."""

    def __init__(self, spec: AsOfJoin, discipline: str, slack: int, terms: LedgerTerms = TERMS) -> None:
        self.spec, self.terms = spec, terms
        self.release = Release(ReleaseSpec(2, spec.rows, discipline, True), FixedSlack(slack))
        self.entries: list[Any] = []
        self._make()

    def _make(self) -> None:
        self.operator = self.spec.build()
        self.ledger = self.operator.ledger_for(self.terms)

    def take(self, batch: Batch, end: bool = False) -> None:
        for run in self.release.drain(batch, end):
            for output in self.operator.process(run, True):
                self.ledger.emitted(output.ts, output.multiplicity, output.by)
            self.ledger.processed(run, run)
        self.entries = updated(self.entries, under("operator", self.operator.snapshot_delta()))

    def restart(self) -> None:
        arrays = {name: array.copy() for name, array in self.ledger.as_arrays().items()}
        self._make()
        self.ledger.restore(arrays)
        self.operator.restore(by_part(self.entries)["operator"])

    def at(self, bucket: int) -> tuple[float, float, float]:
        ring = self.ledger.periods
        made, lost = (float(of[0]) for of in self.ledger.between(np.array([bucket, bucket + 1]) * ring.width))
        return made, lost, float(ring.false[ring.number == bucket].sum())


def counted(spec, released, batch):
    """Rows that left and are true, rows that are lost, and rows that are false."""
    left, true = oracle_asof.processed(spec, released), oracle_asof.truth(spec, batch)
    return left & true, true - left, left - true


@each_example
@tried(24)
@given(data=st.data())
def test_rows_made_and_lost_are_the_true_ones_and_all_others_are_false(example, data):
    spec, batch = example.spec, data.draw(traces(2, KINDS, most=50, filtered=True))
    cuts = data.draw(cuttings(len(batch)))
    slack, stop = data.draw(st.sampled_from([0, 2, 6])), data.draw(st.integers(0, len(cuts)))
    discipline = data.draw(st.sampled_from(["epoch", "tuple"]))
    settled = Settled(spec, discipline, slack)
    for number, part in enumerate(pieces(batch, cuts)):
        if number == stop and number:
            settled.restart()
        settled.take(part)
    settled.take(batch.take(np.zeros(0, np.int64)), end=True)
    rule = SlackRule(slack)
    steps = (
        oracle_tuple_release(batch, 2, rule)
        if discipline == "tuple"
        else oracle_epoch_release(batch, 2, cuts, rule)
    )  # fmt: skip
    good, lost, false = counted(spec, steps, batch)
    measured = settled.ledger.measured()
    assert (measured.good, measured.bad, measured.false) == (good.total(), lost.total(), false.total())
    width = settled.ledger.periods.width
    wanted = [Counter(ts // width for ts, _ in some.elements()) for some in (good, lost, false)]
    for bucket in {one for some in wanted for one in some}:
        assert settled.at(bucket) == tuple(some[bucket] for some in wanted)


def many(tuples=4000, largest_delay=60, keys=40):
    return seeded_trace(3, 2, (Kind.INT,), tuples=tuples, largest_delay=largest_delay, longest_step=2, keys=keys)


def many_spec(**words):
    emit = ((0, ROW), (1, ROW), (1, TS))
    return AsOfJoin(((K, K),), emit, (NULL_WORD,) * 3, K + 1, **words)


@pytest.mark.parametrize("words", [{}, {"outer": True}, {"within": 300}], ids=str)
@pytest.mark.parametrize("retention", [80, 10])
def test_what_is_retained_is_enough_or_bounds_hold(words, retention):
    batch, cuts, spec = many(), list(range(100, 4001, 100)), many_spec(**words)
    settled = Settled(spec, "epoch", 0, replace(TERMS, retention=retention))
    for part in pieces(batch, cuts):
        settled.take(part)
    settled.take(batch.take(np.zeros(0, np.int64)), end=True)
    assert settled.ledger._answered.held < 4 * FEWEST
    good, lost, false = counted(spec, oracle_epoch_release(batch, 2, cuts, SlackRule(0)), batch)
    measured, share = settled.ledger.measured(), good.total() / (good + lost).total()
    if retention == 80:
        assert (measured.good, measured.bad, measured.false) == (good.total(), lost.total(), false.total())
    else:
        assert measured.unknown_late > 0
        assert measured.low <= share <= measured.high
        assert abs(measured.share - share) < 0.05


def table_of(emissions):
    """What change rows make of a table by the tuple of the first stream; they never contradict it."""
    there, versions = {}, Counter()
    for one in emissions:
        for line, ts in enumerate(one.ts.tolist()):
            row = ts, tuple(int(column[line]) for column in one.columns)
            key = ts, row[1][0]
            change = INSERT if one.change is None else int(one.change[line])
            assert versions[key] == (0 if one.version is None else int(one.version[line]))
            versions[key] += 1
            if change == INSERT:
                assert key not in there
                there[key] = row
            elif change == UPDATE:
                assert there[key] != row, "an update that changes nothing"
                there[key] = row
            else:
                assert (change, there.pop(key)) == (DELETE, row)
    return Counter(there.values())


@each_example
@tried(24)
@given(data=st.data())
def test_first_answers_and_corrections_are_the_answer_of_who_waits_longer(example, data):
    batch, reach = data.draw(traces(2, KINDS, most=50, filtered=True)), data.draw(st.sampled_from([1, 6, FOR_EVER]))
    plain, spec = example.spec, example.spec.corrected(reach)
    epochs, cuts, slack = data.draw(EPOCHS), data.draw(cuttings(len(batch))), data.draw(SLACKS)
    stop = data.draw(st.integers(0, len(cuts)))
    first, stored, outcome = pipeline_of(spec)(controller(slack), epochs), laws.Store(), Outcome()
    for part in pieces(batch, cuts)[:stop]:
        feed(first, [part], outcome, end=False)
        stored.write(first)
    stored.write(first)
    second = pipeline_of(spec)(controller(slack), epochs)
    second.restore(stored.read())
    feed(second, pieces(batch, cuts)[stop:], outcome, end=True)
    alone = drive(pipeline_of(plain)(controller(slack), epochs), pieces(batch, cuts))
    assert results_of(spec, outcome.emissions) == results_of(plain, alone.emissions)
    made = table_of(outcome.emissions)
    assert made == oracle_asof.corrected(plain, released(batch, epochs, cuts, slack, 2), reach)
    if reach == FOR_EVER:
        assert made == truth(plain, batch)


@pytest.mark.parametrize("epochs", [Epochs(), Epochs(each_tuple=True)], ids=str)
def test_many_rows_are_corrected_and_what_cannot_be_is_forgotten(epochs):
    batch, cuts = many(), list(range(100, 4001, 100))
    for reach in (20, 70):
        spec = many_spec(outer=True, correctable=reach)
        outcome = drive(pipeline_of(spec)(FixedSlack(0), epochs), pieces(batch, cuts))
        assert table_of(outcome.emissions) == oracle_asof.corrected(spec, released(batch, epochs, cuts, 0, 2), reach)
        assert outcome.observed[-1].amended > 50
        assert max(one.state_rows for one in outcome.observed) < 3 * FEWEST
