"""The ledger of a join: what late tuples cost, against the truth by trying all combinations."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.core.batch import Batch
from slackwater.core.quality import Recall
from slackwater.disorder.controllers import FixedSlack
from slackwater.disorder.meters import LedgerTerms
from slackwater.disorder.release.release import Release, ReleaseSpec
from slackwater.operators.join.operator import WindowJoin
from tests.effort import tried
from tests.kit.examples import KINDS, WITH_TARGETS
from tests.kit.oracle_join import oracle_join
from tests.kit.traces import cuttings, pieces, traces

JOINS = [example for example in WITH_TARGETS if isinstance(example.spec, WindowJoin)]
LONG = 10**6


def settled(spec, batch, cuts, slack, discipline, retention):
    """Results made and lost, by timestamp, and how many tuples were too late to be counted."""
    release = Release(ReleaseSpec(spec.streams, spec.rows, discipline), FixedSlack(slack))
    operator = spec.build()
    ledger = operator.open_ledger(LedgerTerms(Recall(0.9, 10), retention, 1, 10), width=1, buckets=4096)
    made, losses = Counter(), 0.0
    for part in [*pieces(batch, cuts), None]:
        end = part is None
        for run in release.drain(batch.take(np.zeros(0, np.int64)) if end else part, end):
            for output in operator.process(run, True):
                weights = np.ones(len(output.ts), np.int64) if output.multiplicity is None else output.multiplicity
                ledger.made(output.ts, output.multiplicity)
                for ts, weight in zip(output.ts.tolist(), weights.tolist(), strict=True):
                    made[ts] += weight
            losses += ledger.take(run).sum()
    moments = range(int(batch.ts.min()), int(batch.ts.max()) + 1) if len(batch) else []
    by_time = {ts: tuple(of.item() for of in ledger.between(np.array([ts, ts + 1]))) for ts in moments}
    assert {ts: n for ts, (n, _) in by_time.items() if n} == dict(made)
    assert losses == sum(lost for _, lost in by_time.values())
    return by_time, ledger.unknown


@pytest.mark.parametrize("example", JOINS, ids=lambda example: example.name)
@tried(15)
@given(data=st.data())
def test_results_made_and_results_lost_are_the_true_results(example, data):
    most = {1: 60, 2: 50, 3: 36, 4: 24}[example.spec.streams]
    batch = data.draw(traces(example.spec.streams, KINDS, most=most, filtered=True))
    cuts = data.draw(cuttings(len(batch)))
    slack = data.draw(st.sampled_from([0, 2, 6]))
    discipline = data.draw(st.sampled_from(["epoch", "tuple"]))
    ledger, unknown = settled(example.spec, batch, cuts, slack, discipline, LONG)
    true = Counter(ts for ts, _ in oracle_join(example.spec, batch).elements())
    assert unknown == 0
    assert {ts: made + lost for ts, (made, lost) in ledger.items() if made + lost} == dict(true)


def test_losses_beyond_the_retention_are_estimated_unless_a_tuple_has_no_partner():
    (example,) = (example for example in JOINS if example.name == "equi-join")
    early, late = (1, 79, 1, 0, 0), (0, 80, 1, 0, 0)
    rest = [(0, 100, 1, 0, 0), (1, 100, 1, 0, 0)]
    for tuples, expected in (([early, *rest, late, (0, 97, 1, 0, 0)], 1), ([*rest, late, (0, 97, 1, 0, 0)], 0)):
        cuts = range(1, len(tuples) + 1)
        ledger, unknown = settled(example.spec, Batch.of(tuples), cuts, 0, "epoch", retention=5)
        assert unknown == expected
        assert sum(lost for _, lost in ledger.values()) == 1
