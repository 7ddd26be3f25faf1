"""What is beside the first answer is told apart from it, in reports and views; and what slack is on arrival."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import slackwater as sw
from slackwater.core.measured import MeasuredQuality
from slackwater.observe.events import changes
from slackwater.observe.report_view import report_html
from slackwater.observe.value import QueryProgress
from slackwater.observe.views import queries_text
from slackwater.plan.planner import plan
from slackwater.runtime.local.run import LocalRun
from slackwater.sources.binding import bind_to_tables
from slackwater.sources.replay import replay as arrivals_of
from tests.ops.made import made

JOIN = "SELECT a.v AS one, b.v AS other FROM a [2 SECONDS], b [2 SECONDS] WHERE a.k = b.k"
TARGET = "WITH RECALL 0.8 OVER 10 SECONDS"


def stream(seed: int, count: int = 12_000) -> pa.Table:
    """Tuples every 10 ms, one of six late by up to a few seconds."""
    rng = np.random.default_rng(seed)
    ts = 10 * np.arange(count)
    delay = np.where(rng.random(count) < 1 / 6, rng.exponential(800, count), 0).astype(int)
    order = np.argsort(ts + delay, kind="stable")
    return pa.table(
        {"ts": ts[order], "arrival": (ts + delay)[order], "k": rng.integers(0, 40, count), "v": rng.random(count)}
    )


def answer(emit: str, **more: Any) -> sw.Answer:
    return sw.replay(f"{JOIN} {emit} {TARGET}", {"a": stream(1), "b": stream(2)}, **more)


def test_a_report_tells_corrections_from_the_first_answer() -> None:
    plain, corrected = answer(""), answer("EMIT IN ORDER WITH CORRECTIONS FOR 1 MINUTE")
    assert "amended" not in plain.report
    assert corrected.report["emit"] == "IN ORDER WITH CORRECTIONS FOR 1 min"
    assert corrected.report["results"] == plain.report["results"]
    assert corrected.results.num_rows == plain.results.num_rows + corrected.report["amended"]
    quality, before = corrected.report["measured_quality"], plain.report["measured_quality"]
    assert {name: quality[name] for name in before} == before, "the first answer is measured as it was"
    assert quality["corrected"] == corrected.report["amended"] == before["bad"] > 100
    assert quality["after_corrections"] == 1 > quality["measured"]
    shown = report_html(corrected.report)
    assert f"<td>corrections</td><td>{corrected.report['amended']:,}</td>" in shown
    assert "<td>corrected</td><td>100.00% of all results with corrections</td>" in shown


def test_corrections_that_end_early_leave_losses_behind() -> None:
    quality = answer("EMIT IN ORDER WITH CORRECTIONS FOR 500 MS").report["measured_quality"]
    assert quality["corrected"] < quality["bad"]
    whole = quality["good"] + quality["bad"]
    assert quality["measured"] < quality["after_corrections"] == (quality["good"] + quality["corrected"]) / whole < 1


def test_on_arrival_slack_is_what_keeps_tuples_findable_and_nothing_waits_for_it() -> None:
    found = answer("EMIT ON ARRIVAL", epochs=sw.Epochs(tuples=100)).report
    assert found["latency_by_cause_ms"]["slack"] == 0
    assert found["waiting_advice"] is None
    shown = report_html(found)
    assert "<td>findable</td><td>for " in shown
    assert "beyond the window on average" in shown
    assert "<td>slack</td>" not in shown


def test_what_is_expected_of_late_tuples_is_about_what_comes() -> None:
    """At times during a run: results that are behind the watermark, and are corrected later."""
    tables = {"a": stream(3), "b": stream(4)}
    text = f"{JOIN} EMIT IN ORDER WITH CORRECTIONS WITH RECALL 0.5 OVER 1 SECOND"
    physical = plan(bind_to_tables(text, tables, "ts").query, identities=True)
    run = LocalRun(physical, arrivals_of(physical, tables, "ms", None), sw.Epochs(tuples=200))
    expected: list[float] = []
    came: list[int] = []
    seen: list[datetime] = []
    for table in run.tables():
        now = run.known()
        for number, watermark in enumerate(seen):
            late = table.filter(pc.and_(table["_amends"], pc.less(table["_ts"], pa.scalar(watermark))))
            came[number] += late.num_rows
        if now.watermark is not None and now.quality is not None and now.quality.corrections_expected is not None:
            seen.append(now.watermark)
            came.append(0)
            expected.append(now.quality.corrections_expected)
    middle = slice(len(seen) // 4, -len(seen) // 8)
    assert sum(expected[middle]) == pytest.approx(sum(came[middle]), rel=0.25)
    assert sum(came[middle]) > 1000


def test_shards_add_up() -> None:
    one = MeasuredQuality("results", 0.9, good=90.0, bad=10.0, expected=3.0, corrected=9.0)
    both = one + MeasuredQuality("results", 0.9, good=100.0, expected=1.0, corrected=0.0)
    assert (both.corrected, both.expected, both.share_corrected) == (9.0, 4.0, 0.995)
    assert made().amended == 250
    assert (made() + made()).amended == 500
    assert QueryProgress.of_json(made().as_json()) == made()


def test_views_and_events_name_what_is_amended() -> None:
    text = queries_text({"pairs": [made()]})
    assert re.search(r"corrections +250, about 38 more expected", text)
    assert "98.78% of all results with corrections" in text
    ended = [event for event in changes(made(), made(over=True)) if event.name == "ended"]
    assert [event.numbers["amended"] for event in ended] == [250]
    assert "250 corrections" in ended[0].said
    arrived = queries_text({"pairs": [made(emit="ON ARRIVAL", amends=None)]})
    assert all(words in arrived for words in ("findable", "beyond the window", "last member"))
    assert "corrections" not in arrived.replace("with corrections", "")
