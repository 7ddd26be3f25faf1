"""Progress has the numbers of the run; delays are counted as the definition says; a moved target reaches the kernel."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

from slackwater.cli.demo import _prepared as prepared
from slackwater.core.batch import Batch
from slackwater.core.errors import UsageError
from slackwater.core.quality import Recall
from slackwater.core.time import BEFORE_ALL, SECOND
from slackwater.language.bind import bind
from slackwater.observe.delays import EDGES, DelayTally
from slackwater.observe.value import QueryProgress
from slackwater.operators.pipeline import Epochs
from slackwater.plan.physical import PhysicalPlan
from slackwater.plan.planner import plan
from slackwater.runtime.local.queries import LocalQueries
from slackwater.runtime.local.run import LocalRun
from slackwater.sources.files import schema_of
from slackwater.sources.replay import Replay, replay
from slackwater.workloads import positions

STREAMS = positions(0, 0.5).streams


def query(waiting: str) -> tuple[PhysicalPlan, Replay]:
    return prepared(waiting, STREAMS)


def watched(run: LocalRun) -> list[QueryProgress]:
    seen: list[QueryProgress] = []
    watcher = run.watch("q", seen.append)
    watcher._every = 0.0
    for _ in run.emissions():
        watcher._due = 0.0
    watcher.end()
    return seen


@pytest.mark.parametrize("waiting", ["NO WAIT", "RECALL 0.95 OVER 5 SECONDS"])
def test_the_last_progress_has_the_numbers_of_the_report(waiting: str) -> None:
    run = LocalRun(*query(waiting), Epochs(each_tuple=True), batch=512)
    seen = watched(run)
    report = run.report().as_json()
    last = seen[-1]
    assert last.over
    assert (last.in_time, last.late, last.results) == (report["in_time"], report["late"], report["results"])
    assert sum(one.rows or 0 for one in last.streams.values()) == report["tuples"]
    if report["measured_quality"] is not None:
        assert last.quality is not None
        assert last.quality.measured == report["measured_quality"]["measured"]
    counted = sum(count for one in seen for buckets in one.delays.values() for _, count in buckets)
    assert counted == report["tuples"], "every arrival is counted once"


def test_progress_survives_json_and_stays_small() -> None:
    run = LocalRun(*query("RECALL 0.95 OVER 5 SECONDS"), Epochs(each_tuple=True), batch=512)
    for one in watched(run):
        text = json.dumps(one.as_json())
        assert QueryProgress.of_json(json.loads(text)) == one
        assert len(text) < 10_000


def test_what_is_watched_answers_as_what_is_not() -> None:
    alone, seen = (LocalRun(*query("RECALL 0.95 OVER 5 SECONDS"), Epochs(each_tuple=True)) for _ in range(2))
    for _ in alone.tables():
        pass
    watched(seen)
    assert seen.observe() == alone.observe()


def test_delays_are_counted_as_the_definition_says() -> None:
    rng = np.random.default_rng(3)
    stream, ts = rng.integers(0, 2, 500), np.cumsum(rng.integers(0, 2000, 500)) - rng.integers(0, 300_000, 500)
    clocks, expected = {0: BEFORE_ALL, 1: BEFORE_ALL}, {"a": {}, "b": {}}
    for s, t in zip(stream.tolist(), ts.tolist(), strict=True):
        clocks[s] = max(clocks[s], t)
        bucket = next(k for k, edge in enumerate(EDGES.tolist()) if clocks[s] - t <= edge)
        mine = expected["ab"[s]]
        mine[bucket] = mine.get(bucket, 0) + 1
    tally = DelayTally(["a", "b"], max_ahead=10**12)
    half = Batch.of([(s, t) for s, t in zip(stream.tolist()[:250], ts.tolist()[:250], strict=True)])
    rest = Batch.of([(s, t) for s, t in zip(stream.tolist()[250:], ts.tolist()[250:], strict=True)])
    tally.note(half, [BEFORE_ALL, BEFORE_ALL])
    tally.note(rest, [int(ts[:250][stream[:250] == s].max()) for s in (0, 1)])
    assert tally.take() == {name: sorted(mine.items()) for name, mine in expected.items()}


def test_a_tuple_far_ahead_makes_no_other_late() -> None:
    tally = DelayTally(["a"], max_ahead=1000)
    tally.note(Batch.of([(0, 0), (0, 10**9), (0, 5)]), [BEFORE_ALL])
    assert tally.take() == {"a": [(0, 3)]}


def test_a_target_that_is_moved_reaches_the_kernel_and_keeps_what_was_learned() -> None:
    run = LocalRun(*query("RECALL 0.9 OVER 5 SECONDS"), Epochs(each_tuple=True), batch=512)
    before = 0
    for number, _ in enumerate(run.emissions()):
        if number == 10:
            before = run.observe().tuples
            run.set_target("RECALL 0.999 OVER 5 SECONDS")
        if number == 20:
            assert isinstance(run.plan.quality, Recall)
            assert run.plan.quality.target == 0.999
            assert run.progress().trade_off is not None, "a controller that had to begin anew would know nothing yet"
            run.set_target("RECALL 0.9")
    report = run.report().as_json()
    assert before > 0
    assert report["tuples"] == sum(table.num_rows for table in STREAMS.values())
    assert report["quality"] == "RECALL 0.9 OVER 5 s"


def test_a_target_of_another_kind_is_refused() -> None:
    run = LocalRun(*query("NO WAIT"), Epochs(each_tuple=True))
    with pytest.raises(UsageError, match="has not learned what RECALL needs"):
        run.set_target("RECALL 0.9 OVER 5 SECONDS")


def test_the_curve_says_the_slack_that_the_controller_takes() -> None:
    run = LocalRun(*query("RECALL 0.95 OVER 2 SECONDS"), Epochs(each_tuple=True), batch=512)
    for _ in run.tables():
        pass
    curve = run.progress().trade_off
    assert curve is not None
    assert list(curve.slacks) == sorted(curve.slacks)
    at = curve.shares.index(0.95)
    # It lowers slack with a dead band, and raises it for what is going on.
    assert 0.5 * run.observe().slack <= curve.slacks[at] <= run.observe().slack + SECOND


def test_an_aggregate_with_a_bound_has_a_curve_too() -> None:
    rng = np.random.default_rng(1)
    ts = np.arange(30_000) * 4 - rng.integers(0, 400, 30_000) * (rng.random(30_000) < 0.3)
    table = pa.table({"ts": np.maximum(ts, 0), "v": rng.integers(0, 100, 30_000)})
    text = "SELECT SUM(v) AS total FROM s [RANGE 1 SECOND] WITH ERROR 0.01 CONFIDENCE 0.9"
    physical = plan(bind(text, {"s": schema_of("s", table, "ts")}).query)
    run = LocalRun(physical, replay(physical, {"s": table}, "ms"), Epochs(each_tuple=True), batch=1024)
    for _ in run.tables():
        pass
    curve = run.progress().trade_off
    assert curve is not None
    assert curve.of == "windows"
    assert 0 < curve.slacks[-1] <= 500_000


def test_queries_of_a_set_are_watched_each_by_its_own_names() -> None:
    plans = {"fast": query("NO WAIT")[0], "good": query("RECALL 0.95 OVER 5 SECONDS")[0]}
    run = LocalQueries(plans, STREAMS, "ms", Epochs(tuples=1000), batch=2000)
    seen: dict[str, list[QueryProgress]] = {name: [] for name in plans}
    watchers = [one.watch(name, seen[name].append) for name, one in run.runs.items()]
    for _ in run.tables():
        pass
    for watcher in watchers:
        watcher.end()
    tuples = sum(table.num_rows for table in STREAMS.values())
    for name, mine in seen.items():
        assert mine[-1].query == name
        assert {name: one.rows for name, one in mine[-1].streams.items()} == {"a": tuples // 2, "b": tuples // 2}
        assert mine[-1].results == run.runs[name].report().as_json()["results"]
