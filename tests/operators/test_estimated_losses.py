"""What came later than tuples are kept: the truth, by trying all combinations, lies within the bounds, and near."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.core.quality import Recall
from slackwater.disorder.controllers import FixedSlack, KeepsLedger
from slackwater.operators.join.operator import WindowJoin
from slackwater.operators.join.policy import BY_EVENT_TIME
from slackwater.operators.join.probing import Equality, classes_of
from slackwater.operators.join.store import WindowStore
from slackwater.operators.join.tree import JoinTree
from slackwater.operators.pipeline import Epochs, KernelTerms, Pipeline
from slackwater.quality.ledger import retention as retaining
from slackwater.quality.ledger import synopsis
from slackwater.quality.ledger.retention import Retention
from tests.effort import tried
from tests.kit.drive import NO_GUARD, Outcome, feed
from tests.kit.examples import EXAMPLES, KINDS, ROWS
from tests.kit.laws import Store
from tests.kit.oracle_join import oracle_join
from tests.kit.traces import cuttings, pieces, seeded_trace, traces

# Whether results are rows or counts is nothing that the ledger sees; it is kept for windows of time alone.
JOINS = [
    one
    for one in EXAMPLES
    if type(one.spec) in (WindowJoin, JoinTree)
    and not one.spec.count_only
    and getattr(one.spec, "policy", BY_EVENT_TIME) is BY_EVENT_TIME
]
each_join = pytest.mark.parametrize("example", JOINS, ids=lambda example: example.name)
MOST = {1: 60, 2: 50, 3: 40, 4: 28, 5: 24}
TARGET, WIDTH = Recall(0.7, 12), 4


class Watching(KeepsLedger, FixedSlack):
    """A fixed slack whose user looks into the ledger."""

    def __init__(self, slack, retention):
        super().__init__(slack)
        self.ledger, self.retention, self.interval, self.memory = None, retention, WIDTH, 12
        self.target = TARGET


def far_behind(streams):
    """Traces in which tuples come later than anything is kept, several for one result among them."""
    dense = st.builds(
        seeded_trace, st.integers(0, 10**6), st.just(streams), st.just(KINDS), st.just(MOST[streams]),
        st.sampled_from([20, 60, 200]), st.sampled_from([0.1, 0.4]), st.just(2), st.sampled_from([1, 2, 40]),
    )  # fmt: skip
    return st.one_of(dense, traces(streams, KINDS, MOST[streams], largest_delay=100, filtered=True))


def ran(spec, parts, slack, retention, epochs, stop=None, automatic=False):
    """What the ledger say at the end, results made by timestamp, and the event time of the first tuple processed."""

    def make():
        watching = Watching(slack, retention)
        return Pipeline(spec, spec.build(), watching, KernelTerms(epochs, automatic_retention=automatic), NO_GUARD)

    pipeline, stored, outcome = make(), Store(), Outcome()
    for number, part in enumerate(parts):
        feed(pipeline, [part], outcome, end=False)
        stored.write(pipeline)
        if number == stop:
            pipeline = make()
            pipeline.restore(stored.read())
    feed(pipeline, [], outcome, end=True)
    made = Counter()
    for emission in outcome.emissions:
        for line, ts in enumerate(emission.ts.tolist()):
            made[ts] += 1 if emission.multiplicity is None else int(emission.multiplicity[line])
    return pipeline.observe().quality, made


def whole(spec):
    return spec.whole if isinstance(spec, JoinTree) else spec


@each_join
@tried(10)
@given(data=st.data())
def test_the_truth_lies_between_low_and_high(example, data):
    spec, buckets = example.spec, data.draw(st.sampled_from([4, 256]))
    batch = data.draw(far_behind(spec.streams))
    parts = pieces(batch, data.draw(cuttings(len(batch))))
    slack, retention = data.draw(st.sampled_from([0, 2])), data.draw(st.sampled_from([0, 3, 20]))
    epochs = data.draw(st.sampled_from([Epochs(), Epochs(each_tuple=True), Epochs(tuples=3)]))
    stop = data.draw(st.integers(0, 9))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(synopsis, "FEWEST_BUCKETS", buckets)
        patch.setattr(synopsis, "MOST_BUCKETS", buckets)
        seen, made = ran(spec, parts, slack, retention, epochs, stop)
    true = Counter(ts for ts, _ in oracle_join(whole(spec), batch).elements())
    assert seen.good == made.total()
    assert seen.good + seen.bad <= true.total() <= seen.good + seen.bad + seen.unsure
    assert 0 <= seen.estimated <= seen.unsure
    if not seen.unknown_late:
        assert true.total() == seen.good + seen.bad
    elif true.total() and seen.share is not None:
        assert seen.low <= made.total() / true.total() <= seen.high
        assert seen.low <= seen.share <= seen.high


def few_tuples(patch):
    """Retention is automatic from a few tuples on, and bounded soon after."""
    patch.setattr(retaining, "MINUTE", 6)
    for name, count in (("FEW", 8), ("FEW_SCANNED", 8), ("MOST", 24), ("MOST_SCANNED", 24)):
        patch.setattr(retaining, name, count)


@each_join
@tried(8)
@given(data=st.data())
def test_a_retention_that_grows_takes_nothing_for_known_that_was_forgotten(example, data):
    spec = example.spec
    batch = data.draw(far_behind(spec.streams))
    parts = pieces(batch, data.draw(cuttings(len(batch))))
    epochs = data.draw(st.sampled_from([Epochs(), Epochs(each_tuple=True), Epochs(tuples=3)]))
    stop = data.draw(st.integers(0, 9))
    with pytest.MonkeyPatch.context() as patch:
        few_tuples(patch)
        seen, made = ran(spec, parts, 0, 6, epochs, stop, automatic=True)
    true = oracle_join(whole(spec), batch).total()
    assert seen.good == made.total()
    assert seen.good + seen.bad <= true <= seen.good + seen.bad + seen.unsure
    assert seen.unknown_late or true == seen.good + seen.bad


@each_join
def test_a_restart_changes_nothing_of_what_is_measured(example):
    spec = example.spec
    batch = seeded_trace(3, spec.streams, KINDS, 3 * MOST[spec.streams], 60, 0.3, 2, keys=2)
    parts = pieces(batch, [*range(9, len(batch), 9), len(batch)])
    with pytest.MonkeyPatch.context() as patch:
        few_tuples(patch)
        for automatic, stop in ((False, 2), (True, len(parts) - 2)):
            reported = {ran(spec, parts, 0, 6, Epochs(), at, automatic)[0] for at in (None, stop)}
            assert len(reported) == 1


def test_losses_of_tuples_beyond_the_retention_are_estimated():
    """Otherwise the tests above would say nothing."""
    (example,) = (example for example in JOINS if example.name == "equi-join")
    batch = seeded_trace(0, 2, KINDS, 400, 200, 0.2, 2, keys=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(synopsis, "FEWEST_BUCKETS", 16)
        patch.setattr(synopsis, "MOST_BUCKETS", 16)
        seen, made = ran(example.spec, pieces(batch, [*range(7, 400, 7), 400]), 0, 3, Epochs())
    true = oracle_join(example.spec, batch).total()
    assert seen.unknown_late > 20
    assert seen.good + seen.bad < true
    assert seen.low < seen.share < seen.high
    assert abs(seen.share - made.total() / true) < 0.05 < seen.high - made.total() / true


def held_by(times):
    store = WindowStore(1, ROWS, ())
    words = np.zeros((ROWS, len(times)), np.int64)
    words[0] = times
    store.put_back(0, words, np.array([-(2**62)]))
    return store


def test_everything_is_kept_while_there_is_little_and_then_what_delays_ask_for():
    with pytest.MonkeyPatch.context() as patch:
        few_tuples(patch)
        kept, windows = Retention(6, automatic=True, scanning=False), np.array([0])
        kept.move(held_by(range(8)), 8, windows)
        assert (kept.in_force, kept.why) == (None, "all")
        kept.move(held_by(range(12)), 12, windows)
        assert (kept.known, kept.in_force, kept.why) == (6, 6, "delays")
        # Late tuples were up to 9 behind: what was forgotten stays so, and from then on more is kept.
        kept.lateness[8] = 5
        kept.move(held_by(range(6, 24)), 14, windows)
        assert kept.known == 6
        kept.move(held_by(range(6, 31)), 20, windows)
        assert (kept.known, kept.why) == (11, "delays")


def test_no_more_tuples_are_kept_than_memory_is_stated_for_unless_a_minute_has_more():
    with pytest.MonkeyPatch.context() as patch:
        few_tuples(patch)
        kept, store = Retention(500, automatic=True, scanning=False), held_by(range(100))
        kept.move(store, 100, np.array([0]))
        assert (store.held, kept.known, kept.why) == (18, 82, "memory")
        crowded = held_by([99] * 50)
        kept.move(crowded, 100, np.array([0]))
        assert crowded.held == 50


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(-50, 300), st.integers(0, 5)), min_size=1, max_size=60),
    st.tuples(*[st.integers(0, 12)] * 3),
    st.sampled_from([(), (Equality(0, 2, 1, 2),), (Equality(0, 2, 1, 2), Equality(1, 2, 2, 2))]),
    st.integers(2, 9),
)
def test_no_tuple_has_more_partners_than_the_synopsis_says(tuples, windows, equalities, buckets):
    sizes = np.array(windows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(synopsis, "FEWEST_BUCKETS", buckets)
        patch.setattr(synopsis, "MOST_BUCKETS", buckets)
        noted = synopsis.synopsis_of(classes_of(equalities), sizes, None)
    for stream, ts, key in tuples:
        synopsis.note_all(noted, stream, np.array([[ts], [0], [key]]))
    assert noted.totals.sum() == len(tuples)
    again = synopsis.synopsis_of(classes_of(equalities), sizes, None)._replace(**{
        name: np.zeros_like(getattr(noted, name)) for name in ("counts", "totals", "since", "until")
    })  # fmt: skip
    synopsis.restore(again, synopsis.as_arrays(noted))
    linked = {s for one in equalities for s in (one.left, one.right)}
    for stream, ts, key in tuples:
        ways = 1
        for o in {0, 1, 2} - {stream}:
            low, high, same = ts - windows[o], ts + windows[stream], {stream, o} <= linked
            ways *= sum(s == o and low <= at <= high and (k == key or not same) for s, at, k in tuples)
        assert ways <= synopsis.bounded(again, stream, np.array([[ts], [0], [key]]))
