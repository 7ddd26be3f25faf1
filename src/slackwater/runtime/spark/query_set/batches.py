"""What one micro-batch of a set emitted, query by query, and where it goes.

Invariant: a micro-batch is computed once, whatever is done with its outputs. Of a query that has failed nothing is
given from the micro-batch on in which it did, by any of its shards.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from pyspark import inheritable_thread_target
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from slackwater.core.errors import UsageError
from slackwater.core.values import total
from slackwater.plan.physical import PhysicalPlan
from slackwater.runtime.spark import output_schema
from slackwater.runtime.spark.folders import KINDS
from slackwater.runtime.spark.outputs import MicroBatch, Told
from slackwater.runtime.spark.progress.warner import Warner
from slackwater.runtime.spark.query_set.members import Member
from slackwater.runtime.spark.sinks import Called, Given, Writer, writer_of

Sinks = Given | Mapping[str, Given]
"""Where the results of a query go; or a mapping that says it of `results`, `late` and `rejected`."""
Writers = Mapping[str, Writer]
WRITING_AT_ONCE = 4
"""Outputs that writers of Spark write at the same time: each is a small job, and most of it is waiting."""


@dataclass(frozen=True)
class SetBatch(Mapping[str, MicroBatch]):
    """A micro-batch of a set: the `MicroBatch` of every query, by its name."""

    number: int
    emitted: DataFrame
    queries: Mapping[str, MicroBatch]

    def __getitem__(self, name: str) -> MicroBatch:
        return self.queries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.queries)

    def __len__(self) -> int:
        return len(self.queries)


ForEachSet = Callable[[SetBatch], None]


def batch_of(
    members: Sequence[Member], kept: DataFrame, number: int, told: Mapping[str, Told], failed: Container[str]
) -> SetBatch:
    """A micro-batch that is computed, and of which its shards have told this, by the keys of their queries; without
    those that failed."""
    batches = {
        one.name: MicroBatch(number, one.plan, kept.where(fn.col("query") == one.key), told[one.key])
        for one in members
        if one.key not in failed
    }
    return SetBatch(number, kept, batches)


def failures(told: Mapping[str, Told]) -> dict[str, str]:
    """Of the queries that failed, by their keys, why."""
    return {key: shard.failure for key, mine in told.items() for shard in mine.shards if shard.failure is not None}


def warn_of(warner: Warner, members: Sequence[Member], told: Mapping[str, Told]) -> None:
    """Warn of what the shards of queries have told after a micro-batch."""
    for one in members:
        progress = total(told[one.key].shards)
        if progress is not None:
            warner(replace(progress, query=one.name))


def writers_for(name: str, plan: PhysicalPlan, given: Sinks) -> dict[str, Writer]:
    """What writes each output of a query; refuses what cannot be written."""
    wanted = given if isinstance(given, Mapping) else {"results": given}
    writers: dict[str, Writer] = {}
    for what, one in wanted.items():
        if what not in KINDS:
            raise UsageError(f"query {name}: there is no output {what}; there are {', '.join(KINDS)}")
        writers[what] = writer_of(one, f"{what} of query {name}")
        columns = output_schema.result_schema(plan).names if what == "results" else []
        writers[what].check(columns, f"{what} of query {name}")
    return writers


def folders_of(given: Sinks | None) -> dict[str, str] | None:
    """Sinks as a log can hold them: paths of folders; None where some are no paths."""
    wanted = given if isinstance(given, Mapping) else {"results": given}
    if given is None or not all(hasattr(one, "__fspath__") or isinstance(one, str) for one in wanted.values()):
        return None
    return {what: str(one) for what, one in wanted.items()}


def write(spark: SparkSession, batch: SetBatch, writers: Mapping[str, Writers], first: bool) -> None:
    """Write every output that has rows with the writers of Spark, a few at a time, or call its function.

    The first micro-batch of a start may have been written before, with rows that are none any more.
    """
    tasks = [
        (writer, getattr(batch[name], what))
        for name, mine in writers.items()
        if name in batch
        for what, writer in mine.items()
        if first or not writer.only_rows or KINDS[what] in batch[name].kinds
    ]
    # A function may not be used to several threads.
    called = [task for task in tasks if isinstance(task[0], Called)]
    jobs = [task for task in tasks if not isinstance(task[0], Called)]
    with ThreadPoolExecutor(WRITING_AT_ONCE) as pool:
        # Jobs of other threads belong to the same query only if they are told so.
        begun = [pool.submit(inheritable_thread_target(spark)(one.write), frame, batch.number) for one, frame in jobs]
        for one, frame in called:
            one.write(frame, batch.number)
        for job in begun:
            job.result()
