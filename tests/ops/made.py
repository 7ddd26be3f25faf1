"""Progress by hand, for the tests of what is shown of queries."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from slackwater.core.measured import MeasuredQuality
from slackwater.core.memory import Memory, Resident
from slackwater.core.outlook import Outlook
from slackwater.core.state import Observation
from slackwater.core.trade_off import TradeOff
from slackwater.core.wrong_clocks import WrongClock
from slackwater.observe.value import QueryProgress, StreamProgress, nothing_observed
from slackwater.observe.waiting import Waiting

NOON = 1_700_000_000_000_000
"""An event time, in microseconds."""
QUALITY = MeasuredQuality(
    "results", 0.95, good=9215.0, bad=285.0, unsure=200.0, estimated=9215 / 0.9617 - 9500, periods=100, met=99,
    latest_good=958.0, latest_bad=42.0, expected=38.0, corrected=250.0,
)  # fmt: skip
SEEN = Observation(
    clocks=(NOON, NOON - 1_500_000), slack=2_380_000, watermark=NOON - 3_000_000, tuples=9_000, in_time=8_000, late=120,
    filtered=300, ahead=2, held=578, state_rows=622, results=95_000, amended=250, epochs=12, quality=QUALITY,
    memory=Memory(Resident(622, 622, 96_000)), outlook=Outlook(600_000_000, False, 100, 0, 2_400_000, 0.999),
)  # fmt: skip
KNOWN = QueryProgress(
    query="pairs",
    batch=12,
    time=1_700_000_100.5,
    seconds=0.25,
    rows_per_second=40_000.0,
    target="RECALL 0.95 OVER 1 min",
    emit="IN ORDER WITH CORRECTIONS",
    amends="corrections",
    observed=SEEN,
    streams={
        "a": StreamProgress(NOON, 5_000, {"ahead": 2}),
        "b": StreamProgress(NOON - 1_500_000, 4_000, partitions_in_all=3),
    },
    rejected={"ahead": 2},
    waiting=Waiting(2_380_000, 53_000, 5_656_000, results=1, p95=12_968_000.0),
    trade_off=TradeOff("results", (0.9, 0.99), (1_000_000, 9_000_000)),
    delays={"a": [(0, 4_000), (1, 500), (20, 500)], "b": [(0, 4_000)]},
    wrong_clocks=(WrongClock("b", "rx7", 1_800_000_000),),
    lagging=(WrongClock("b", "rx8", -90_000_000, NOON, waited_for=True),),
)


def made(**changes: Any) -> QueryProgress:
    """A query in the middle of its life, with everything that can be known of it; `observed` has changes of that."""
    observed = replace(SEEN, **changes.pop("observed", {}))
    return replace(KNOWN, observed=observed, **changes)


def bare(**changes: Any) -> QueryProgress:
    """A query of which next to nothing is known yet."""
    streams = {"a": StreamProgress()}
    known = QueryProgress(
        query="early", time=1_700_000_100.5, target="NO WAIT", observed=nothing_observed(1), streams=streams
    )
    return replace(known, **changes)
