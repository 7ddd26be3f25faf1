"""What is said to running queries: which there are, which are paused, which have failed, their targets, and the end of
the input, as a stream of its own beside their inputs.

A message is a line in a text file of a folder beside the checkpoint. Spark reads the folder as it reads any stream, so
a message reaches every shard in one micro-batch, exactly once, also when that micro-batch runs again; and what was said
can be read again by the next start.

Invariant: messages are only added, each is heard exactly once, and what is in force follows from them alone, in their
order. A query is known by its name and by the number of the message that added it, so one that is dropped and added
again under the same name begins anew. Of what a program states when it starts and what was said while it ran the last
word counts: a query that was dropped stays dropped, one that was added stays, until a start states something else.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from slackwater.core.errors import UsageError
from slackwater.operators.query_kernel import STATE_VERSION
from slackwater.runtime.spark.locations import location_of
from slackwater.runtime.spark.members import key_of, named
from slackwater.runtime.spark.state.checkpoint import difference
from slackwater.runtime.spark.state.page_files import FORMAT
from slackwater.runtime.spark.store import Store, damaged, signed, store_at, verified
from slackwater.runtime.spark.versions import condition_of

CONTROL = "slackwater-control"
"""The folder of control messages inside of the checkpoint."""
MESSAGE = f"a message of {CONTROL}"
VERSION = f"{FORMAT}.{STATE_VERSION}"
"""Of the state that this version writes: that of pages, and that of what is in them."""
BEGIN, ADD, CHANGE, DROP, PAUSE, RESUME, TARGET, FAIL, PIECE, LIVE, END, DONE = (
    "begin", "add", "change", "drop", "pause", "resume", "target", "fail", "piece", "live", "end", "done",
)  # fmt: skip


@dataclass(frozen=True)
class Message:
    """One message; which fields it has depends on its kind."""

    kind: str
    number: int = 0
    query: str | None = None
    generation: int | None = None
    """Of the query it is about; of an ADD the number of the message itself."""
    text: str | None = None
    structure: str | None = None
    groups: int | None = None
    """Key groups: of the beginning all that there are, of an ADD those of the query."""
    stated: bool = False
    """Whether a program has said so at its start, by the queries that it states."""
    sinks: Mapping[str, str] | None = None
    """Of a query that was added while others ran: folders, by what is written there."""
    target: str | None = None
    reason: str | None = None
    batch: int | None = None
    """Of a failure: the micro-batch from which on nothing is emitted."""
    shards: int | None = None
    run: str | None = None
    """Of the beginning: the name of the checkpoint, made at random; tells its micro-batches from those of any other."""
    alone: bool = False
    """Of the beginning: whether this is one query, or a set that others may be added to."""
    timed: bool = False
    """Of the beginning: whether silence is timed by the clock on the wall."""
    version: str | None = None
    """Of the beginning: that of the state."""
    shared: bool = False
    """Of an ADD: whether the query is hosted with others that read the same streams on the same terms."""
    history: bool = False
    """Of the beginning: whether a history goes before the streams; LIVE says that it has been read."""
    piece: int | None = None
    """Of a PIECE of the history: its number."""
    reached: Mapping[str, int] | None = None
    """Of a PIECE, by stream: up to where the history is whole when it has been read."""
    slack: int | None = None
    """Of a PIECE: that which the streams begin with."""

    @classmethod
    def of_json(cls, text: str | bytes, file: object = MESSAGE) -> Message:
        """The inverse of `as_json`; `file` is what to name where it is not what was written."""
        return cls(**_known_fields(verified(text, file)))

    def as_json(self) -> str:
        return signed({name: value for name, value in asdict(self).items() if value is not None and value is not False})

    @property
    def key(self) -> str | None:
        return None if self.query is None or self.generation is None else key_of(self.query, self.generation)


def _known_fields(values: dict[str, Any]) -> dict[str, Any]:
    strange = values.keys() - {one.name for one in fields(Message)}
    if strange or "kind" not in values:
        raise UsageError(
            f"{MESSAGE} has {f'a field {min(strange)}' if strange else 'no kind'}, so it is of another version of"
            " slackwater; go on with the version that wrote it, or use a new checkpoint folder"
        )
    return values


@dataclass(frozen=True)
class Known:
    """A query as the messages so far have it."""

    name: str
    generation: int
    text: str
    structure: str
    groups: int | None
    stated: bool
    paused: bool = False
    failure: str | None = None
    sinks: Mapping[str, str] | None = None
    target: str | None = None
    """What was set last while it ran."""
    target_of: str | None = None
    """The target in its text when that was said; with another one it does not count."""
    shared: bool = False
    """Whether it is hosted with others."""

    @property
    def key(self) -> str:
        return key_of(self.name, self.generation)

    def target_now(self, stated: str) -> str:
        """The target in force, where its text states this one."""
        return self.target if self.target is not None and self.target_of == stated else stated


@dataclass(frozen=True)
class Stated:
    """A query as a program states it at its start."""

    text: str
    structure: str
    groups: int | None = None
    shared: bool = False


def in_force(messages: Iterable[Message]) -> dict[str, Known]:
    """The queries that there are after these messages.

    >>> said = [Message(ADD, 1, "a", 1, "SELECT 1", "", stated=True), Message(PAUSE, 2, "a", 1)]
    >>> in_force(said)["a"].paused, in_force([*said, Message(DROP, 3, "a", 1)])
    (True, {})
    """
    known: dict[str, Known] = {}
    for one in messages:
        if one.query is None:
            continue
        if one.kind == ADD:
            known[one.query] = Known(
                one.query, one.number, one.text or "", one.structure or "", one.groups, one.stated, sinks=one.sinks,
                shared=one.shared,
            )  # fmt: skip
        before = known.get(one.query)
        if before is None or before.generation != one.generation:
            continue
        if one.kind == DROP:
            del known[one.query]
        elif one.kind == CHANGE:
            known[one.query] = replace(before, text=one.text or "", stated=one.stated)
        elif one.kind in (PAUSE, RESUME):
            known[one.query] = replace(before, paused=one.kind == PAUSE)
        elif one.kind == TARGET:
            known[one.query] = replace(before, target=one.target, target_of=one.text)
        elif one.kind == FAIL:
            known[one.query] = replace(before, failure=one.reason)
    return known


def last_stated(messages: Iterable[Message]) -> dict[str, str]:
    """Every text that some start has stated last under a name."""
    texts: dict[str, str] = {}
    for one in messages:
        if one.stated and one.query is not None:
            if one.text is None:
                del texts[one.query]
            else:
                texts[one.query] = one.text
    return texts


def changes_of_start(messages: Sequence[Message], queries: Mapping[str, Stated]) -> list[Message]:
    """What a start with these queries adds to what was said before; refuses a query that its state does not fit."""
    known, stated, changes = in_force(messages), last_stated(messages), []
    for name, one in queries.items():
        before = known.get(name)
        added = Message(
            ADD, query=name, text=one.text, structure=one.structure, groups=one.groups, stated=True, shared=one.shared
        )
        if before is None:
            # One that was dropped while the set ran stays dropped.
            if stated.get(name) != one.text:
                changes.append(added)
        elif before.failure is not None and before.text != one.text:
            changes += [Message(DROP, query=name, generation=before.generation), added]
        else:
            refusal = difference(before.structure, one.structure)
            if refusal is not None:
                raise UsageError(f"{named(name)}{refusal}")
            if not before.stated or before.text != one.text:
                changes.append(Message(CHANGE, query=name, generation=before.generation, text=one.text, stated=True))
    for name, there in known.items():
        if there.stated and name not in queries:
            changes.append(Message(DROP, query=name, generation=there.generation, stated=True))
    return changes


class ControlLog:
    """The messages of one checkpoint, in a folder that Spark can read."""

    def __init__(self, spark: SparkSession, folder: str) -> None:
        self._spark, self.folder = spark, folder
        found = location_of(spark, folder)
        self._store = None if found is None else store_at(found)
        """The folder, where Python reaches it: a job of Spark to write one line costs a start a second."""
        self.here = Path(found) if isinstance(found, str) else None
        """The folder, where it is on this machine."""
        self.messages = self._read()
        if self.messages:
            check_version(self.messages[0].version, folder.removesuffix(f"/{CONTROL}"))

    def _read(self) -> list[Message]:
        if self._store is not None:
            return read_messages(self._store)
        try:
            lines = self._spark.read.text(self.folder).collect()
        except AnalysisException as error:
            if condition_of(error) != "PATH_NOT_FOUND":
                raise
            return []
        return in_order([Message.of_json(line.value) for line in lines], self.folder)

    @property
    def is_new(self) -> bool:
        """Whether nothing was ever started from this checkpoint."""
        return not self.messages

    @property
    def beginning(self) -> Message:
        """The first message; one that says nothing where there is none yet."""
        return self.messages[0] if self.messages else Message(BEGIN)

    @property
    def run(self) -> str:
        return self.beginning.run or ""

    @property
    def in_history(self) -> bool:
        """Whether a history goes before the streams, and has not been read yet."""
        return self.beginning.history and not any(one.kind == LIVE for one in self.messages)

    @property
    def pieces(self) -> int:
        """How many pieces of the history have been announced."""
        return sum(one.kind == PIECE for one in self.messages)

    @property
    def ending(self) -> bool:
        return any(one.kind == END for one in self.messages)

    @property
    def queries(self) -> dict[str, Known]:
        return in_force(self.messages)

    def check_kind(self, alone: bool) -> None:
        """Refuse the checkpoint of one query for a set, that of a set for one query, and what has ended."""
        if self.is_new:
            return
        if self.beginning.alone != alone:
            other = "a single query" if self.beginning.alone else "a set of queries"
            raise UsageError(f"this checkpoint belongs to {other}; use a new checkpoint folder")
        if any(one.kind == DONE for one in self.messages):
            what = "query" if alone else "set"
            raise UsageError(f"this {what} was flushed and has ended; use a new checkpoint folder")

    def opening(self, shards: int, groups: int, alone: bool, timed: bool, history: bool) -> list[Message]:
        """What says that it begins, where it does."""
        if not self.is_new:
            return []
        run = secrets.token_hex(8)
        begin = Message(BEGIN, shards=shards, groups=groups, run=run, alone=alone, timed=timed, version=VERSION)
        return [replace(begin, history=history)]

    def numbered(self, messages: Iterable[Message]) -> list[Message]:
        """Messages with their places in the log, if they are added now."""
        return [
            replace(one, number=number, generation=number if one.kind == ADD else one.generation)
            for number, one in enumerate(messages, len(self.messages))
        ]

    def say(self, *messages: Message) -> None:
        numbered = self.numbered(messages)
        lines = [one.as_json() for one in numbered]
        if self._store is not None:
            text = "".join(f"{line}\n" for line in lines)
            self._store.write(f"{secrets.token_hex(8)}.txt", text.encode(), durable=True)
        else:
            frame = self._spark.createDataFrame([(line,) for line in lines], "value string")
            frame.coalesce(1).write.mode("append").text(self.folder)
        self.messages += numbered

    def lines(self) -> DataFrame:
        """The messages as a stream, in the column `value`."""
        return self._spark.readStream.schema("value string").text(self.folder)

    @staticmethod
    def stream(lines: DataFrame, tasks: int) -> DataFrame:
        """The messages as lines of the packed stream, one a task."""
        return for_every_task(lines, tasks, readers=None, part=fn.lit(0).cast("long"), header=fn.col("value"))


def for_every_task(frame: DataFrame, tasks: int, readers: str | None, part: Any, header: Any) -> DataFrame:
    """Rows as lines of the packed stream that all tasks hear."""
    nothing = fn.lit(None).cast("binary")
    return frame.select(
        fn.explode(fn.array(*(fn.lit(task) for task in range(tasks)))).alias("shard"),
        fn.lit(readers).cast("string").alias("readers"),
        part.alias("part"),
        header.cast("string").alias("header"),
        nothing.alias("block"),
        nothing.alias("partials"),
        nothing.alias("rejected_rows"),
    )


def read_messages(store: Store) -> list[Message]:
    """The messages in the files of a folder, in their order."""
    found: list[Message] = []
    for name in store.names():
        lines = (store.read(name) or b"").splitlines()
        if not lines:
            raise damaged(store.path(name), "it is empty")
        found += (Message.of_json(line, store.path(name)) for line in lines)
    return in_order(found, store.root)


def in_order(messages: Sequence[Message], folder: str) -> list[Message]:
    """Messages by their numbers, which must be all that there are."""
    found = sorted(messages, key=lambda message: message.number)
    for number, one in enumerate(found):
        if one.number != number:
            raise damaged(folder, f"message {number} is {'not there' if one.number > number else 'there twice'}")
    return found


def check_version(found: str | None, checkpoint: str) -> None:
    """Refuse a checkpoint whose state another version has written."""
    if found != VERSION:
        raise UsageError(
            f"{checkpoint} has state of version {found or 'unknown'}, and this version of slackwater reads {VERSION};"
            " go on with the version of slackwater that wrote it, or use a new checkpoint folder"
        )
