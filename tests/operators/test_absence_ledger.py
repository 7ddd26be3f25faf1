"""The ledger of an outer join: results lost and rows that are false, against the truth by trying all pairs."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.core.batch import Batch
from slackwater.core.quality import Recall
from slackwater.core.state import by_part, under, updated
from slackwater.disorder.controllers import FixedSlack
from slackwater.disorder.meters import LedgerTerms
from slackwater.disorder.release.release import Release, ReleaseSpec
from slackwater.operators.join.absence import OuterJoin
from tests.effort import tried
from tests.kit import oracle_absence
from tests.kit.examples import EXAMPLES, KINDS
from tests.kit.oracles import SlackRule, oracle_epoch_release, oracle_tuple_release
from tests.kit.traces import cuttings, pieces, traces

OUTER = [
    one for one in EXAMPLES
    if isinstance(one.spec, OuterJoin) and one.spec.kind.lonely and not one.spec.kept and not one.spec.counted
]  # fmt: skip
LONG = 10**6
TERMS = LedgerTerms(Recall(0.9, 10), LONG, 1, 10)


class Settled:
    """An operator with its ledger, given runs; `stop` says before which of them another takes over."""

    def __init__(self, spec: OuterJoin, discipline: str, slack: int) -> None:
        self.spec = spec if discipline != "arrival" else spec.arriving()
        self.in_turn = discipline != "arrival"
        released = ReleaseSpec(2, spec.rows, discipline if self.in_turn else "epoch", self.in_turn)
        self.release = Release(replace(released, at_once=not self.in_turn), FixedSlack(slack))
        self.entries: list[Any] = []
        self._make()

    def _make(self) -> None:
        self.operator = self.spec.build()
        self.ledger = self.operator.ledger_for(TERMS)
        assert self.ledger is not None

    def take(self, batch: Batch, end: bool = False) -> None:
        for run in self.release.drain(batch, end):
            for output in self.operator.process(run, self.in_turn):
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


@pytest.mark.parametrize("example", OUTER, ids=lambda example: example.name)
@tried(24)
@given(data=st.data())
def test_results_made_and_lost_are_the_true_ones_and_all_others_are_false(example, data):
    spec, batch = example.spec, data.draw(traces(2, KINDS, most=50, filtered=True))
    cuts = data.draw(cuttings(len(batch)))
    slack, stop = data.draw(st.sampled_from([0, 2, 6])), data.draw(st.integers(0, len(cuts)))
    discipline = data.draw(st.sampled_from(["epoch", "tuple", "arrival"]))
    settled = Settled(spec, discipline, slack)
    for number, part in enumerate(pieces(batch, cuts)):
        if number == stop and number:
            settled.restart()
        settled.take(part)
    settled.take(batch.take(np.zeros(0, np.int64)), end=True)
    rule = SlackRule(slack)
    released = (
        oracle_tuple_release(batch, 2, rule)
        if discipline == "tuple"
        else oracle_epoch_release(batch, 2, cuts, rule)
    )  # fmt: skip
    left, true = oracle_absence.processed(spec, released), oracle_absence.truth(spec, batch)
    good, lost, false = left & true, true - left, left - true
    measured = settled.ledger.measured()
    assert (measured.good, measured.bad, measured.false) == (good.total(), lost.total(), false.total())
    width = settled.ledger.periods.width
    wanted = [Counter(ts // width for ts, _ in some.elements()) for some in (good, lost, false)]
    for bucket in {one for some in wanted for one in some}:
        assert settled.at(bucket) == tuple(some[bucket] for some in wanted)
