"""From the text of a query and DataFrames to a plan, and from a plan to how its inputs are packed.

Invariant: nothing is started here, and nothing is read from the streams but their schemas; what the user should know is
said as warnings.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql import DataFrame

from slackwater.core.errors import QueryError, UsageError
from slackwater.core.quality import Recall
from slackwater.language.bound import BoundQuery, goes_by_arrival
from slackwater.plan.ordering import check_in_epochs
from slackwater.plan.physical import PhysicalPlan
from slackwater.plan.planner import plan as planned
from slackwater.runtime.spark.exchange.writer import MARK, Packing, aggregate_of
from slackwater.runtime.spark.failures import one_sentence
from slackwater.runtime.spark.state.checkpoint import described
from slackwater.runtime.spark.types import arrow_schema
from slackwater.sources.binding import bind_to_tables, left_out
from slackwater.sources.tabular import check_unit


def empty_table(frame: DataFrame) -> pa.Table:
    """A table without rows that has the columns of a DataFrame, but for marks of ours."""
    schema = arrow_schema(frame.schema)
    return pa.Table.from_batches([], pa.schema([field for field in schema if not field.name.startswith(MARK)]))


@one_sentence()
def planned_over(
    query: str,
    streams: Mapping[str, DataFrame],
    time: str,
    time_unit: str,
    stacklevel: int,
) -> tuple[BoundQuery, PhysicalPlan]:
    """A query as it is bound, and its plan; `stacklevel` says whose line warnings name."""
    check_unit(time_unit)
    for name, frame in streams.items():
        if not hasattr(frame, "sparkSession"):
            raise UsageError(f"{name} is a {type(frame).__name__}, and no DataFrame of Spark; `sw.replay` takes tables")
    tables = {name: empty_table(frame) for name, frame in streams.items()}
    bound = bind_to_tables(query, tables, time)
    for name in left_out(bound.query, tables):
        warnings.warn(f"{name} is left out; a query cannot read it", stacklevel=stacklevel + 1)
    if bound.explain:
        raise QueryError("EXPLAIN gives no stream; print it with `slackwater explain`")
    return bound.query, planned(bound.query)


def check_plan(plan: PhysicalPlan, timed: bool) -> None:
    """Refuse what Spark does not offer; `timed` says whether shards are given the time of the wall clock."""
    check_in_epochs(plan.options)
    if goes_by_arrival(plan.query) and not timed:
        raise UsageError(
            "windows BY ARRIVAL need the moments at which rows arrive, and on Spark only a live query with an"
            " idle_timeout knows these; state OPTIONS (idle_timeout = '1 minute'), or leave out BY ARRIVAL"
        )


def packings_of(
    plan: PhysicalPlan, labels: tuple[int, ...], time_unit: str, tasks: int, complete: bool = False
) -> list[Packing]:
    """How every input of a query is packed for its shards, which so many tasks run."""
    keys = plan.partitioning.keys
    learns = isinstance(plan.quality, Recall) and not plan.nodes
    return [
        Packing(
            one,
            () if keys is None else keys[position],
            labels,
            time_unit,
            plan.options.max_ahead,
            tasks,
            plan.options.granularity if learns else None,
            complete,
            plan.partitioning.cut(len(labels)),
            aggregate_of(plan),
        )
        for position, one in enumerate(plan.inputs)
    ]


def read_by(plan: PhysicalPlan, frames: Mapping[str, DataFrame]) -> dict[str, DataFrame]:
    """The streams that a query reads, of those that it was given."""
    read = {one.stream.source for one in plan.inputs}
    return {name: frame for name, frame in frames.items() if name in read}


def is_streaming(frames: Mapping[str, DataFrame]) -> bool:
    """Whether the inputs are streams; all of them must be, or none."""
    kinds = {name: frame.isStreaming for name, frame in frames.items()}
    if len(set(kinds.values())) > 1:
        batch, stream = (next(name for name, streams in kinds.items() if streams is which) for which in (False, True))
        raise UsageError(
            f"{stream} is a stream and {batch} is a batch DataFrame; read both with spark.readStream, or both with"
            " spark.read"
        )
    return all(kinds.values())


def fingerprint(plan: PhysicalPlan, labels: tuple[int, ...]) -> str:
    """What a recorded run must agree with to be taken up again: everything that its results depend on."""
    inputs = [(one.stream, one.columns, one.computed, one.rows) for one in plan.inputs]
    operator = plan.operator.identity
    cut = plan.partitioning.cut(len(labels))
    parts = (operator, inputs, plan.outputs, plan.quality, plan.options, plan.query.out, labels, cut)
    return hashlib.sha256(json.dumps(described(parts)).encode()).hexdigest()
