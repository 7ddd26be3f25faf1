"""DISTINCT with corrections, against an oracle that looks at all rows."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.core.emitting import DELETE, INSERT
from slackwater.disorder.controllers import FixedSlack
from slackwater.operators.distinct import StreamDistinct
from slackwater.operators.pipeline import Epochs
from tests.effort import tried
from tests.kit import laws, oracle_distinct
from tests.kit.drive import Outcome, drive, feed, pipeline_of, results_of, truth
from tests.kit.examples import KINDS, ROWS, K, V
from tests.kit.traces import cuttings, pieces, seeded_trace, traces
from tests.operators.test_changing import EPOCHS, SLACKS, controller, released

FOR_EVER = 10**9
SPECS = st.sampled_from([StreamDistinct(6, (K,), ROWS), StreamDistinct(2, (K, V), ROWS), StreamDistinct(0, (K,), ROWS)])


def table_of(emissions):
    """What change rows make of a table, which they never contradict."""
    there, versions = set(), Counter()
    for one in emissions:
        for line, ts in enumerate(one.ts.tolist()):
            row = ts, tuple(int(column[line]) for column in one.columns)
            change = INSERT if one.change is None else int(one.change[line])
            assert versions[row] == (0 if one.version is None else int(one.version[line]))
            assert (change, row in there) in ((INSERT, False), (DELETE, True))
            versions[row] += 1
            there ^= {row}
    return Counter(there)


@tried(96)
@given(data=st.data())
def test_rows_and_corrections_are_those_over_all_that_came_in_time_to_be_corrected(data):
    batch, plain = data.draw(traces(1, KINDS, most=60, filtered=True)), data.draw(SPECS)
    spec = replace(plain, correctable=data.draw(st.sampled_from([1, 6, FOR_EVER])))
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
    assert made == oracle_distinct.corrected(spec, released(batch, epochs, cuts, slack))
    if spec.correctable == FOR_EVER:
        assert made == truth(plain, batch)


@pytest.mark.parametrize("epochs", [Epochs(), Epochs(tuples=3), Epochs(each_tuple=True)], ids=str)
def test_long_chains_are_corrected_until_they_meet(epochs):
    batch = seeded_trace(5, 1, KINDS, tuples=600, largest_delay=40, longest_step=2, keys=3)
    cuts = list(range(20, 601, 20))
    for reach in (5, 30):
        spec = StreamDistinct(6, (K,), ROWS, correctable=reach)
        outcome = drive(pipeline_of(spec)(FixedSlack(0), epochs), pieces(batch, cuts))
        assert any(one.amends for one in outcome.emissions)
        made = table_of(outcome.emissions)
        assert made == oracle_distinct.corrected(spec, released(batch, epochs, cuts, 0))
