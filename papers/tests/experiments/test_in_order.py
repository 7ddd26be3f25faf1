"""Response times in virtual time: a server that does one thing at a time, and what is said about it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from papers.experiments.experiment import Scale
from papers.experiments.in_order import COST, COSTS, WAYS, OrderTrial, arrivals, join_by_scanning, order_claims
from papers.experiments.in_order_analysis import BY_COST, BY_RATE
from papers.experiments.response_times import drive
from papers.experiments.stages import Stage
from slackwater.core.results import ADAPTIVE, FILTER, SYNC, Ordering
from slackwater.core.time import SECOND


def test_a_tuple_is_done_after_it_came_and_after_those_before_it() -> None:
    batch = arrivals(0, 0.5, 1.0, 10.0)
    assert batch.arrival_time is not None
    by_way = {way: drive(join_by_scanning(10), Ordering(way), batch, 0.002) for way in (SYNC, FILTER)}
    for found in by_way.values():
        done = np.isfinite(found.done)
        assert (found.done[done] >= batch.arrival_time[done] / SECOND).all()
        # Turns are in event-time order, and here tuples come in it.
        assert (np.diff(found.done[done]) >= -1e-9).all()
    assert [ts for ts, _ in by_way[SYNC].results] == [ts for ts, _ in by_way[FILTER].results]
    sooner = np.nanmean(by_way[SYNC].done) - np.nanmean(by_way[FILTER].done)
    assert sooner > 0
    assert np.mean(by_way[FILTER].memory) > np.mean(by_way[SYNC].memory)


def test_work_that_takes_no_time_makes_no_difference() -> None:
    batch = arrivals(1, 0.3, 1.0, 10.0)
    sync, early = (drive(join_by_scanning(10), Ordering(way), batch, 0.0).done for way in (SYNC, FILTER))
    assert np.array_equal(sync, early, equal_nan=True)


def rows(response: dict[tuple[float, str], float], switched: set[float]) -> list[dict[str, Any]]:
    made = []
    for (value, way), seconds in response.items():
        trial = OrderTrial(Stage("exponential"), way, parameter=COST, value=value)
        made.append(
            {"workload": "", "seed": 0, "window_s": 60, "change": "", "way": way, "target": None, "period_s": 60,
             "parameter": COST, "value": value, "offered": True, "response_s": seconds, "load": trial.setting.load,
             "switches": int(way == ADAPTIVE and value in switched), "memory": 2.0 if way == FILTER else 1.0}
        )  # fmt: skip
    return made


@pytest.mark.parametrize(("adaptive", "holds"), [(0.7, True), (0.9, False)])
def test_adaptive_is_held_against_the_strategy_that_the_load_asks_for(adaptive: float, holds: bool) -> None:
    response = {(100.0, way): 1.0 for way in WAYS} | {(500.0, SYNC): 1.0, (500.0, FILTER): 0.7}
    claims = order_claims(rows(response | {(500.0, ADAPTIVE): adaptive}, {500.0}))
    assert [claim.holds for claim in claims] == [True, True, True, holds, True, True]


def test_a_switch_where_the_load_is_low_is_a_claim_that_does_not_hold() -> None:
    response = {(value, way): 1.0 for value in (100.0, 500.0) for way in WAYS}
    assert not order_claims(rows(response, {100.0, 500.0}))[4].holds


def test_the_analysis_is_what_the_paper_says() -> None:
    for experiment in (BY_COST, BY_RATE):
        measured = [trial.measured() for trial in experiment.trials(Scale(quick=True))]
        assert all(claim.holds for claim in experiment.claims(measured))
    assert 500.0 in COSTS, "where the paper's load is α"
