"""What advice says of an aggregate is what the judge measures of a run with that slack."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import slackwater as sw
from slackwater.advice import windows
from tests.advice.streams import EPOCHS, SLACKS, advised, disordered, verdict_on
from tests.effort import tried

TOTALS = "SELECT SUM(v) AS total, COUNT(*) AS n FROM a [RANGE 500 MS SLIDE 100 MS]"
GROUPS = "SELECT key, MIN(v) AS least, MAX(w) AS most, AVG(w) AS mean FROM a [RANGE 300 MS] WHERE v > -2 GROUP BY key"
SPREAD = "SELECT STDDEV(w) AS off, VAR(v) AS squares FROM a [RANGE 700 MS SLIDE 300 MS]"


@pytest.mark.parametrize("query", [TOTALS, GROUPS, SPREAD])
@tried(12)
@given(seed=st.integers(0, 10_000), step=st.sampled_from([1, 10, 50]), epochs=st.sampled_from(EPOCHS))
def test_errors_with_a_slack_are_those_that_the_judge_finds(
    query: str, seed: int, step: int, epochs: sw.Epochs
) -> None:
    tables = disordered(seed, 1, 150, step)
    advice = advised(query, tables, epochs)
    for k in SLACKS[seed % 2 :: 2]:
        verdict = verdict_on(f"{query} WITH DELAY {k} MS", tables, epochs)
        assert advice.curve.of == verdict.true_results
        for bound, curve in advice.further.items():
            assert curve.at(1000 * k) == pytest.approx(verdict.fulfilment(bound)), (k, bound)
        measured = verdict.to_json()["measurements"]
        point = advice.point(1000 * k)
        assert point.mean_error == pytest.approx(measured["mean"] or 0.0, abs=1e-9)
        assert point.never == pytest.approx(1 - verdict.recall_overall)


def test_windows_taken_a_few_at_a_time_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = disordered(4, 1, 400, 10)
    at_once = advised(TOTALS, tables, EPOCHS[0])
    monkeypatch.setattr(windows, "PAIRS", 50)
    by_and_by = advised(TOTALS, tables, EPOCHS[0])
    assert at_once.curve.of == by_and_by.curve.of
    assert at_once.curve.kept.tolist() == by_and_by.curve.kept.tolist()


def test_the_error_is_the_one_asked_for_or_the_one_of_the_query() -> None:
    tables = disordered(4, 1, 100, 10)
    assert sw.advise(TOTALS, tables).bound == 0.01
    assert sw.advise(TOTALS + " WITH ERROR 5% CONFIDENCE 95%", tables).bound == 0.05
    assert sw.advise(TOTALS + " WITH ERROR 5% CONFIDENCE 95%", tables, error=0.2).bound == 0.2
