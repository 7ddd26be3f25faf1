"""What progress tells of targets that cannot be met and of waiting, from what shards say; without a running Spark."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from slackwater.core.outlook import Outlook
from slackwater.core.values import total
from slackwater.language.bind import bind
from slackwater.observe.imbalance import ShardLoad
from slackwater.observe.value import QueryProgress, StreamProgress
from slackwater.observe.views import ProgressHistory
from slackwater.observe.waiting import Waiting
from slackwater.plan.planner import plan
from slackwater.runtime.spark.batches import Answer, warn_of
from slackwater.runtime.spark.output_schema import METRICS
from slackwater.runtime.spark.progress import Warner
from slackwater.runtime.spark.state.shard import Shard
from slackwater.sources.files import schema_of
from tests.runtime.foreseeing import AGAIN, BAD, FINISHED, SAID, foresee

QUERY = "SELECT a.v FROM a [5 s], b [5 s] WHERE a.v = b.v WITH RECALL 0.95 OVER 6 HOURS AT MOST 10 MINUTES"
SECOND = 1_000_000


def shard(monkeypatch: pytest.MonkeyPatch, outlook: Outlook) -> QueryProgress:
    """What a shard with this outlook reports, before it has taken anything in."""
    foresee(monkeypatch, outlook)
    rows = pa.table({"ts": [1], "v": [1]})
    query = bind(QUERY, {name: schema_of(name, rows, "ts") for name in ("a", "b")}).query
    return Shard(plan(query), ((), ()), "").progress(ShardLoad())


def reported(monkeypatch: pytest.MonkeyPatch, *outlooks: Outlook, **facts: Any) -> QueryProgress:
    found = total(replace(shard(monkeypatch, outlook), query="q", **facts) for outlook in outlooks)
    assert found is not None
    return found


def test_the_outlook_of_a_query_is_the_worst_of_its_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = reported(monkeypatch, FINISHED, BAD).outlook
    assert seen is not None
    assert (seen.cap, seen.stated, seen.needed) == (timedelta(minutes=10), True, timedelta(days=9))
    assert (seen.bound, seen.reached, seen.unreachable, seen.said) == (0.2, 0.9343, True, SAID)
    assert seen.how_often == "slack is at most 10 minutes; the cap bound in 20 % of the choices"


def test_progress_shows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    history = ProgressHistory((reported(monkeypatch, BAD),))
    for shown in (" ".join(str(history).split()), history._repr_html_()):
        assert SAID in shown
        assert "the cap bound in 40 % of the choices" in shown
    assert "cannot be met" not in str(ProgressHistory((reported(monkeypatch, FINISHED),)))


def test_a_session_warns_of_it_once_per_change(monkeypatch: pytest.MonkeyPatch) -> None:
    warner, said = Warner(), []
    for outlook in (FINISHED, BAD, BAD, FINISHED, FINISHED, BAD):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            warner(reported(monkeypatch, outlook))
        said.append([str(one.message) for one in caught])
    assert said == [[], [SAID], [], [AGAIN], [], [SAID]]


def test_of_a_set_the_query_is_named_that_is_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    streams = {"a": StreamProgress(rows=50, rejected={"no_time": 45}), "b": StreamProgress(rows=50)}
    told = replace(shard(monkeypatch, BAD), streams=streams)
    member = SimpleNamespace(name="one", key="one.1", plan=SimpleNamespace(inputs=[named("a"), named("b")]))
    other = SimpleNamespace(name="other", key="other.2", plan=member.plan)
    warner, answer = Warner(several=True), Answer()
    answer.note(METRICS, json.dumps(told.as_json()))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            warn_of(warner, [member, other], {"one.1": answer, "other.2": Answer()})
    said = [str(one.message) for one in caught]
    assert said[0] == f"query one: {SAID}"
    assert said[1].startswith("query one: ")
    assert "45" in said[1]
    assert len(said) == 2


def named(alias: str) -> SimpleNamespace:
    """An input of this name."""
    return SimpleNamespace(stream=SimpleNamespace(alias=alias))


def test_waiting_is_told_apart_by_cause_over_all_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    observed = replace(shard(monkeypatch, FINISHED).observed, clocks=(100 * SECOND, 40 * SECOND))
    waiting = Waiting(6 * SECOND, 60 * SECOND, 12 * SECOND, 3, p95=30.0 * SECOND)
    facts = {"waiting": waiting, "observed": observed}
    wait = reported(monkeypatch, FINISHED, FINISHED, **facts).latency
    assert wait is not None
    seconds = [wait.average, wait.p95, wait.slack, wait.slowest_stream, wait.micro_batch]
    assert [one.total_seconds() for one in seconds] == [26, 30, 2, 20, 4]
    assert wait.stream == "b"
    assert wait.advice is not None
    assert wait.advice.startswith("results wait mostly for stream b, 1 minute behind the others")
    shown = str(ProgressHistory((reported(monkeypatch, FINISHED, **facts),)))
    assert "2 s slack, 20 s slowest stream (b), 4 s micro-batch" in " ".join(shown.split())
    assert reported(monkeypatch, FINISHED).latency is None
