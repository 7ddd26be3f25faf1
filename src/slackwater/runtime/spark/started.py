"""Queries as they are started on a checkpoint, again and again: who writes what, and what a micro-batch does.

Invariant: a micro-batch is computed by one job, whatever is done with its outputs. Of a query that has failed nothing
is given from the micro-batch on in which it did, by any of its shards; that is settled before anything is seen in a
sink.
"""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from slackwater.core.errors import UsageError
from slackwater.core.time import MILLISECOND, parse_duration
from slackwater.plan.physical import PhysicalPlan
from slackwater.runtime.history import History, as_history
from slackwater.runtime.spark.batches import (
    ForEachSet,
    Sinks,
    Writers,
    answered,
    batch_of,
    failures,
    folders_in,
    label_of,
    notes_of,
    warn_of,
    write,
    writers_for,
)
from slackwater.runtime.spark.control import (
    ADD,
    CONTROL,
    FAIL,
    LIVE,
    PIECE,
    ControlLog,
    Known,
    Message,
    Stated,
    changes_of_start,
    in_force,
)
from slackwater.runtime.spark.failures import one_sentence
from slackwater.runtime.spark.fence import Fence
from slackwater.runtime.spark.folders import KINDS, Folder, publish, tidy, withdraw
from slackwater.runtime.spark.history.pieces import FOLDER as HISTORY
from slackwater.runtime.spark.history.pieces import Kept, kept_in, write_pieces
from slackwater.runtime.spark.locations import (
    CHECKPOINT_SETTING,
    STATE,
    location_of,
    state_of_checkpoint,
    temporary_folder,
)
from slackwater.runtime.spark.members import ALONE, KeyGroups, Member
from slackwater.runtime.spark.progress import Warner
from slackwater.runtime.spark.session import default_shards, settings_for, started_with
from slackwater.runtime.spark.state.host import Output
from slackwater.runtime.spark.store import At, at_once, store_at
from slackwater.runtime.targets import FAMILIES

if TYPE_CHECKING:
    from slackwater.runtime.spark.queries import Queries

AVAILABLE = "available"
KEY_GROUPS, FEW_KEY_GROUPS, MOST_KEY_GROUPS = 16, 4, 256
"""Key groups where none are asked for; where a query learns from what it emits; and the most there can be."""
Take = Callable[[DataFrame, int], None]


def begun(
    stated: Queries,
    checkpoint: str | os.PathLike[str] | None,
    *,
    sinks: Mapping[str, Sinks] | None = None,
    foreach: ForEachSet | None = None,
    take: Take | None = None,
    trigger: str | None = None,
    flush: bool = False,
    name: str | None = None,
    key_groups: int | None = None,
    history: History | Mapping[str, Any] | None = None,
) -> Started:
    """Queries that are ready to start on a checkpoint, whose log has what they state. `take` is given what a
    micro-batch emits, as it is, in place of sinks.

    Without a number of shards they have as many as before, or as there are cores.
    """
    when, spark, given = trigger_of(trigger), stated.spark, sinks or {}
    if flush and trigger != AVAILABLE:
        raise UsageError(f"flush=True ends {_what(stated)}, so it goes with trigger='available'")
    if key_groups is not None and not 1 <= key_groups <= MOST_KEY_GROUPS:
        raise UsageError(f"key_groups={key_groups}; it is a number from 1 to {MOST_KEY_GROUPS}")
    folder = checkpoint_folder(spark, checkpoint, name)
    strange = [one for one in given if one not in stated.texts]
    if strange and "://" not in folder and not Path(folder).exists():
        # On a checkpoint that is there it may be a query that was added while the set ran.
        raise UsageError(f"sinks: there is no query {strange[0]}; there are {', '.join(stated.texts)}")
    fence = fence_of(spark, folder)
    with fence.held():
        with one_sentence():
            log = ControlLog(spark, f"{folder}/{CONTROL}")
        log.check_kind(stated.alone)
        cut = _cut(stated, log, key_groups)
        started = Started(stated, log, cut, folder, when, name, foreach, take, fence)
        with one_sentence():
            started.history = started.past(None if history is None else as_history(history))
        changes = started.changes_of_start()
        opening = log.opening(cut.tasks, cut.groups, stated.alone, started.is_timed, started.history is not None)
        changes += started.first_piece() if opening else []
        after = in_force([*log.messages, *log.numbered([*opening, *changes])])
        strange = [one for one in given if one not in after and one not in stated.texts]
        if strange:
            raise UsageError(f"sinks: there is no query {strange[0]}; there are {', '.join(after)}")
        for one in after.values():
            started.check_timed(one.name, stated.plan(one.name, one.text))
            if one.failure is None and take is None:
                started.write_to(one, given.get(one.name, one.sinks), new=log.is_new or one.name not in log.queries)
        if opening or changes:
            with one_sentence():
                log.say(*opening, *changes)
    return started


def _what(stated: Queries) -> str:
    return "a query" if stated.alone else "a set"


def _cut(stated: Queries, log: ControlLog, key_groups: int | None) -> KeyGroups:
    shards = stated.shards or log.beginning.shards or default_shards(stated.spark)
    return cut_of(stated.plans, shards, stated.alone, key_groups, log.beginning.groups)


def cut_of(
    plans: Mapping[str, PhysicalPlan], shards: int, alone: bool, asked: int | None = None, before: int | None = None
) -> KeyGroups:
    """Into how many key groups state is cut, and how many tasks run them: as many as before, as asked for, or as these
    queries usually have."""
    usual = (one.partitioning.shards(key_groups_of(one, asked, shards, len(plans))) for one in plans.values())
    groups = before or max(1 if alone else shards, *usual)
    return KeyGroups(groups, min(shards, groups))


def key_groups_of(plan: PhysicalPlan, asked: int | None, shards: int, queries: int = 1) -> int:
    """How many key groups the state of a query is kept in, that runs with so many others."""
    # With a target the controller works in each key group, on what all of them report. Cut by rows, a join has in each
    # copies of what others have: 16 do three times the work of one, 4 half as much again. By place it is two thirds
    # more, and a fifth.
    few = type(plan.quality) in FAMILIES or bool(plan.partitioning.rates)
    usual = FEW_KEY_GROUPS if few else KEY_GROUPS
    # Many queries keep all tasks busy with fewer.
    return asked or max(usual // queries, shards)


class Started:
    """All that it takes to start a set, again and again on one checkpoint."""

    def __init__(
        self,
        stated: Queries,
        log: ControlLog,
        cut: KeyGroups,
        folder: str,
        when: dict[str, Any],
        name: str | None,
        foreach: ForEachSet | None,
        take: Take | None,
        fence: Fence,
    ) -> None:
        self.stated, self.log, self.cut = stated, log, cut
        self._folder, self._when, self._name = folder, when, name
        self._foreach, self._take, self._fence = foreach, take, fence
        self._writers: dict[str, Writers] = {}
        self.lock = threading.RLock()
        """Held by whoever reads or adds messages."""
        self._warner = Warner(several=True)
        self.tapped = False
        """Whether rows of sources come to the driver with what a micro-batch emits."""
        self.reports_latency = False
        """Whether shards say how long results have waited, for a report of the whole run."""
        self.what = _what(stated)
        """What users call it."""
        self.history: Kept | None = None
        """What goes before the streams."""
        self.all_announced = threading.Event()
        """Set once a micro-batch has ended, and all of the history is announced."""

    def past(self, given: History | None) -> Kept | None:
        """The history of the checkpoint, which its first start has cut."""
        if not self.log.is_new:
            if given is not None and not self.log.beginning.history:
                raise UsageError(
                    "this checkpoint was begun without a history, and its streams are under way; use a new checkpoint"
                    " folder"
                )
            return kept_in(self._history_folder()) if self.log.beginning.history else None
        if given is None:
            return None
        reads = self.stated.columns_of(self.cut)
        slack = max(given.slack(plan.quality) for plan in self.stated.plans.values())
        time, unit = self.stated.time, self.stated.unit
        return write_pieces(self._history_folder(), given, self.stated.frames, reads, time, unit, self.cut.tasks, slack)

    def _history_folder(self) -> At:
        found = location_of(self.stated.spark, f"{self._folder}/{HISTORY}")
        if found is None:
            raise UsageError("history needs a session of this process, not Spark Connect")
        return found

    def first_piece(self) -> list[Message]:
        """What says that a history begins; that it is over, where it has no rows."""
        if self.history is None:
            return []
        return [self._piece(0)] if self.history.cut.pieces else [Message(LIVE)]

    def _piece(self, number: int) -> Message:
        assert self.history is not None, "there is a piece"
        return Message(PIECE, piece=number, reached=self.history.cut.reached(number), slack=self.history.slack)

    @property
    def in_history(self) -> bool:
        """Whether a history is read first."""
        return self.log.in_history

    @property
    def reads_last(self) -> bool:
        """Whether all pieces of the history have been announced, so that a start ends when it has read them."""
        return self.history is not None and self.in_history and self.log.pieces == self.history.cut.pieces

    def begin_live(self) -> None:
        """The history has been read: the next start reads the streams."""
        with self.lock:
            self.log.say(Message(LIVE))
        assert self.history is not None, "there was one"
        self.history.remove()

    def _then_announce(self, take: Take) -> Take:
        """Take a micro-batch, and announce what is read next."""

        def taken(frame: DataFrame, number: int) -> None:
            take(frame, number)
            with self.lock:
                if self.reads_last:
                    self.all_announced.set()
                else:
                    self.log.say(self._piece(self.log.pieces))

        return taken

    def _stated(self, name: str, text: str) -> Stated:
        known, plan = self.log.queries.get(name), self.stated.plan(name, text)
        groups = min(self.cut.groups, key_groups_of(plan, None, self.cut.tasks, len(self.stated.texts)))
        if known is not None:
            groups, shared = known.groups or self.cut.groups, known.shared
        elif self.stated.alone:
            groups, shared = self.cut.groups, False
        else:
            plans = self._plans()
            # Who shares its tuples has no history of its own.
            shared = self.history is None and self.stated.is_shared(plan, plans)
            if shared:
                groups = self._groups_alike(plan, groups, plans)
        return Stated(text, self.stated.member(name, 0, plan, self.cut, groups, shared).structure, groups, shared)

    def _groups_alike(self, plan: PhysicalPlan, groups: int, plans: list[PhysicalPlan]) -> int:
        """Key groups of a query that is hosted with others: as many as those have."""
        terms, stated = self.stated.terms, self.stated
        for one in self.log.queries.values():
            if one.shared and terms.of(stated.plan(one.name, one.text)) == terms.of(plan):
                return one.groups or self.cut.groups
        alike = [key_groups_of(one, None, self.cut.tasks, len(stated.texts)) for one in terms.alike(plan, plans)]
        return min(groups, *alike) if alike else groups

    def _plans(self) -> list[PhysicalPlan]:
        """Those of all queries that there are, and that a program states."""
        known = {one.name: one.text for one in self.log.queries.values()}
        return [self.stated.plan(name, text) for name, text in {**known, **self.stated.texts}.items()]

    def changes_of_start(self) -> list[Message]:
        """What this start adds to what was said before."""
        stated = {name: self._stated(name, text) for name, text in self.stated.texts.items()}
        return changes_of_start(self.log.messages, stated)

    def adding(self, name: str, text: str) -> Message:
        """What says that one more query begins."""
        self.check_timed(name, self.stated.plan(name, text))
        stated = self._stated(name, text)
        return Message(
            ADD, query=name, text=text, structure=stated.structure, groups=stated.groups, shared=stated.shared
        )

    @property
    def is_timed(self) -> bool:
        """Whether silence is timed by the clock on the wall: the first start decides."""
        if not self.log.is_new:
            return self.log.beginning.timed
        return any(map(self._needs_clock, self.stated.plans.values()))

    def _needs_clock(self, plan: PhysicalPlan) -> bool:
        return plan.options.idle_timeout is not None and not self.stated.recorded

    def check_timed(self, name: str, plan: PhysicalPlan) -> None:
        """Refuse a query that needs the clock on the wall in a set that was begun without it."""
        if self._needs_clock(plan) and not self.is_timed:
            raise UsageError(
                f"query {name} has an idle_timeout, and the set was begun without a query that has one; use a new"
                " checkpoint folder"
            )

    def write_to(self, query: Known, given: Sinks | None, new: bool) -> None:
        """Direct the outputs of a query to sinks; a folder with rows of another run is refused where it is new."""
        if given is None:
            if self._foreach is None and not self.stated.alone:
                raise UsageError(f"query {query.name}: say where its rows go, as in sinks={{{query.name!r}: 'folder'}}")
            return
        writers = writers_for(query.name, self.stated.plan(query.name, query.text), given)
        self._refuse_shared(query.name, writers)
        if new:
            with one_sentence():
                for what, writer in writers.items():
                    writer.refuse_other_runs(self.stated.spark, label_of(what, query.name))
        self._writers[query.name] = writers

    def _refuse_shared(self, name: str, writers: Writers) -> None:
        """Two outputs would replace the rows of each other in one folder."""
        taken = {
            one.folder: label_of(what, other)
            for other, mine in self._writers.items()
            if other != name
            for what, one in mine.items()
        }
        for what, one in writers.items():
            if one.folder is not None and one.folder in taken:
                raise UsageError(
                    f"{label_of(what, name)}: {one.folder!r} is the folder for {taken[one.folder]}; name another"
                )
            taken[one.folder] = label_of(what, name)

    def members(self) -> list[Member]:
        """The queries that run now."""
        return [
            self.stated.member(
                one.name, one.generation, self.stated.plan(one.name, one.text), self.cut, one.groups, one.shared
            )
            for one in self.log.queries.values()
            if one.failure is None
        ]

    def start(self) -> StreamingQuery:
        """Start what the log says."""
        with one_sentence(), self.lock:
            members = self.members()
            writers = self._writers_of(members)
            root = state_of_checkpoint(self.stated.spark, self._folder)
            folders = folders_in(self.stated.spark, members, writers, root.folder)
            program = replace(
                self.stated.program(members, self.cut, root),
                log=self.log,
                timed=self.log.beginning.timed,
                folders=folders,
                emits_all=self._foreach is not None or self._take is not None,
                only_notes=self._take is None and not self._asks_for_rows(members, writers, folders),
                tapped=self.tapped,
                reports_latency=self.reports_latency,
                history=self.history,
                in_history=self.in_history,
            )
            take, when = self._take or self._each(members, writers, folders), self._when
            if self.stated.relations is not None:
                take = self.stated.relations.before(take)
            if self.in_history:
                take = take if self.reads_last else self._then_announce(take)
                when = trigger_of(AVAILABLE if self.reads_last else None)
            writer = program.emitted().writeStream.foreachBatch(self._fence.guarding(take)).trigger(**when)
            writer = writer.option("checkpointLocation", self._folder)
            writer = writer if self._name is None else writer.queryName(self._name)
            spark = self.stated.spark
            return started_with(spark, settings_for(spark, root.folder), lambda: self._fence.started(writer))

    def _writers_of(self, members: list[Member]) -> dict[str, Writers]:
        run = self.log.run
        return {
            one.name: {
                what: writer.of_run(run, what if one.name == ALONE else f"{one.name} {what}")
                for what, writer in self._writers.get(one.name, {}).items()
            }
            for one in members
        }

    def _asks_for_rows(
        self, members: list[Member], writers: Mapping[str, Writers], folders: Mapping[Output, Folder]
    ) -> bool:
        """Whether somebody looks at the rows once more; not where all leave by folders."""
        return self._foreach is not None or any(
            (one.key, KINDS[what]) not in folders for one in members for what in writers[one.name]
        )

    def _each(
        self, members: list[Member], writers: Mapping[str, Writers], folders: Mapping[Output, Folder]
    ) -> Callable[[DataFrame, int], None]:
        others = {
            one.name: {what: mine for what, mine in writers[one.name].items() if (one.key, KINDS[what]) not in folders}
            for one in members
        }
        asked_again = self._asks_for_rows(members, writers, folders)
        begun: list[int] = []

        def each(frame: DataFrame, number: int) -> None:
            first = not begun
            begun.append(number)
            # A start that died may have left some.
            tidy(folders.values() if first else ())
            kept = frame.persist() if asked_again else frame
            try:
                answers = answered(notes_of(kept) if asked_again else kept, members)
                failed: set[str] = set()
                if not self.stated.alone:
                    # A listener of the session warns of queries that are alone.
                    warn_of(self._warner, members, answers)
                    self._note_failures(members, failures(answers), number)
                    failed = self._failed()

                def settle(output: Output) -> None:
                    (key, kind), folder = output, folders[output]
                    files = answers[key].files.get(kind, ())
                    if key in failed:
                        withdraw(folder, files, number)
                    # The first micro-batch may have been written before, with rows that are none any more.
                    elif first or files:
                        publish(folder, files, number, again=first)

                at_once(settle, list(folders))
                if asked_again:
                    batch = batch_of(members, kept, number, answers, failed)
                    write(self.stated.spark, batch, others, first)
                    if self._foreach is not None:
                        self._foreach(batch)
            finally:
                if asked_again:
                    kept.unpersist()
                tidy(folders.values())

        return each

    def _note_failures(self, members: list[Member], failed: Mapping[str, str], number: int) -> None:
        """Report to all shards of a query that it has failed in one of them; they get it next."""
        with self.lock:
            known = self.log.queries
            news = [
                Message(FAIL, query=one.name, generation=one.generation, reason=failed[one.key], batch=number)
                for one in members
                if one.key in failed and one.name in known and known[one.name].failure is None
            ]
            if news:
                self.log.say(*news)

    def _failed(self) -> set[str]:
        """The keys of queries that have failed."""
        with self.lock:
            return {one.key for one in self.log.queries.values() if one.failure is not None}


def trigger_of(trigger: str | None) -> dict[str, Any]:
    """When micro-batches begin, in the words of Spark."""
    if trigger == AVAILABLE:
        return {"availableNow": True}
    if trigger is None:
        return {"processingTime": "0 seconds"}
    try:
        return {"processingTime": f"{parse_duration(trigger) // MILLISECOND} milliseconds"}
    except (ValueError, TypeError) as error:
        raise UsageError(f"trigger={trigger!r}: {error}, or write 'available'") from None


def fence_of(spark: SparkSession, checkpoint: str) -> Fence:
    """What keeps other drivers from a checkpoint; nothing does where only Spark can reach its folder."""
    state = location_of(spark, f"{checkpoint}/{STATE}")
    return Fence(None if state is None else store_at(state))


def checkpoint_folder(spark: SparkSession, checkpoint: str | os.PathLike[str] | None, name: str | None = None) -> str:
    """Where a query has its state: as it was given, else as the session's settings say, else in a temporary folder."""
    if checkpoint is not None:
        return os.fspath(checkpoint).rstrip("/")
    setting = spark.conf.get(CHECKPOINT_SETTING, None)
    if setting:
        return f"{setting.rstrip('/')}/{name or secrets.token_hex(8)}"
    return temporary_folder(spark, "name a folder that all machines share with checkpoint=...")
