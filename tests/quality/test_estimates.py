"""Estimates of windows: what is expected to be missing, which slack they need, between what the truth lies."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import slackwater as sw
from slackwater.core.options import Options
from slackwater.core.quality import RelativeError
from slackwater.core.schema import NULL_FLOAT
from slackwater.disorder.cutting import Epochs
from slackwater.disorder.meters import Asked, Scaling, Watched
from slackwater.operators.aggregate.algebra import AggregateSpec, Layout, lower
from slackwater.operators.aggregate.estimating import with_estimates
from slackwater.operators.aggregate.operator import WindowAggregate
from slackwater.quality.error.completeness import (
    all_edges,
    bins_for_estimates,
    factors_of,
    note_profile,
    note_residuals,
    old_enough,
)
from slackwater.quality.error.estimates import ends_of
from slackwater.quality.error.quantile_slack import BINS
from slackwater.quality.error.windows import WindowLosses
from slackwater.quality.registry import controller_for
from tests.disorder.quality.test_error_required_slack import KEY, VALUE, arrivals, off_by
from tests.kit.drive import pipeline_of
from tests.kit.examples import KINDS
from tests.kit.laws import going_on_after_restore_equals_never_stopping, taking_turns_equals_never_stopping
from tests.kit.traces import seeded_trace

TICKS = 60
"""Slacks that are tried one by one; a bin each."""
FORMS = [(("SUM",), 10, 5, 1), (("COUNT",), 12, 5, 1), (("AVG", "COUNT"), 20, 4, 3), (("SUM", "AVG"), 4, 7, 2)]


def watched_of(functions, range_, slide, groups):
    keys = (KEY,) if groups > 1 else ()
    return Watched(range_, slide, keys, tuple(Asked(function, VALUE) for function in functions))


def absorbed(watched, arrived, bound=0.1):
    losses = WindowLosses(watched, bound, retention=400, unit=1)
    losses.absorb(arrived, 0, np.full(len(watched.aggregates), bound))
    return losses


def groups_in(arrived, watched, end):
    """The tuples of each group that has any in the window with this end."""
    ts = arrived.words[0]
    inside = np.flatnonzero((ts >= end - watched.range) & (ts < end))
    found = {}
    for i in inside:
        found.setdefault(tuple(arrived.words[list(watched.keys), i]), []).append(i)
    return found


def there_under(arrived, mine, end, slack):
    """Those of some tuples that a window with this end has when it closes under a slack."""
    clock = arrived.words[0] + arrived.behind
    return [i for i in mine if arrived.behind[i] == 0 or clock[i] - slack < end]


def needed_by_estimates(arrived, watched, bound, factors, end):
    """One above the largest slack under which the estimate of any group is off."""
    for slack in range(TICKS - 1, -1, -1):
        for mine in groups_in(arrived, watched, end).values():
            there = there_under(arrived, mine, end, slack)
            if not there:
                return slack + 1
            if len(there_under(arrived, mine, end, 0)) == len(mine):
                # A group that is whole is off with its factor, whatever its values are.
                if any(one.function != "AVG" for one in watched.aggregates) and factors[slack] > 1 + bound:
                    return slack + 1
                continue
            for asked in watched.aggregates:
                true, made = (off_by(asked.function, arrived.words[VALUE, of].tolist()) for of in (mine, there))
                if true is None or (asked.function == "COUNT" and true == 0):
                    continue
                if made is None or (asked.function == "COUNT" and made == 0):
                    return slack + 1
                given = made * (1.0 if asked.function == "AVG" else factors[slack])
                if asked.function == "SUM" and made * true <= 0 and true != 0:
                    return slack + 1
                if abs(true - given) > bound * (abs(true) or 1) + 1e-9:
                    return slack + 1
    return 0


@pytest.mark.parametrize(("functions", "range_", "slide", "groups"), FORMS)
def test_an_estimate_needs_the_slack_from_which_on_it_is_good(functions, range_, slide, groups):
    watched = watched_of(functions, range_, slide, groups)
    for seed, bound in enumerate((0.05, 0.2, 0.5)):
        rng = np.random.default_rng(seed)
        arrived = arrivals(rng, 300, groups)
        losses = absorbed(watched, arrived, bound)
        factors = np.ones(BINS)
        factors[:TICKS] = np.sort(1 + rng.random(TICKS) * rng.choice([0.1, 0.6], TICKS))[::-1]
        last = losses.last_ended(int((arrived.words[0] + arrived.behind).max()))
        settled = np.array([w for w in range(last) if groups_in(arrived, watched, w * slide + range_)])
        changed = np.empty((2, len(settled) + losses.ledger.marks[2]), np.int64)
        count = bins_for_estimates(
            losses.watch, losses.ledger, np.full(len(functions), bound), factors, TICKS - 1,
            np.zeros((2, losses.components)), -(2**40), settled, changed,
        )  # fmt: skip
        found = dict(changed[:, :count].T.tolist())
        assert any(found.values())
        for window in settled.tolist():
            expected = needed_by_estimates(arrived, watched, bound, factors, window * slide + range_)
            assert found[window] == expected, (seed, window)


@pytest.mark.parametrize(("functions", "range_", "slide", "groups"), FORMS)
def test_the_profile_is_what_came_late_to_windows_that_are_old_enough(functions, range_, slide, groups):
    watched = watched_of(functions, range_, slide, groups)
    arrived = arrivals(np.random.default_rng(5), 300, groups)
    losses = absorbed(watched, arrived)
    clock = int((arrived.words[0] + arrived.behind).max())
    windows = np.arange(0, losses.last_ended(clock) + 1)
    ages = clock - (windows * slide + range_)
    weights = np.exp2(-ages / 50)
    late, has = np.zeros(BINS), np.zeros(len(windows))
    note_profile(losses.watch, losses.ledger, windows, ages, weights, all_edges(1), late, has)
    factors = factors_of(late, old_enough(ages, has, all_edges(1)))
    missing = 0.0
    for slack in range(TICKS - 1, -1, -1):
        # A need of exactly `slack` is met by more than it: those of bin slack + 1.
        came = all_ = 0.0
        for window, age, weight in zip(windows, ages, weights, strict=True):
            end = window * slide + range_
            mine = [i for of in groups_in(arrived, watched, end).values() for i in of]
            if age >= slack + 1:
                all_ += weight * len(mine)
                under = len(there_under(arrived, mine, end, slack)), len(there_under(arrived, mine, end, slack + 1))
                came += weight * (under[1] - under[0])
        missing += came / all_ if all_ else 0.0
        assert factors[slack] == pytest.approx(1 / max(1 - missing, 1 / 64)), slack


def test_what_was_off_is_the_truth_by_the_estimate_of_every_group():
    watched = watched_of(("COUNT", "SUM", "AVG"), 12, 6, 3)
    arrived = arrivals(np.random.default_rng(3), 300, 3)
    losses = absorbed(watched, arrived)
    for window in range(5, 30):
        found = np.zeros((16, 4))
        scratch = np.zeros((2, losses.components))
        count = note_residuals(losses.watch, losses.ledger, window, 7, 1.25, scratch, found)
        expected = []
        end = window * 6 + 12
        for mine in groups_in(arrived, watched, end).values():
            there = there_under(arrived, mine, end, 7)
            if there:
                line = [len(there)]
                for function in ("COUNT", "SUM", "AVG"):
                    true, made = (off_by(function, arrived.words[VALUE, of].tolist()) for of in (mine, there))
                    line.append(np.nan if not made else true / (made * (1 if function == "AVG" else 1.25)))
                expected.append(line)
        found, expected = (sorted(np.nan_to_num(lines, nan=-1e9).tolist()) for lines in (found[:count], expected))
        np.testing.assert_allclose(found, expected)


def test_the_ends_leave_out_as_many_as_their_levels_say():
    rng = np.random.default_rng(0)
    tuples = rng.choice([25.0, 100.0, 10_000.0], 1000)
    off = rng.normal(0, 1, 1000) * np.sqrt(4 / tuples + 0.0001)
    low, high, falling, lasting = ends_of(tuples, off, np.array([0.05, 0.05]))
    assert falling == pytest.approx(4, rel=0.2)
    fresh = rng.normal(0, 1, 1000) * np.sqrt(4 / tuples + 0.0001)
    spread = np.sqrt(falling / tuples + lasting)
    for size in (25.0, 100.0, 10_000.0):
        own = tuples == size
        inside = (fresh >= low * spread) & (fresh <= high * spread)
        assert inside[own].mean() == pytest.approx(0.9, abs=0.06), size


def test_the_answer_stays_beside_its_estimate_and_what_has_come_is_not_missing():
    aggregates = [AggregateSpec("COUNT"), AggregateSpec("SUM", 2), AggregateSpec("AVG", 2)]
    layout = Layout.of(aggregates)
    state = np.zeros((3, layout.width), np.int64)
    state[:, layout.offset(aggregates[0].components[0])] = 10, 20, 30
    present, total = (layout.offset(one) for one in aggregates[1].components)
    state[:, present], state[:, total] = [10, 0, 30], [50, 0, -60]
    state[2, total + 1] = -1
    values = [lower(one, layout, state) for one in aggregates]
    scaling = Scaling(3)
    scaling.factor = 1.5
    columns = with_estimates(aggregates, layout, state, values, scaling, np.array([False, False, True]))
    floats = [column.view(np.float64).tolist() for column in columns]
    assert floats[0] == [15.0, 30.0, 30.0]
    assert floats[3][0] == 75.0
    assert floats[3][2] == -60.0
    assert columns[3][1] == NULL_FLOAT
    assert floats[6][0] == 5.0
    assert columns[6][1] == NULL_FLOAT
    # Nothing is known yet, but of the window to which nothing more can come.
    assert (columns[1][:2] == NULL_FLOAT).all()
    assert floats[1][2] == floats[2][2] == 30.0
    scaling.terms[:] = -2.0, 2.0, 0.0, 0.04
    columns = with_estimates(aggregates, layout, state, values, scaling, np.array([False, False, True]))
    floats = [column.view(np.float64).tolist() for column in columns]
    assert floats[1][:2] == [10.0, 20.0], "as many have come"
    assert floats[2][:2] == pytest.approx([21.0, 42.0])
    assert (floats[4][0], floats[5][0]) == pytest.approx((45.0, 105.0))
    assert floats[4][2] == floats[5][2] == -60.0


SPEC = WindowAggregate(8, 4, (), (AggregateSpec("COUNT"), AggregateSpec("AVG", 2)), len(KINDS) + 2)


@pytest.mark.parametrize("keys", [(), (2,)])
def test_going_on_after_a_restart_gives_the_same_estimates(keys):
    options = Options(granularity=10, adaptation_interval=2, retention=200)
    controllers = lambda: controller_for(RelativeError(0.2, 0.9, estimated=True), options)  # noqa: E731
    spec = replace(SPEC, keys=keys, estimated=True)
    batch = seeded_trace(7, kinds=KINDS, tuples=400, largest_delay=30)
    cuts = list(range(25, 401, 25))
    for epochs in (Epochs(each_tuple=True), Epochs()):
        law = going_on_after_restore_equals_never_stopping
        law(spec, pipeline_of(spec), batch, epochs, cuts, (4, 9), controllers)
        taking_turns_equals_never_stopping(spec, pipeline_of(spec), batch, epochs, cuts, (0, 1, 1, 0), controllers)


def delayed(tuples, seed, groups=1):
    """Thousand tuples a second, of which half are late by 200 ms on average."""
    rng = np.random.default_rng(seed)
    ts = np.arange(tuples)
    arrival = np.argsort(ts + rng.exponential(200, tuples) * (rng.random(tuples) < 0.5), kind="stable")
    rows = {"ts": ts, "v": rng.gamma(4.0, 25.0, tuples), "g": rng.integers(0, groups, tuples)}
    table = pa.table({name: column[arrival] for name, column in rows.items()})
    return table.append_column("arrival", pa.array(np.arange(tuples)))


def test_estimates_wait_less_keep_the_bound_and_cover_the_truth():
    table = delayed(240_000, 1)
    query = "SELECT COUNT(*) AS n, SUM(v) AS s FROM a [RANGE 1 SECOND] WITH ERROR 2%"
    plain, estimated = (
        sw.replay(query + more, {"a": table}, epochs=Epochs(span=20_000)) for more in ("", " ESTIMATED")
    )
    assert estimated.report["slack_ms"]["avg"] < 0.7 * plain.report["slack_ms"]["avg"]
    rows = estimated.results.to_pandas().iloc[80:-1]
    true = np.bincount(np.asarray(table["ts"]) // 1000, np.asarray(table["v"]))[80:-1]
    assert (abs(rows["n_estimate"] - 1000) <= 20).mean() >= 0.93
    assert (abs(rows["s_estimate"] / true - 1) <= 0.02).mean() >= 0.93
    assert (rows["n"] < 1000).mean() > 0.9, "what has come is not replaced"
    inside = (rows["s_low"] <= true) & (true <= rows["s_high"])
    assert 0.9 <= inside.mean() <= 0.99
    quality = estimated.report["measured_quality"]
    assert quality["measured"] == pytest.approx(0.95, abs=0.05)
