"""A query over tables in memory, in one call: what notebooks, tests and examples start with."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from slackwater.operators.pipeline import Epochs
from slackwater.plan.planner import plan
from slackwater.runtime.local.run import LocalRun
from slackwater.sinks.folder import plain_text
from slackwater.sources.binding import bind_to_tables, left_out
from slackwater.sources.expected import expected_of
from slackwater.sources.plain import plain
from slackwater.sources.replay import replay as arrivals_of


@dataclass(frozen=True)
class Answer:
    """What a query let out, what came too late for it, what was turned away, and the report."""

    results: pa.Table
    late: dict[str, pa.Table]
    rejected: dict[str, pa.Table]
    report: dict[str, Any]


def replay(
    query: str,
    streams: Mapping[str, pa.Table],
    *,
    epochs: Epochs | None = None,
    count: bool = False,
    time: str = "ts",
    time_unit: str = "ms",
) -> Answer:
    """Run a query over recorded streams, given as tables whose rows are in arrival order.

    >>> ticks = pa.table({"ts": [1, 3, 2, 9], "v": [10, 30, 20, 90]})
    >>> replay("SELECT SUM(v) AS total FROM s [RANGE 5 MS] WITH DELAY 5 MS", {"s": ticks}).results["total"].to_pylist()
    [60, 90]
    """
    streams = {name: plain(table) for name, table in streams.items()}
    bound = bind_to_tables(query, streams, time)
    for column in left_out(bound.query, streams):
        warnings.warn(f"{column} is left out; a query cannot read it", stacklevel=2)
    physical = plan(bound.query, counted=count, expected=expected_of(bound.query, streams, time_unit))
    arrivals = arrivals_of(physical, streams, time_unit)
    run = LocalRun(physical, arrivals, epochs or Epochs(each_tuple=True))
    tables = list(run.tables())
    aliases = [one.stream.alias for one in physical.inputs]
    return Answer(
        pa.concat_tables(plain_text(tables)),
        {alias: run.fates.late_rows(i) for i, alias in enumerate(aliases)},
        {alias: run.fates.rejected_rows(i) for i, alias in enumerate(aliases)},
        run.report().as_json(),
    )
