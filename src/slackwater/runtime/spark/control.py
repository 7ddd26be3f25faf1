"""Control messages: what is said to a running query, as a stream of its own beside its inputs.

A message is a line in a text file of a folder beside the checkpoint. Spark reads the folder as it reads any stream, so
a message reaches every shard in one micro-batch, exactly once, also when that micro-batch runs again; and what was said
can be read again by the next start.

Invariant: messages are values with names, and are only added. The first one says which query the folder belongs to.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from slackwater.core.errors import UsageError
from slackwater.operators.guarded_query import STATE_VERSION
from slackwater.runtime.spark.locations import location_of
from slackwater.runtime.spark.state.checkpoint import difference
from slackwater.runtime.spark.state.pages import FORMAT
from slackwater.runtime.spark.store import Store, damaged, signed, store_at, verified

CONTROL = "slackwater-control"
"""The folder of control messages inside of the checkpoint."""
MESSAGE = f"a message of {CONTROL}"
VERSION = f"{FORMAT}.{STATE_VERSION}"
"""Of the state that this version writes: that of pages, and that of what is in them."""


@dataclass(frozen=True)
class Control:
    """One message; what it does not speak of stays as it is."""

    number: int = 0
    structure: str | None = None
    """Which query this is."""
    shards: int | None = None
    groups: int | None = None
    """Key groups that state is kept in; None where every shard is one."""
    run: str | None = None
    """The name of the checkpoint, made at random; tells its micro-batches from those of any other."""
    target: str | None = None
    """The target from now on, as a clause of the language."""
    stated: str | None = None
    """The target in the text of the query when that was said; in a query with another one it does not count."""
    end: bool = False
    """The input has ended: emit everything that is held."""
    done: bool = False
    """Everything that was held is emitted."""
    version: str | None = None
    """Of the state, as the first message has it."""

    @classmethod
    def of_json(cls, text: str) -> Control:
        """The inverse of `as_json`."""
        values = verified(text, MESSAGE)
        if "kind" in values:
            raise UsageError("this checkpoint belongs to a set of queries; use a new checkpoint folder")
        return cls(**known_fields(values, cls))

    def as_json(self) -> str:
        """As one line."""
        return signed(asdict(self))


def known_fields(values: dict[str, Any], message: Any) -> dict[str, Any]:
    """The values of a message of this class; refuses those of a later version."""
    strange = values.keys() - {one.name for one in fields(message)}
    if strange:
        raise UsageError(
            f"{MESSAGE} has a field {min(strange)} that this version of slackwater does not know; go on with the"
            " version that wrote it, or use a new checkpoint folder"
        )
    return values


def combined(messages: Sequence[Control], stated: str) -> tuple[str | None, bool]:
    """The messages of one micro-batch as one, in a query whose text states this target: the last target that was set,
    and whether the input has ended.

    >>> messages = [Control(2, target="NO WAIT", stated="COMPLETE"), Control(1, target="DELAY 1 S", stated="COMPLETE")]
    >>> combined(messages, stated="COMPLETE"), combined(messages, stated="NO WAIT")
    (('NO WAIT', False), (None, False))
    """
    ordered = sorted(messages, key=lambda message: message.number)
    targets = [message.target for message in ordered if message.target is not None and message.stated == stated]
    return (targets[-1] if targets else None), any(message.end for message in ordered)


class Message(Protocol):
    """What a log holds."""

    @property
    def number(self) -> int: ...

    @property
    def version(self) -> str | None: ...

    def as_json(self) -> str: ...


AnyMessage = TypeVar("AnyMessage", bound=Message)


class MessageLog(Generic[AnyMessage]):
    """Messages in a folder that Spark can read."""

    def __init__(self, spark: SparkSession, folder: str, of_json: Callable[[str], AnyMessage]) -> None:
        self._spark, self.folder, self._of_json = spark, folder, of_json
        found = location_of(spark, folder)
        self._store = None if found is None else store_at(found)
        """The folder, where Python reaches it: a job of Spark to write one line costs a start a second."""
        self.here = Path(found) if isinstance(found, str) else None
        """The folder, where it is on this machine."""
        self.messages = self._read()
        if self.messages:
            check_version(self.messages[0].version, folder.removesuffix(f"/{CONTROL}"))

    def _read(self) -> list[AnyMessage]:
        if self._store is not None:
            return read_messages(self._store, self._of_json)
        try:
            lines = self._spark.read.text(self.folder).collect()
        except AnalysisException as error:
            if error.getCondition() != "PATH_NOT_FOUND":
                raise
            return []
        return in_order([self._of_json(line.value) for line in lines], self.folder)

    @property
    def is_new(self) -> bool:
        """Whether nothing was ever started from this checkpoint."""
        return not self.messages

    def numbered(self, message: AnyMessage, number: int) -> AnyMessage:
        """A message with its place in the log."""
        raise NotImplementedError

    def say(self, *messages: AnyMessage) -> None:
        """Add messages, all of them at once."""
        numbered = [self.numbered(one, number) for number, one in enumerate(messages, len(self.messages))]
        lines = [one.as_json() for one in numbered]
        if self._store is not None:
            text = "".join(f"{line}\n" for line in lines)
            self._store.write(f"{secrets.token_hex(8)}.txt", text.encode(), durable=True)
        else:
            frame = self._spark.createDataFrame([(line,) for line in lines], "value string")
            frame.coalesce(1).write.mode("append").text(self.folder)
        self.messages += numbered

    def stream(self, labels: Sequence[int]) -> DataFrame:
        """The messages as lines of the packed stream, one a shard."""
        lines = self._spark.readStream.schema("value string").text(self.folder)
        return lines.select(
            fn.explode(fn.array(*(fn.lit(label) for label in labels))).alias("shard"),
            fn.lit(None).cast("int").alias("stream"),
            fn.lit(0).cast("long").alias("part"),
            fn.col("value").alias("header"),
            fn.lit(None).cast("binary").alias("block"),
            fn.lit(None).cast("binary").alias("partials"),
            fn.lit(None).cast("binary").alias("rejected_rows"),
        )


def read_messages(store: Store, of_json: Callable[[str], AnyMessage]) -> list[AnyMessage]:
    """The messages in the files of a folder, in their order."""
    found: list[AnyMessage] = []
    for name in store.names():
        lines = (store.read(name) or b"").splitlines()
        if not lines:
            raise damaged(store.path(name), "it is empty")
        for line in lines:
            verified(line, store.path(name))
            found.append(of_json(line.decode()))
    return in_order(found, store.root)


def in_order(messages: Sequence[AnyMessage], folder: str) -> list[AnyMessage]:
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


class ControlLog(MessageLog[Control]):
    """The messages of one query."""

    def __init__(self, spark: SparkSession, folder: str) -> None:
        super().__init__(spark, folder, Control.of_json)

    @property
    def shards(self) -> int | None:
        """How many shards the query has; None before it is known."""
        return self.messages[0].shards if self.messages else None

    @property
    def run(self) -> str:
        """The name of the checkpoint."""
        return (self.messages[0].run if self.messages else None) or ""

    @property
    def ending(self) -> bool:
        """Whether the end of the input was said."""
        return any(message.end for message in self.messages)

    @property
    def groups(self) -> int | None:
        """How many key groups its state is kept in; None before it is known."""
        return self.messages[0].groups if self.messages else None

    def begin(self, structure: str, shards: int, groups: int | None = None) -> None:
        """Say which query this is; refuses a folder that belongs to another one, or to one that has ended."""
        for message in self.messages:
            refusal = None if message.structure is None else difference(message.structure, structure)
            if refusal is not None:
                raise UsageError(refusal)
            if message.done:
                raise UsageError("this query was flushed and has ended; use a new checkpoint folder")
        if not self.messages:
            run = secrets.token_hex(8)
            self.say(Control(structure=structure, shards=shards, groups=groups, run=run, version=VERSION))

    def numbered(self, message: Control, number: int) -> Control:
        """A message with its place in the log."""
        return replace(message, number=number)

    def say_target(self, target: str, stated: str) -> None:
        """Set a target, unless it is the one that was set last."""
        message = Control(target=target, stated=stated)
        targets = [one for one in self.messages if one.target is not None]
        if not targets or replace(targets[-1], number=0) != message:
            self.say(message)

    def say_end(self) -> None:
        """Say that the input has ended."""
        self.say(Control(end=True))

    def say_done(self) -> None:
        """Say that everything which was held is emitted."""
        self.say(Control(done=True))
