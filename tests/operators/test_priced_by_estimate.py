"""What came later than tuples are kept: the truth, by trying all combinations, lies within the bounds, and near."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.disorder.controllers import FixedSlack
from slackwater.model.quality import Recall
from slackwater.operators.join import retention as retaining
from slackwater.operators.join import synopsis
from slackwater.operators.join.operator import WindowJoin
from slackwater.operators.join.probing import Equality
from slackwater.operators.join.retention import Retention
from slackwater.operators.join.store import WindowStore
from slackwater.operators.join.tree import JoinTree
from slackwater.operators.pipeline import Epochs, Pipeline
from slackwater.testing.drive import NO_GUARD, Outcome, feed
from slackwater.testing.examples import EXAMPLES, KINDS, ROWS
from slackwater.testing.laws import Store
from slackwater.testing.oracle_join import oracle_join
from slackwater.testing.oracle_periods import oracle_periods
from slackwater.testing.traces import cuttings, pieces, seeded_trace, traces

JOINS = [example for example in EXAMPLES if type(example.spec) in (WindowJoin, JoinTree)]
each_join = pytest.mark.parametrize("example", JOINS, ids=lambda example: example.name)
MOST = {1: 60, 2: 50, 3: 40, 4: 28, 5: 24}
TARGET, WIDTH = Recall(0.7, 12), 4


class Watching(FixedSlack):
    """A fixed slack whose user looks into the books."""

    def __init__(self, slack, retention):
        super().__init__(slack)
        self.books, self.retention, self.interval, self.memory = None, retention, WIDTH, 12
        self.target = TARGET


def far_behind(streams):
    """Traces in which tuples come later than anything is kept, several for one result among them."""
    dense = st.builds(
        seeded_trace, st.integers(0, 10**6), st.just(streams), st.just(KINDS), st.just(MOST[streams]),
        st.sampled_from([20, 60, 200]), st.sampled_from([0.1, 0.4]), st.just(2), st.sampled_from([1, 2, 40]),
    )  # fmt: skip
    return st.one_of(dense, traces(streams, KINDS, MOST[streams], largest_delay=100, filtered=True))


def ran(spec, parts, slack, retention, epochs, stop=None, automatic=False):
    """What the books say at the end, results made by timestamp, and the event time of the first tuple processed."""

    def make():
        watching = Watching(slack, retention)
        return Pipeline(spec, spec.build(), watching, epochs, NO_GUARD, automatic_retention=automatic)

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
            made[ts] += 1 if emission.weight is None else int(emission.weight[line])
    return pipeline.observe().quality, made


def whole(spec):
    return spec.whole if isinstance(spec, JoinTree) else spec


@each_join
@pytest.mark.parametrize("buckets", [4, 256])
@settings(max_examples=12)
@given(data=st.data())
def test_the_truth_lies_between_low_and_high(example, buckets, data):
    spec = example.spec
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
