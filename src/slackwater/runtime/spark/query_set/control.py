"""What is said to a set of queries: which queries there are, which are paused, which have failed, and their targets.

Invariant: messages are only added, each is heard exactly once, and what is in force follows from them alone, in their
order. A query is known by its name and by the number of the message that added it, so one that is dropped and added
again under the same name begins anew. Of what a program states when it starts and what was said while it ran the last
word counts: a query that was dropped stays dropped, one that was added stays, until a start states something else.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from pyspark.sql import SparkSession

from slackwater.core.errors import UsageError
from slackwater.runtime.spark.control import MESSAGE, VERSION, MessageLog, known_fields
from slackwater.runtime.spark.query_set.members import key_of
from slackwater.runtime.spark.state.checkpoint import difference
from slackwater.runtime.spark.store import signed, verified

BEGIN, ADD, CHANGE, DROP, PAUSE, RESUME, TARGET, FAIL, END, DONE = (
    "begin", "add", "change", "drop", "pause", "resume", "target", "fail", "end", "done",
)  # fmt: skip


@dataclass(frozen=True)
class SetMessage:
    """One message; which fields it has depends on its kind."""

    kind: str
    number: int = 0
    query: str | None = None
    generation: int | None = None
    """Of the query it is about; of an ADD the number of the message itself."""
    text: str | None = None
    structure: str | None = None
    stated: bool = False
    """Whether a program has said so at its start, by the queries that it states."""
    sinks: Mapping[str, str] | None = None
    """Of a query that was added while the set ran: folders, by what is written there."""
    target: str | None = None
    reason: str | None = None
    batch: int | None = None
    """Of a failure: the micro-batch from which on nothing is emitted."""
    shards: int | None = None
    run: str | None = None
    beats: bool = False
    """Of the beginning: whether silence is timed by the clock on the wall."""
    version: str | None = None
    """Of the beginning: that of the state."""

    @classmethod
    def of_json(cls, text: str) -> SetMessage:
        """The inverse of `as_json`."""
        values = verified(text, MESSAGE)
        if "kind" not in values:
            raise UsageError("this checkpoint belongs to a single query; use a new checkpoint folder")
        return cls(**known_fields(values, cls))

    def as_json(self) -> str:
        """As one line."""
        return signed({name: value for name, value in asdict(self).items() if value is not None})

    @property
    def key(self) -> str | None:
        """The key of the query it is about."""
        return None if self.query is None or self.generation is None else key_of(self.query, self.generation)


@dataclass(frozen=True)
class Known:
    """A query as the messages so far have it."""

    name: str
    generation: int
    text: str
    structure: str
    stated: bool
    paused: bool = False
    failure: str | None = None
    failed_at: int | None = None
    sinks: Mapping[str, str] | None = None
    target: str | None = None
    """What was set last while it ran."""
    target_of: str | None = None
    """The target in its text when that was said; with another one it does not count."""

    @property
    def key(self) -> str:
        """See `Member.key`."""
        return key_of(self.name, self.generation)

    def target_now(self, stated: str) -> str:
        """The target in force, where its text states this one."""
        return self.target if self.target is not None and self.target_of == stated else stated


def in_force(messages: Iterable[SetMessage]) -> dict[str, Known]:
    """The queries that there are after these messages.

    >>> said = [SetMessage(ADD, 1, "a", 1, "SELECT 1", "", True), SetMessage(PAUSE, 2, "a", 1)]
    >>> in_force(said)["a"].paused, in_force([*said, SetMessage(DROP, 3, "a", 1)])
    (True, {})
    """
    known: dict[str, Known] = {}
    for one in messages:
        if one.query is None:
            continue
        if one.kind == ADD:
            known[one.query] = Known(
                one.query, one.number, one.text or "", one.structure or "", one.stated, sinks=one.sinks
            )
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
            known[one.query] = replace(before, failure=one.reason, failed_at=one.batch)
    return known


def last_stated(messages: Iterable[SetMessage]) -> dict[str, str]:
    """Every text that some start has stated last under a name."""
    texts: dict[str, str] = {}
    for one in messages:
        if one.stated and one.query is not None:
            if one.text is None:
                del texts[one.query]
            else:
                texts[one.query] = one.text
    return texts


def changes_of_start(
    messages: Sequence[SetMessage], texts: Mapping[str, str], structures: Mapping[str, str]
) -> list[SetMessage]:
    """What a start with these queries adds to what was said before; refuses a query that its state does not fit."""
    known, stated, changes = in_force(messages), last_stated(messages), []
    for name, text in texts.items():
        before = known.get(name)
        added = SetMessage(ADD, query=name, text=text, structure=structures[name], stated=True)
        if before is None:
            # One that was dropped while the set ran stays dropped.
            if stated.get(name) != text:
                changes.append(added)
        elif before.failure is not None and before.text != text:
            changes += [SetMessage(DROP, query=name, generation=before.generation), added]
        else:
            refusal = difference(before.structure, structures[name])
            if refusal is not None:
                raise UsageError(f"query {name}: {refusal}")
            if not before.stated or before.text != text:
                changes.append(SetMessage(CHANGE, query=name, generation=before.generation, text=text, stated=True))
    for name, one in known.items():
        if one.stated and name not in texts:
            changes.append(SetMessage(DROP, query=name, generation=one.generation, stated=True))
    return changes


class SetLog(MessageLog[SetMessage]):
    """The messages of one set, in a folder that Spark can read."""

    def __init__(self, spark: SparkSession, folder: str) -> None:
        super().__init__(spark, folder, SetMessage.of_json)

    @property
    def shards(self) -> int | None:
        """How many shards the set has; None before it is known."""
        return self.messages[0].shards if self.messages else None

    @property
    def beats(self) -> bool:
        """Whether the set was begun with a query that times silence."""
        return bool(self.messages) and self.messages[0].beats

    @property
    def run(self) -> str:
        """The name of the checkpoint, made at random."""
        return (self.messages[0].run if self.messages else None) or ""

    @property
    def ending(self) -> bool:
        """Whether the end of the input was said."""
        return any(one.kind == END for one in self.messages)

    @property
    def queries(self) -> dict[str, Known]:
        """The queries that there are now."""
        return in_force(self.messages)

    def begin(self, shards: int, beats: bool) -> None:
        """Say that the set begins, where it does; one that has ended is refused."""
        if any(one.kind == DONE for one in self.messages):
            raise UsageError("this set was flushed and has ended; use a new checkpoint folder")
        if not self.messages:
            self.say(SetMessage(BEGIN, shards=shards, run=secrets.token_hex(8), beats=beats, version=VERSION))

    def numbered(self, message: SetMessage, number: int) -> SetMessage:
        """A message with its place in the log."""
        return replace(message, number=number, generation=number if message.kind == ADD else message.generation)

    def say_end(self) -> None:
        """Say that the input has ended."""
        self.say(SetMessage(END))

    def say_done(self) -> None:
        """Say that everything which was held is emitted."""
        self.say(SetMessage(DONE))
