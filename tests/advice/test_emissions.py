"""What advise says of ways to emit is what runs give that emit so."""

from __future__ import annotations

import pytest

import slackwater as sw
from slackwater.advice.answer import emission_costs
from tests.advice.streams import disordered

JOIN = "SELECT a.v AS av FROM a [RANGE 300 MS], b [RANGE 500 MS] WHERE a.key = b.key"
TOTAL = "SELECT key, SUM(v) AS total FROM a [RANGE 500 MS] GROUP BY key"
EPOCHS = sw.Epochs(tuples=20)


def test_each_way_to_emit_gives_the_results_that_are_advised() -> None:
    tables = disordered(1, 2, 1000, 1)
    advice = sw.advise(f"{JOIN} EMIT ON ARRIVAL", tables, epochs=EPOCHS)
    slack = advice.curve.least(0.99)
    costs = {one.emit: one for one in emission_costs(advice)}
    assert [name.split(" FOR ")[0] for name in costs] == ["IN ORDER", "ON ARRIVAL", "IN ORDER WITH CORRECTIONS"]
    reports = {}
    for emit, cost in costs.items():
        answer = sw.replay(f"{JOIN} EMIT {emit} WITH DELAY {slack // 1000} MS", tables, epochs=EPOCHS)
        reports[emit] = answer.report
        assert answer.report["results"] / advice.curve.of == pytest.approx(cost.first)
        assert answer.results.num_rows / advice.curve.of == pytest.approx(cost.last)
    in_order, on_arrival, corrected = reports.values()
    assert on_arrival["latency_by_cause_ms"]["slack"] == 0 < in_order["latency_by_cause_ms"]["slack"]
    assert corrected["latency_ms"] == in_order["latency_ms"]
    plain, at_once, kept = (one.state for one in costs.values())
    assert plain == at_once < kept


def test_text_and_json_tell_the_same() -> None:
    advice = sw.advise(JOIN, disordered(1, 2, 200, 10))
    told = advice.as_json()["emissions"]
    assert [one["waits"] for one in told] == [True, False, True]
    assert told[1]["latency_ms"] is None
    (line,) = (line for line in str(advice).splitlines() if line.startswith("ON ARRIVAL"))
    assert "no waiting" in line
    assert line.endswith(f"{told[1]['state']:,.0f}")


def test_an_aggregate_has_no_answers_on_arrival_and_what_is_complete_no_corrections() -> None:
    emits = [one.emit for one in emission_costs(sw.advise(TOTAL, a=disordered(1, 2, 200, 10)["a"]))]
    assert "ON ARRIVAL" not in emits
    ordered = disordered(1, 2, 200, 10)["a"].sort_by("ts")
    advice = sw.advise(TOTAL, a=ordered)
    assert [one.emit for one in emission_costs(advice)] == ["IN ORDER"]
    assert "EMIT" not in str(advice)
