"""What emitted answers leave behind, and what late values do to it, against all values sorted anew."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.core.batch import TS, Batch
from slackwater.core.jit import in_place
from slackwater.core.options import Options
from slackwater.core.quality import RelativeError
from slackwater.core.schema import NULL_FLOAT, NULL_WORD, Kind
from slackwater.core.time import MILLISECOND, SECOND
from slackwater.disorder.controllers import FixedSlack
from slackwater.operators.aggregate.algebra import AggregateSpec
from slackwater.operators.aggregate.operator import WindowAggregate
from slackwater.operators.pipeline import Epochs, KernelTerms, Pipeline
from slackwater.quality.error import answers as of
from slackwater.quality.registry import controller_for
from tests.effort import tried
from tests.kit.drive import Outcome, feed

LATE_FLOAT, LATE_INT = 2, 3
"""The rows of both arguments."""
RANGE, SLIDE, BOUND = 200, 40, 0.2
FUNCTIONS = {
    "MIN": AggregateSpec("MIN", LATE_FLOAT, Kind.FLOAT),
    "MAX": AggregateSpec("MAX", LATE_FLOAT, Kind.FLOAT),
    "MEDIAN": AggregateSpec("MEDIAN", LATE_FLOAT, Kind.FLOAT),
    "QUANTILE": AggregateSpec("QUANTILE", LATE_FLOAT, Kind.FLOAT, 0.93),
    "VAR": AggregateSpec("VAR", LATE_FLOAT, Kind.FLOAT),
    "MAX of integers": AggregateSpec("MAX", LATE_INT),
    "MEDIAN of integers": AggregateSpec("MEDIAN", LATE_INT),
    "QUANTILE of integers": AggregateSpec("QUANTILE", LATE_INT, Kind.INT, 0.3),
    "STDDEV of integers": AggregateSpec("STDDEV", LATE_INT),
}
ORDERS = st.sampled_from(["none", "rising", "few", "around 0", "unusual", "one"])


@in_place
def take_late(answered, record, words, floats):
    for i in range(words.shape[1]):
        of.note_late(answered, record, 0, words, floats, i)


@in_place
def verdict(answered, record):
    return of.verdict_of(answered, record, 0)


def columns(order, n, rng):
    drawn = rng.normal(50.0, 20.0, n)
    match order:
        case "rising":
            drawn += np.arange(n)
        case "few":
            drawn = np.round(drawn / 15)
        case "around 0":
            drawn = np.round((drawn - 50.0) / 30, 1)
        case "unusual":
            unusual = [0.0, -0.0, math.inf, -math.inf, math.nan, 1e300]
            drawn = np.where(rng.random(n) < 0.3, rng.choice(unusual, n), drawn)
        case "one":
            drawn[:] = -7.0
    integers = np.nan_to_num(drawn, nan=3, posinf=2**61, neginf=-(2**61)).clip(-(2.0**61), 2.0**61).astype(np.int64)
    null = rng.random(n) < 0.1
    return np.where(null, NULL_FLOAT, drawn.view(np.int64)), np.where(null, NULL_WORD, integers)


def emitted(spec, order, n, rng):
    """A stream in order, and what is noted of each of its windows."""
    words = np.zeros((4, n), np.int64)
    words[TS] = np.sort(rng.integers(0, 1000, n))
    words[2:] = columns(order, n, rng)
    operator = spec.build()
    log = operator.answers_for(BOUND)
    # Two at once: what is near a rank is found in all ways.
    pipeline = Pipeline(spec, operator, FixedSlack(0), KernelTerms(Epochs()), 2**62)
    feed(pipeline, [Batch(np.zeros(n, np.int64), words, np.ones(n, np.bool_))], Outcome(), end=True)
    return words, [(int(w[i]), s[i]) for w, _, s in log.take() for i in range(len(w))]


def numbers(words, aggregate):
    row = words[aggregate.row]
    if aggregate.kind is Kind.FLOAT:
        return row[row != NULL_FLOAT].view(np.float64)
    return row[row != NULL_WORD].astype(np.float64)


def truth_of(aggregate, values):
    """None where there is no answer."""
    if aggregate.function in ("VAR", "STDDEV"):
        if len(values) < 2:
            return None
        return float(np.var(values, ddof=1) if aggregate.function == "VAR" else np.std(values, ddof=1))
    if len(values) == 0:
        return None
    # NaN is the largest number.
    values = np.sort(values)
    if aggregate.function in ("MIN", "MAX"):
        return float(values[0 if aggregate.function == "MIN" else -1])
    share = 0.5 if aggregate.parameter is None else aggregate.parameter
    rank = share * (len(values) - 1)
    below = int(rank)
    low = float(values[below])
    return low if rank == below else low + (float(values[below + 1]) - low) * (rank - below)


def is_within(answer, truth):
    if answer is None or truth is None:
        return answer is truth
    if answer == truth or (math.isnan(answer) and math.isnan(truth)):
        return True
    if not (math.isfinite(answer) and math.isfinite(truth)):
        return False
    return abs(truth - answer) <= BOUND * (abs(truth) or 1.0)


@pytest.mark.parametrize("name", FUNCTIONS)
@tried(48)
@given(order=ORDERS, seed=st.integers(0, 2**32), size=st.sampled_from([8, 60, 900]), late=st.integers(1, 200))
def test_the_verdict_on_an_answer_is_that_of_all_values(name, order, seed, size, late):
    rng, aggregate = np.random.default_rng(seed), FUNCTIONS[name]
    if aggregate.function in ("VAR", "STDDEV") and order == "unusual":
        order = "none"
    spec = WindowAggregate(RANGE, SLIDE, (), (aggregate,), 4)
    with np.errstate(all="ignore"):
        words, records = emitted(spec, order, size, rng)
        answered = of.answered(spec.watched.aggregates, BOUND)
        for window, summary in records:
            inside = words[:, (words[TS] >= window * SLIDE) & (words[TS] < window * SLIDE + RANGE)]
            some = np.zeros((4, int(rng.integers(1, late + 1))), np.int64)
            some[2:] = columns(rng.choice(["none", "few", "one", order]), some.shape[1], rng)
            record = summary.reshape(1, -1).copy()
            take_late(answered, record, some, some.view(np.float64))
            answer = truth_of(aggregate, numbers(inside, aggregate))
            whole = numbers(np.concatenate([inside, some], axis=1), aggregate)
            truth = truth_of(aggregate, whole)
            if truth is not None and math.isnan(truth) and not np.isnan(whole).any():
                # What lies between two infinities is no number.
                continue
            wanted = of.WITHIN if is_within(answer, truth) else of.OFF
            found = verdict(answered, record)
            if found == of.DOUBTFUL:
                # Nearer to 0 than the bound, or between two infinities.
                assert answer is not None
                assert abs(answer) <= BOUND or math.isnan(answer)
            else:
                assert found == wanted


def test_after_another_target_only_windows_that_begin_from_then_on_are_measured():
    rng, n, rows = np.random.default_rng(3), 4000, 4
    happened = np.sort(rng.integers(0, 40 * SECOND, n))
    late = np.where(rng.random(n) < 0.3, rng.integers(0, 6 * SECOND, n), 0)
    order = np.argsort(happened + late, kind="stable")
    words = np.zeros((rows, n), np.int64)
    words[TS], words[LATE_FLOAT] = happened[order], rng.normal(50.0, 20.0, n).view(np.int64)
    spec = WindowAggregate(SECOND, 200 * MILLISECOND, (), (FUNCTIONS["MEDIAN"],), rows)

    def pipeline(bound):
        target = RelativeError(bound, 0.9, 500 * MILLISECOND)
        return Pipeline(
            spec,
            spec.build(),
            controller_for(target, Options()),
            KernelTerms(Epochs(), target=str(target), learning_key=str(target)),
            2**62,
        )

    parts = [Batch(np.zeros(200, np.int64), words[:, i : i + 200], np.ones(200, np.bool_)) for i in range(0, n, 200)]
    first, second, outcome = pipeline(0.2), pipeline(0.05), Outcome()
    feed(first, parts[:10], Outcome(), end=False)
    clock = max(first.observe().clocks)
    second.restore(list(first.snapshot_delta()))
    feed(second, parts[10:], outcome, end=True)
    given = {}
    for emission in outcome.emissions:
        given |= dict(zip(emission.ts.tolist(), emission.columns[-1].view(np.float64).tolist(), strict=True))
    good = windows = 0
    for window in range(clock // spec.slide + 1, 40 * SECOND // spec.slide + 1):
        inside = (words[TS] >= window * spec.slide) & (words[TS] < window * spec.slide + SECOND)
        if inside.any():
            truth = float(np.median(words[LATE_FLOAT][inside].view(np.float64)))
            answer = given.get(window * spec.slide + SECOND, math.inf)
            windows, good = windows + 1, good + (abs(answer - truth) <= 0.05 * truth)
    seen = second.observe().quality
    assert (seen.good, seen.good + seen.bad) == (good, windows)
    assert 0 < good < windows
    assert seen.low == seen.share == seen.high
