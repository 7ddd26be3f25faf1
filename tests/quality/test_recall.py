"""The steady controller for joins: its target is met with little waiting, whatever happens, and survives restarts."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slackwater as sw
from slackwater.core.errors import UsageError
from slackwater.core.quality import Recall
from slackwater.operators.join.operator import WindowJoin
from slackwater.operators.join.tree import JoinTree
from slackwater.operators.pipeline import Epochs
from slackwater.quality.recall.steady import ControllerConfig, SteadyRecall
from slackwater.workloads import disorder
from tests.effort import more, tried
from tests.kit import laws
from tests.kit.drive import pipeline_of
from tests.kit.examples import KINDS, WITH_TARGETS
from tests.kit.traces import cuttings, traces

JOINS = [example for example in WITH_TARGETS if isinstance(example.spec, WindowJoin)]
EPOCHS = st.sampled_from([Epochs(), Epochs(each_tuple=True), Epochs(tuples=5), Epochs(span=4)])
TREES = [example for example in WITH_TARGETS if isinstance(example.spec, JoinTree)]
each_join = pytest.mark.parametrize("example", [*JOINS[::3], *TREES[::4]], ids=lambda example: example.name)


def steady(spec: WindowJoin | JoinTree) -> SteadyRecall:
    return SteadyRecall(Recall(0.9, 20), spec.windows, ControllerConfig(4, 1, 1), retention=30)


@each_join
@tried(12)
@given(data=st.data())
def test_the_laws_hold_while_slack_is_chosen(example, data):
    most = {1: 60, 2: 50, 3: 36, 4: 24}[example.spec.streams]
    batch = data.draw(traces(example.spec.streams, KINDS, most=most, filtered=True))
    cuts, epochs = data.draw(cuttings(len(batch))), data.draw(EPOCHS)
    stop = data.draw(st.integers(0, len(cuts)))
    turns = data.draw(st.lists(st.integers(0, 2), min_size=2, max_size=6))
    spec, make = example.spec, pipeline_of(example.spec)
    laws.output_is_ordered_and_true(spec, make, batch, epochs, cuts, steady(spec))
    laws.every_tuple_is_accounted_for(make, batch, epochs, cuts, steady(spec))
    laws.going_on_after_restore_equals_never_stopping(spec, make, batch, epochs, cuts, stop, lambda: steady(spec))
    laws.taking_turns_equals_never_stopping(spec, make, batch, epochs, cuts, turns, lambda: steady(spec))


SECONDS = 240
RATE = 100
PERIOD = 20
QUERY = f"""
SELECT a.k FROM a [RANGE 2 SECONDS], b [RANGE 2 SECONDS] WHERE a.k = b.k
WITH RECALL {{}} OVER {PERIOD} SECONDS
"""


def stream(seed: int, delays: np.ndarray) -> pa.Table:
    """100 tuples a second of event time; tuple i comes `delays[i]` ms after its moment."""
    rng = np.random.default_rng(seed)
    n = SECONDS * RATE
    ts = np.arange(n) * 1000 // RATE
    order = np.argsort(ts + delays, kind="stable")
    arrival = (ts + delays)[order] * 2 + seed % 2
    return pa.table({"ts": ts[order], "arrival": arrival, "k": rng.integers(0, 20, n)[order]})


def pareto(seed: int, scale: float = 20.0) -> np.ndarray:
    """Heavy-tailed delays in ms, at most 15 s."""
    rng = np.random.default_rng(seed + 100)
    return np.minimum(scale * rng.pareto(1.2, SECONDS * RATE), 15_000).astype(np.int64)


def measured(query: str, streams: dict[str, pa.Table], epochs: Epochs) -> tuple[np.ndarray, float, list[int]]:
    """Recall of every period, average latency in ms, and result counts by second."""
    answer = sw.replay(query, streams, epochs=epochs, count=True)
    truth = sw.replay(query.split("WITH")[0] + "WITH DELAY 1 HOUR", streams, epochs=epochs, count=True)
    made, true = (np.zeros(SECONDS + 1) for _ in range(2))
    for counts, found in ((made, answer), (true, truth)):
        seconds = found.results["second"].cast(pa.int64()).to_numpy() // 1_000_000
        counts[seconds] = found.results["count"].to_numpy()
    ends = np.arange(2 * PERIOD, SECONDS)
    sums = [np.cumsum(np.concatenate([[0], counts])) for counts in (made, true)]
    recall = [(sums[0][e] - sums[0][e - PERIOD]) / (sums[1][e] - sums[1][e - PERIOD]) for e in ends]
    return np.array(recall), answer.report["latency_ms"]["avg"], answer.report["slack_ms"]


@pytest.mark.parametrize(
    ("target", "epochs"),
    [
        (0.9, Epochs(span=500_000)),
        (0.99, Epochs(each_tuple=True)),
        *more("each target and discipline once, here", (0.9, Epochs(each_tuple=True)), (0.99, Epochs(span=500_000))),
    ],
)
def test_the_target_is_met_with_little_more_waiting_than_the_best_constant_slack(target, epochs):
    streams = {"a": stream(0, pareto(0)), "b": stream(1, pareto(1))}
    recall, latency, _ = measured(QUERY.format(target), streams, epochs)
    assert (recall >= target).mean() >= 0.9
    assert (recall >= 0.99 * target).mean() >= 0.97
    best = best_constant(target, streams, epochs)
    # Four minutes are short: the margin is still coming to rest, and the first seconds wait for the largest delay.
    assert latency <= max(2 * best, best + 20)


def best_constant(target: float, streams: dict[str, pa.Table], epochs: Epochs) -> float:
    """The latency of the least constant slack, by hindsight, with which 97 % of the periods meet the target."""
    low, high, best = 0, 16_000, float("inf")
    while high - low > 10:
        middle = (low + high) // 2
        recall, latency, _ = measured(f"{QUERY.split('WITH')[0]} WITH DELAY {middle} MILLISECONDS", streams, epochs)
        if (recall >= target).mean() >= 0.97:
            high, best = middle, latency
        else:
            low = middle
    return best


def test_delays_that_grow_tenfold_are_followed_within_two_periods():
    grown = pareto(0)
    grown[SECONDS * RATE // 2 :] *= 10
    streams = {"a": stream(0, np.minimum(grown, 15_000)), "b": stream(1, pareto(1))}
    recall, _, _ = measured(QUERY.format(0.95), streams, Epochs(each_tuple=True))
    back = SECONDS // 2 - 2 * PERIOD + 3 * PERIOD
    assert recall[: SECONDS // 2 - 2 * PERIOD].min() > 0.94
    assert (recall[back:] >= 0.95).mean() > 0.9


def test_one_straggler_hardly_moves_the_slack():
    plain, struck = pareto(0, 5.0), pareto(0, 5.0)
    plain, struck = np.minimum(plain, 3000), np.minimum(struck, 3000)
    struck[SECONDS * RATE // 2] = 60_000
    _, _, before = measured(QUERY.format(0.95), {"a": stream(0, plain), "b": stream(1, plain)}, Epochs(span=500_000))
    _, _, after = measured(QUERY.format(0.95), {"a": stream(0, struck), "b": stream(1, plain)}, Epochs(span=500_000))
    assert after["avg"] <= 1.1 * before["avg"] + 1


@pytest.mark.parametrize("epochs", [None, Epochs(span=1_000_000)], ids=["tuple", "epoch"])
def test_clocks_that_are_hours_behind_cost_next_to_nothing_and_change_nothing(epochs):
    waits = {}
    for name in ("exponential", "behind"):
        made = disorder.zoo(name, seed=10, minutes=6)
        query = made.query.replace("WITH COMPLETE", "WITH RECALL 0.95 OVER 1 MINUTE")
        report = sw.replay(query, made.streams, **({} if epochs is None else {"epochs": epochs})).report
        waits[name] = report["latency_ms"]["avg"]
        assert not report["outlook"]["unreachable"]
        assert report["outlook"]["bound"] == 0
    assert waits["behind"] <= 1.1 * waits["exponential"] + 20


def test_a_controller_that_is_not_there_is_refused():
    streams = {"a": stream(0, pareto(0)).slice(0, 10), "b": stream(1, pareto(1)).slice(0, 10)}
    with pytest.raises(UsageError, match="controller = 'psychic'"):
        sw.replay(QUERY.format(0.9) + " OPTIONS (controller = 'psychic')", streams)
