"""A set of queries as it is started on a checkpoint, again and again: who writes what, and what a micro-batch does.

Invariant: a micro-batch is computed by one job, whatever is done with its outputs. Of a query that has failed nothing
is given from the micro-batch on in which it did, by any of its shards; that is settled before anything is seen in a
sink.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from slackwater.core.errors import UsageError
from slackwater.plan.physical import PhysicalPlan
from slackwater.runtime.spark.ending import end_when_quiet
from slackwater.runtime.spark.failures import one_sentence
from slackwater.runtime.spark.fence import Fence
from slackwater.runtime.spark.folders import KINDS, Folder, publish, tidy
from slackwater.runtime.spark.progress.warner import Warner
from slackwater.runtime.spark.query_set.answers import answered, local_folders
from slackwater.runtime.spark.query_set.batches import (
    ForEachSet,
    Sinks,
    Writers,
    batch_of,
    failures,
    warn_of,
    write,
    writers_for,
)
from slackwater.runtime.spark.query_set.control import FAIL, Known, SetLog, SetMessage
from slackwater.runtime.spark.query_set.host import Output
from slackwater.runtime.spark.query_set.members import Member
from slackwater.runtime.spark.running import state_folder
from slackwater.runtime.spark.session import fitting

if TYPE_CHECKING:
    from slackwater.runtime.spark.query_set.running import Queries


class Started:
    """All that it takes to start a set, again and again on one checkpoint."""

    def __init__(
        self,
        stated: Queries,
        spark: SparkSession,
        log: SetLog,
        labels: tuple[int, ...],
        shards: int,
        folder: str,
        when: dict[str, Any],
        name: str | None,
        foreach: ForEachSet | None,
        fence: Fence,
    ) -> None:
        self.stated, self.log = stated, log
        self._spark, self._labels, self._shards = spark, labels, shards
        self._folder, self._when, self._name, self._foreach = folder, when, name, foreach
        self._fence = fence
        self._writers: dict[str, Writers] = {}
        self.lock = threading.RLock()
        """Held by whoever reads or adds messages."""
        self._warner = Warner(several=True)

    def check_beats(self, name: str, plan: PhysicalPlan, beats: bool) -> None:
        """Refuse a query that needs the clock on the wall in a set that was begun without it."""
        if plan.options.idle_timeout is not None and not beats:
            raise UsageError(
                f"query {name} has an idle_timeout, and the set was begun without a query that has one; use a new"
                " checkpoint folder"
            )

    def write_to(self, query: Known, given: Sinks | None, new: bool) -> None:
        """Let the outputs of a query go somewhere; a folder with rows of another run is refused where it is new."""
        if given is None:
            if self._foreach is None:
                raise UsageError(f"query {query.name}: say where its rows go, as in sinks={{{query.name!r}: 'folder'}}")
            return
        writers = writers_for(query.name, self.stated.plan(query.name, query.text), given)
        self._refuse_shared(query.name, writers)
        if new:
            with one_sentence():
                for what, writer in writers.items():
                    writer.refuse_other_runs(self._spark, f"{what} of query {query.name}")
        self._writers[query.name] = writers

    def _refuse_shared(self, name: str, writers: Writers) -> None:
        """Two outputs would replace the rows of each other in one folder."""
        taken = {
            one.folder: f"{what} of query {other}"
            for other, mine in self._writers.items()
            if other != name
            for what, one in mine.items()
        }
        for what, one in writers.items():
            if one.folder is not None and one.folder in taken:
                raise UsageError(
                    f"{what} of query {name}: {one.folder!r} is the folder for {taken[one.folder]}; name another"
                )
            taken[one.folder] = f"{what} of query {name}"

    def members(self) -> list[Member]:
        """The queries that run now."""
        return [
            self.stated.member(one.name, one.generation, self.stated.plan(one.name, one.text), self._labels)
            for one in self.log.queries.values()
            if one.failure is None
        ]

    def start(self) -> StreamingQuery:
        """Start what the log says."""
        with one_sentence(), fitting(self._spark, self._shards), self.lock:
            members = self.members()
            writers = self._writers_of(members)
            folders = local_folders(self._spark, members, writers)
            frame = self.stated.emitted(
                members, self._labels, self.log.beats, self.log, folders,
                emits_all=self._foreach is not None, state=state_folder(self._spark, self._folder),
            )  # fmt: skip
            writer = frame.writeStream.foreachBatch(
                self._fence.guarding(self._each(members, writers, folders))
            ).trigger(**self._when)
            writer = writer.option("checkpointLocation", self._folder)
            query = self._fence.started(writer if self._name is None else writer.queryName(self._name))
        if self.log.beats and "availableNow" in self._when:
            end_when_quiet(query)
        return query

    def _writers_of(self, members: list[Member]) -> dict[str, Writers]:
        run = self.log.run
        return {
            one.name: {
                what: writer.of_run(run, f"{one.name} {what}")
                for what, writer in self._writers.get(one.name, {}).items()
            }
            for one in members
        }

    def _each(
        self, members: list[Member], writers: Mapping[str, Writers], folders: Mapping[Output, Folder]
    ) -> Callable[[DataFrame, int], None]:
        others = {
            one.name: {what: mine for what, mine in writers[one.name].items() if (one.key, KINDS[what]) not in folders}
            for one in members
        }
        # Where all rows leave by folders, the job that computes them needs no second look at them.
        asked_again = self._foreach is not None or any(others.values())
        begun: list[int] = []

        def each(frame: DataFrame, number: int) -> None:
            first = not begun
            begun.append(number)
            # A start that died may have left some.
            tidy(folders.values() if first else ())
            kept = frame.persist() if asked_again else frame
            try:
                told, files = answered(kept, members)
                warn_of(self._warner, members, told)
                self._note_failures(members, failures(told), number)
                failed = self._failed()
                for output, folder in folders.items():
                    # The first micro-batch may have been written before, with rows that are none any more.
                    if output[0] not in failed and (first or output in files):
                        publish(folder, files.get(output, ()), number)
                if asked_again:
                    batch = batch_of(members, kept, number, told, failed)
                    write(self._spark, batch, others, first)
                    if self._foreach is not None:
                        self._foreach(batch)
            finally:
                if asked_again:
                    kept.unpersist()
                tidy(folders.values())

        return each

    def _note_failures(self, members: list[Member], failed: Mapping[str, str], number: int) -> None:
        """Say to all shards of a query that has failed in one of them that it has; they hear it next."""
        with self.lock:
            known = self.log.queries
            news = [
                SetMessage(FAIL, query=one.name, generation=one.generation, reason=failed[one.key], batch=number)
                for one in members
                if one.key in failed and one.name in known and known[one.name].failure is None
            ]
            if news:
                self.log.say(*news)

    def _failed(self) -> set[str]:
        """The keys of queries that have failed."""
        with self.lock:
            return {one.key for one in self.log.queries.values() if one.failure is not None}
