"""What one micro-batch emitted, query by query, and where it goes.

Invariant: a micro-batch is computed once, whatever is done with its outputs; every output has the rows of this very
run, so late and rejected rows are as many as the progress counts. Files are told by the attempts that were successful,
each once. Of a query that has failed nothing is given from the micro-batch on in which it did, by any of its shards.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from slackwater.core.errors import UsageError
from slackwater.core.values import total
from slackwater.observe.value import QueryProgress
from slackwater.plan.physical import PhysicalPlan
from slackwater.runtime.spark import output_schema
from slackwater.runtime.spark.folders import KINDS, WRITTEN, Folder, folder_of
from slackwater.runtime.spark.members import ALONE, Member
from slackwater.runtime.spark.output_schema import METRICS
from slackwater.runtime.spark.outputs import Writer
from slackwater.runtime.spark.progress import Warner
from slackwater.runtime.spark.sinks import Called, Given, writer_of
from slackwater.runtime.spark.state.host import Output
from slackwater.runtime.spark.store import At
from slackwater.runtime.spark.versions import in_thread

Sinks = Given | Mapping[str, Given]
"""Where the results of a query go; or a mapping that says it of `results`, `late` and `rejected`."""
Writers = Mapping[str, Writer]
WRITING_AT_ONCE = 4
"""Outputs that writers of Spark write at the same time: each is a small job, and most of it is waiting."""


class Answer:
    """What the job that computes a micro-batch says of one query."""

    def __init__(self) -> None:
        self.kinds: set[str] = set()
        """The outputs that have rows."""
        self.shards: list[QueryProgress] = []
        self.files: dict[str, list[str]] = defaultdict(list)
        """Of folders that shards write themselves, by the kind of rows: files that are not yet published."""

    def note(self, kind: str, note: str) -> None:
        if kind == METRICS:
            self.shards.append(QueryProgress.of_json(json.loads(note)))
        elif kind == WRITTEN:
            what, _, name = note.partition("/")
            self.kinds.add(what)
            self.files[what].append(name)
        else:
            self.kinds.add(kind)


@dataclass(frozen=True)
class MicroBatch:
    """What one micro-batch emitted: DataFrames of its rows, and its progress."""

    number: int
    plan: PhysicalPlan
    emitted: DataFrame
    answer: Answer

    @property
    def kinds(self) -> frozenset[str]:
        return frozenset(self.answer.kinds)

    @cached_property
    def results(self) -> DataFrame:
        """The rows of the SELECT list."""
        return output_schema.results(self.emitted, self.plan)

    @cached_property
    def late(self) -> DataFrame:
        """Rows that came behind the watermark: stream, ts, delay_ms, watermark, row (as JSON)."""
        return output_schema.late(self.emitted)

    @cached_property
    def rejected(self) -> DataFrame:
        """Rows that could not be used: stream, reason, ts, row (as JSON)."""
        return output_schema.rejected(self.emitted)

    @cached_property
    def progress(self) -> QueryProgress | None:
        """The state of the query after this micro-batch; None where no shard had anything to do."""
        progress = total(self.answer.shards)
        return None if progress is None else replace(progress, query="", batch=self.number)


ForEach = Callable[[MicroBatch], None]


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


def notes_of(emitted: DataFrame) -> DataFrame:
    """What is emitted without its rows."""
    return emitted.select("query", "kind", "note")


def answered(notes: DataFrame, members: Sequence[Member]) -> dict[str, Answer]:
    """Compute a micro-batch in one job; what goes to folders is then written there, under hidden names. What is said of
    every query, by its key."""
    answers = {one.key: Answer() for one in members}
    for key, kind, note in notes.collect():
        answers[key].note(kind, note)
    return answers


def batch_of(
    members: Sequence[Member],
    kept: DataFrame,
    number: int,
    answers: Mapping[str, Answer],
    failed: Container[str],
) -> SetBatch:
    """A micro-batch that is computed, with what is said of its queries, by their keys; without those that failed."""
    batches = {
        one.name: MicroBatch(number, one.plan, kept.where(fn.col("query") == one.key), answers[one.key])
        for one in members
        if one.key not in failed
    }
    return SetBatch(number, kept, batches)


def failures(answers: Mapping[str, Answer]) -> dict[str, str]:
    """Of the queries that failed, by their keys, why."""
    return {key: shard.failure for key, mine in answers.items() for shard in mine.shards if shard.failure is not None}


def warn_of(warner: Warner, members: Sequence[Member], answers: Mapping[str, Answer]) -> None:
    """Warn of what the shards of queries have told after a micro-batch."""
    for one in members:
        progress = total(answers[one.key].shards)
        if progress is not None:
            warner(replace(progress, query=one.name))


def folders_in(
    spark: SparkSession, members: Sequence[Member], writers: Mapping[str, Writers], state: At
) -> dict[Output, Folder]:
    """Those outputs that are written by the one job; the others need a writer of Spark, or a function, each."""
    found = {}
    for one in members:
        for what, writer in writers.get(one.name, {}).items():
            folder = folder_of(spark, one.plan, what, writer, state)
            if folder is not None:
                found[one.key, KINDS[what]] = folder
    return found


def label_of(what: str, query: str) -> str:
    """What an error calls an output."""
    return what if query == ALONE else f"{what} of query {query}"


def writers_for(name: str, plan: PhysicalPlan, given: Sinks) -> dict[str, Writer]:
    """What writes each output of a query; refuses what cannot be written."""
    wanted = given if isinstance(given, Mapping) else {"results": given}
    writers: dict[str, Writer] = {}
    for what, one in wanted.items():
        if what not in KINDS:
            raise UsageError(f"query {name}: there is no output {what}; there are {', '.join(KINDS)}")
        label = label_of(what, name)
        writers[what] = writer_of(one, label)
        columns = []
        if what == "results":
            columns = output_schema.result_schema(plan).names
            writers[what] = writers[what].with_key(plan.change_key if plan.emit.changes else None)
            if plan.emit.changes and not writers[what].takes_changes:
                raise UsageError(
                    f"{label}: rows of EMIT {plan.emit} change what has left, and this sink only appends; name a table"
                    " that is kept up to date, as in slackwater.upsert('delta', 'folder'), or a function; slackwater"
                    ".changes(...) gives the changes as a DataFrame"
                )
        writers[what].check(columns, label)
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
        begun = [pool.submit(in_thread(spark, one.write), frame, batch.number) for one, frame in jobs]
        for one, frame in called:
            one.write(frame, batch.number)
        for job in begun:
            job.result()
