"""Moments by hand, for the tests of what is shown of queries."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from slackwater.observe.moment import (
    LatencySeen,
    Moment,
    OutlookSeen,
    QualitySeen,
    StreamSeen,
    TradeOffSeen,
)

NOON = 1_700_000_000_000.0
"""An event time, in milliseconds."""


def moment(**changes: Any) -> Moment:
    """A query in the middle of its life, with everything that can be known of it."""
    seen = Moment(
        query="pairs",
        batch=12,
        at=1_700_000_100.5,
        seconds=0.25,
        rows_per_second=40_000.0,
        target="RECALL 0.95 OVER 1 min",
        slack=2_380.0,
        watermark=NOON - 3_000,
        streams=(
            StreamSeen("a", NOON, 5_000, rejected={"ahead": 2}),
            StreamSeen("b", NOON - 1_500, 4_000, partitions_in_all=3),
        ),
        in_time=8_000,
        late=120,
        filtered=300,
        held=578,
        results=95_000,
        rejected={"ahead": 2},
        state_rows=1_200,
        state_bytes=96_000,
        quality=QualitySeen("results", 0.95, 0.9617, 0.95, 0.97, 0.958, 0.99),
        latency=LatencySeen(8_089.0, 2_380.0, 53.0, 5_656.0, 12_968.0, "b"),
        outlook=OutlookSeen(600_000.0, 2_400.0, 0.999, None),
        trade_off=TradeOffSeen("results", (0.9, 0.99), (1_000.0, 9_000.0)),
        delays={"a": [(0, 4_000), (1, 500), (20, 500)], "b": [(0, 4_000)]},
        wrong_clocks=({"stream": "b", "part": "rx7", "ahead_ms": 1_800_000.0},),
    )
    return replace(seen, **changes)


def bare(**changes: Any) -> Moment:
    """A query of which next to nothing is known yet."""
    seen = Moment(
        "early", 0, 1_700_000_100.5, 0.0, None, "NO WAIT", 0.0, None, (StreamSeen("a", None),), 0, 0, 0, 0, 0, {}, 0, 0
    )
    return replace(seen, **changes)
