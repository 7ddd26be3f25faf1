"""The recall that the ledger of a join tell, against the truth by trying all combinations."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.core.batch import TS
from slackwater.core.quality import Recall
from slackwater.disorder.controllers import FixedSlack
from slackwater.disorder.meters import LedgerTerms
from slackwater.disorder.release.release import Release, ReleaseSpec
from slackwater.operators.join.operator import WindowJoin
from tests.effort import each_with_members, tried, tries
from tests.kit.examples import KINDS, WITH_TARGETS
from tests.kit.oracle_join import oracle_join, oracle_periods
from tests.kit.traces import cuttings, pieces, seeded_trace, traces

JOINS = [example for example in WITH_TARGETS if isinstance(example.spec, WindowJoin)]
each_join = pytest.mark.parametrize("example", JOINS, ids=lambda example: example.name)
with_members = each_with_members(JOINS)
LONG = 10**6
TARGET = Recall(0.7, 12)


def drawn(example, data):
    most = {1: 60, 2: 50, 3: 36, 4: 24}[example.spec.streams]
    batch = data.draw(traces(example.spec.streams, KINDS, most=most, filtered=True))
    slack, discipline = data.draw(st.sampled_from([0, 2, 6])), data.draw(st.sampled_from(["epoch", "tuple"]))
    return batch, pieces(batch, data.draw(cuttings(len(batch)))), slack, discipline


def ledger_of(spec, parts, slack, discipline, retention, buckets=4096, far=(LONG, LONG), losses=None):
    """The ledger at the end, results made by timestamp, the runs, and where the provisional part began after each."""
    release = Release(ReleaseSpec(spec.streams, spec.rows, discipline), FixedSlack(slack))
    operator = spec.build()
    ledger = operator.open_ledger(LedgerTerms(TARGET, retention, 4, TARGET.over), 4, buckets)
    ledger.far = far
    made, runs, provisional = Counter(), [], []
    for part in [*parts, None]:
        nothing = parts[0].take(np.zeros(0, np.int64)) if parts else None
        for run in release.drain(nothing if part is None else part, part is None) if parts else ():
            for output in operator.process(run, True):
                weights = np.ones(len(output.ts), np.int64) if output.multiplicity is None else output.multiplicity
                ledger.made(output.ts, output.multiplicity)
                for ts, weight in zip(output.ts.tolist(), weights.tolist(), strict=True):
                    made[ts] += weight
            lost = ledger.take(run)
            if losses is not None:
                losses.append(lost)
            runs.append(run)
            provisional.append(ledger.measured().provisional_from)
    return ledger, made, runs, provisional


def oldest(runs):
    return min(int(run.ts.min()) for run in runs if len(run))


@each_join
@tried(10)
@given(data=st.data())
def test_measured_recall_is_the_true_recall_over_the_run_and_over_every_period(example, data):
    batch, parts, slack, discipline = drawn(example, data)
    ledger, made, runs, _ = ledger_of(example.spec, parts, slack, discipline, LONG)
    true = Counter(ts for ts, _ in oracle_join(example.spec, batch).elements())
    seen = ledger.measured()
    assert seen.unknown_late == 0
    assert (seen.good, seen.good + seen.bad) == (made.total(), true.total())
    assert seen.low == seen.share == seen.high
    filled = [run for run in runs if len(run)]
    if filled:
        first, last = oldest(filled), runs[-1].max_ts
        measured = oracle_periods(made, true, first, last, 4, TARGET.over // 4)
        assert seen.periods == len(measured)
        assert seen.met == sum(recall >= TARGET.target for recall in measured)
        assert seen.latest == (pytest.approx(measured[-1]) if measured else None)


@with_members
@tried(5)
@given(data=st.data())
def test_what_tuples_with_long_delays_have_cost_is_summed_up_by_itself(example, data):
    batch, parts, slack, discipline = drawn(example, data)
    losses = []
    ledger, _, runs, _ = ledger_of(example.spec, parts, slack, discipline, LONG, far=(4, 12), losses=losses)
    far = [lost[run.late & (run.delay > 4) & (run.delay <= 12)].sum() for run, lost in zip(runs, losses, strict=True)]
    assert ledger.lost_to_far() == (oracle_join(example.spec, batch).total(), sum(far))


def test_what_is_only_estimated_of_tuples_with_long_delays_is_in_it_too():
    (example,) = (example for example in JOINS if example.name == "equi-join")
    batch = seeded_trace(0, example.spec.streams, KINDS, 160, 60, 0.4, 2, keys=2)
    parts = pieces(batch, [*range(7, 160, 7), 160])
    ledger = ledger_of(example.spec, parts, 0, "epoch", 3, far=(0, LONG))[0]
    seen = ledger.measured()
    assert seen.estimated > 0
    results, far = ledger.lost_to_far()
    assert results == pytest.approx(seen.good + seen.bad + seen.estimated)
    # Every late tuple is one of them, with all that it cost.
    assert far == pytest.approx(seen.bad + seen.estimated)


@with_members
def test_the_true_recall_lies_between_low_and_high_whatever_came_beyond_the_retention(example):
    tuples = {1: 200, 2: 160, 3: 90, 4: 48}[example.spec.streams]
    for seed in range(tries(6)):
        discipline = ("epoch", "tuple")[seed % 2]
        batch = seeded_trace(seed, example.spec.streams, KINDS, tuples, 60, 0.4, 2, keys=2)
        true = oracle_join(example.spec, batch).total()
        for retention in (0, 3, 20):
            parts = pieces(batch, [*range(7, tuples, 7), tuples])
            ledger, made, _, _ = ledger_of(example.spec, parts, 0, discipline, retention, 16)
            seen = ledger.measured()
            assert seen.good + seen.bad <= true <= seen.good + seen.bad + seen.unsure
            if true and seen.share is not None:
                assert seen.low <= made.total() / true <= seen.high


@pytest.mark.parametrize("example", [one for one in JOINS if not one.spec.count_only], ids=lambda one: one.name)
@pytest.mark.parametrize("buckets", [32, 4096])
def test_the_true_share_of_periods_that_met_lies_between_low_and_high(example, buckets):
    """With 32 buckets periods are lost sight of before the last tuple comes that belongs to them."""
    tuples = {1: 200, 2: 160, 3: 90, 4: 60}[example.spec.streams]
    for seed, retention in ((0, 0), (1, 3), (2, 20))[: tries(6)]:
        batch = seeded_trace(seed, example.spec.streams, KINDS, tuples, 150, 0.3, 4, keys=2)
        parts = pieces(batch, [*range(1, tuples + 1)])
        ledger, made, runs, _ = ledger_of(example.spec, parts, 2, "tuple", retention, buckets)
        true = Counter(ts for ts, _ in oracle_join(example.spec, batch).elements())
        first = oldest(runs)
        periods = oracle_periods(made, true, first, runs[-1].max_ts, 4, TARGET.over // 4)
        seen = ledger.measured()
        if periods:
            phi = sum(recall >= TARGET.target for recall in periods) / len(periods)
            assert seen.least_fulfilment <= phi <= seen.most_fulfilment
            assert seen.fulfilment is None or seen.least_fulfilment <= seen.fulfilment <= seen.most_fulfilment
            assert seen.fewest_periods <= len(periods)
            assert len(periods) <= seen.most_periods or buckets == 32


@pytest.mark.parametrize("back", [1000, 40_000])
@pytest.mark.parametrize("buckets", [32, 4096])
def test_periods_before_the_first_tuple_in_time_count_as_they_do_for_the_judge(back, buckets):
    """A clock is set right: all that comes from then on is late, and older than all that came before."""
    (example,) = (example for example in JOINS if example.name == "equi-join")
    batch = seeded_trace(0, example.spec.streams, KINDS, 160, 12, 0.0, 4, keys=2)
    batch.words[TS, 80:] -= back
    parts = pieces(batch, [*range(7, 160, 7), 160])
    ledger, made, runs, _ = ledger_of(example.spec, parts, 0, "tuple", LONG, buckets)
    true = Counter(ts for ts, _ in oracle_join(example.spec, batch).elements())
    periods = oracle_periods(made, true, oldest(runs), runs[-1].max_ts, 4, TARGET.over // 4)
    phi = sum(recall >= TARGET.target for recall in periods) / len(periods)
    seen = ledger.measured()
    assert 0 < phi < 1
    assert seen.least_fulfilment <= phi <= seen.most_fulfilment
    if buckets * 4 > back + 400:
        assert (seen.periods, seen.fulfilment, seen.least_fulfilment) == (len(periods), phi, phi)


def test_tuples_beyond_the_retention_do_cost_results():
    """Otherwise the test above would say nothing."""
    (example,) = (example for example in JOINS if example.name == "equi-join")
    batch = seeded_trace(0, example.spec.streams, KINDS, 160, 60, 0.4, 2, keys=2)
    parts = pieces(batch, [*range(7, 160, 7), 160])
    seen = ledger_of(example.spec, parts, 0, "epoch", 3)[0].measured()
    assert seen.unknown_late > 0
    assert seen.good + seen.bad < oracle_join(example.spec, batch).total()


@with_members
@tried(10)
@given(data=st.data())
def test_the_provisional_part_begins_ever_later_and_ends_with_the_input(example, data):
    _, parts, slack, discipline = drawn(example, data)
    provisional = ledger_of(example.spec, parts, slack, discipline, 5)[-1]
    if provisional:
        assert provisional[-1] is None
    began = [since for since in provisional if since is not None]
    assert all(earlier <= later for earlier, later in pairwise(began))
