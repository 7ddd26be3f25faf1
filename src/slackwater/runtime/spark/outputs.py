"""One query, several outputs: results, late rows, rejected rows and progress of the same micro-batches."""

from __future__ import annotations

import os

from pyspark.sql.streaming.readwriter import DataStreamWriter

from slackwater.core.errors import UsageError
from slackwater.plan.physical import PhysicalPlan
from slackwater.runtime.spark.batches import ForEach, ForEachSet, MicroBatch
from slackwater.runtime.spark.members import ALONE
from slackwater.runtime.spark.queries import Queries
from slackwater.runtime.spark.running import RunningQuery
from slackwater.runtime.spark.sinks import Given
from slackwater.runtime.spark.started import AVAILABLE, begun


class Outputs:
    """A query that is not started yet, with all its outputs; `give="outputs"` makes one."""

    def __init__(self, query: Queries) -> None:
        self._query = query

    @property
    def plan(self) -> PhysicalPlan:
        """What the query does."""
        return self._query.plans[ALONE]

    @property
    def is_streaming(self) -> bool:
        """False for batch input, which is complete and is answered at once by `all`."""
        return self._query.is_streaming

    def foreach_batch(self, function: ForEach) -> DataStreamWriter:
        """A writer that calls a function with every `MicroBatch`; set its options, trigger and checkpoint, and start
        it."""
        return self._query.foreach_batch(lambda batch: function(batch[ALONE]), stacklevel=2)

    def all(self) -> MicroBatch:
        """The outputs of batch input, which is one micro-batch; free them with `emitted.unpersist()`."""
        return self._query.all(stacklevel=2)[ALONE]

    def start(
        self,
        *,
        results: Given | None = None,
        late: Given | None = None,
        rejected: Given | None = None,
        foreach: ForEach | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        trigger: str | None = None,
        flush: bool = False,
        name: str | None = None,
        key_groups: int | None = None,
    ) -> RunningQuery:
        """Start the query with a sink for every output that is wanted.

        A sink is the path of a folder (parquet, every row once), `slackwater.kafka_sink(...)`, or a function of a
        DataFrame and the number of the micro-batch; `foreach` is given each `MicroBatch` whole. `trigger` is a duration
        such as "10 seconds", or "available": all that is there now, and then the query ends; with `flush` everything
        that is held is emitted at that end, and the checkpoint is done with.

        State is kept in `key_groups`, 16 of them if nothing is said (4 with a target, since each learns from its own
        tuples, and in a join without a key, since each has copies). A checkpoint keeps their number; a start from it
        may have any number of shards up to that.
        """
        if not self.is_streaming:
            raise UsageError("the input is a batch DataFrame, which is complete; take `all`, or read it as a stream")
        given = {"results": results, "late": late, "rejected": rejected}
        wanted = {what: one for what, one in given.items() if one is not None}
        if not wanted and foreach is None:
            raise UsageError("say where rows go: start(results='folder'), late=..., rejected=... or foreach=...")
        started = begun(
            self._query,
            checkpoint,
            sinks={ALONE: wanted} if wanted else None,
            foreach=None if foreach is None else _of_one(foreach),
            trigger=trigger,
            flush=flush,
            name=name,
            key_groups=key_groups,
        )
        return RunningQuery(started, flush, trigger == AVAILABLE)


def _of_one(foreach: ForEach) -> ForEachSet:
    return lambda batch: foreach(batch[ALONE])
