"""A query over tables in memory, in one call: what notebooks, tests and examples start with."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from slackwater.core.errors import QueryError
from slackwater.observe.report_view import report_html
from slackwater.operators.pipeline import Epochs, check_epochs
from slackwater.runtime.local.run import LocalRun
from slackwater.runtime.side_outputs.rejections import rejected_at_first, rejected_rows
from slackwater.sinks.folder import plain_text
from slackwater.sources.binding import bind_to_tables, left_out, plan_over
from slackwater.sources.lookups import with_lookups
from slackwater.sources.replay import replay as arrivals_of
from slackwater.sources.tabular import as_tables, check_unit


@dataclass(frozen=True, repr=False)
class Answer:
    """What a query emitted, what came too late for it, what was rejected, and the report."""

    results: pa.Table
    late: dict[str, pa.Table]
    rejected: dict[str, pa.Table]
    report: dict[str, Any]

    def __repr__(self) -> str:
        counts = {name: sum(table.num_rows for table in getattr(self, name).values()) for name in ("late", "rejected")}
        counted = ", ".join(f"{count:,} {name}" for name, count in counts.items())
        return f"<{type(self).__name__}: {self.results.num_rows:,} rows, {counted}>"

    def _repr_html_(self) -> str:
        return report_html(self.report)


def replay(
    query: str,
    streams: Mapping[str, Any],
    *,
    epochs: Epochs | None = None,
    count: bool = False,
    time: str = "ts",
    time_unit: str = "ms",
    arrival_time: str | None = None,
) -> Answer:
    """Run a query over recorded streams, whose rows are in arrival order. `arrival_time` names the column that says
    when each row arrived, as COLUMN or COLUMN:UNIT, for windows `BY ARRIVAL` and for `idle_timeout`.

    A stream is a pyarrow Table or RecordBatchReader, a DataFrame of pandas or polars, a list of dicts, or the path of a
    file (parquet, CSV, JSON lines), of a folder of such files, or a pattern of names; what `slackwater.lookup` gives is
    a static relation.

    >>> ticks = pa.table({"ts": [1, 3, 2, 9], "v": [10, 30, 20, 90]})
    >>> replay("SELECT SUM(v) AS total FROM s [RANGE 5 MS] WITH DELAY 5 MS", {"s": ticks}).results["total"].to_pylist()
    [60, 90]
    """
    check_unit(time_unit)
    check_epochs(epochs)
    query, given = with_lookups(query, streams)
    tables = as_tables(given)
    bound = bind_to_tables(query, tables, time)
    if bound.explain:
        raise QueryError("EXPLAIN runs nothing; print the plan with `slackwater explain`")
    for column in left_out(bound.query, tables):
        warnings.warn(f"{column} is left out; a query cannot read it", stacklevel=2)
    physical = plan_over(bound.query, tables, time_unit, count_only=count)
    arrivals = arrivals_of(physical, tables, time_unit, arrival_time)
    first = rejected_at_first(physical, arrivals)
    for sentence in (*arrivals.notes, *first):
        warnings.warn(sentence, stacklevel=2)
    run = LocalRun(physical, arrivals, epochs or Epochs(each_tuple=True))
    results = []
    for table in run.tables():
        results.append(table)
        _pass_on(run)
    _pass_on(run)
    if not first:
        for sentence in rejected_rows(physical, arrivals, run.side_outputs):
            warnings.warn(sentence, stacklevel=2)
    aliases = [one.stream.alias for one in physical.inputs]
    return Answer(
        pa.concat_tables(plain_text(results)),
        {alias: run.side_outputs.late_rows(i) for i, alias in enumerate(aliases)},
        {alias: run.side_outputs.rejected_rows(i) for i, alias in enumerate(aliases)},
        run.report().as_json(),
    )


def _pass_on(run: LocalRun) -> None:
    for sentence in run.take_news():
        warnings.warn(sentence, stacklevel=3)
