"""Joins of two streams that give rows for what has no partner: outer, semi and anti joins.

The window join makes the pairs. Beside it stand the preserved tuples that have none yet and whose window is open; every
tuple carries a mark, a number in a row of its own, by which a pair says whose wait is over. A tuple that still waits
when the watermark has passed the last instant at which a partner may lie has none, for good: its row leaves with that
instant as its timestamp, and nulls in the place of the partner.

Invariant: rows leave in timestamp order, each once, unless the pairs leave on arrival: then rows without partner leave
in the epoch in which it is sure that they have none. An outer join gives the pairs of the window join and a row for
every preserved tuple in time that is in none of them; a semi join gives each such tuple with the timestamp of its first
pair; an anti join those that are in none. A late tuple gives no row of its own: it may be a partner of later ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from slackwater.core.batch import TS, Flags, Words
from slackwater.core.join_kinds import JoinKind
from slackwater.core.quality import Quality
from slackwater.core.schema import NULL_WORD
from slackwater.core.state import StateUpdate
from slackwater.core.time import BEFORE_ALL, format_duration
from slackwater.disorder.meters import LedgerTerms
from slackwater.disorder.ordered_batch import OrderedBatch
from slackwater.expressions.compile import Filter, compile_filter
from slackwater.expressions.tree import Expr
from slackwater.operators.array_checkpoint import ArrayCheckpoint
from slackwater.operators.contract import PLAIN, BuildContext, KeyClass, NullKeys, Operator, OperatorSpec
from slackwater.operators.description import Described, Detail, Shown
from slackwater.operators.join.absence_ledger import AbsenceLedger, Closed, ClosingLog
from slackwater.operators.join.operator import JoinOperator, WindowJoin
from slackwater.operators.output import Output
from slackwater.operators.state_size import RESULTS, WindowContents

ABSENT = "absent"
"""The namespace of the marks of those that wait."""
NO_KEY = "a row without partner leaves once, and without a key any two tuples of a window may be partners"


@dataclass(frozen=True)
class OuterJoin(OperatorSpec):
    """Spec: the join that makes the pairs, and what becomes of tuples without partner.

    Output columns: those of the join; counted: none, but a line per row.
    """

    made_by: WindowJoin
    kind: JoinKind
    nulls: tuple[int, ...]
    """The word of a null in every column of the join."""
    rows: int
    kept: tuple[Expr, ...] = ()
    """What must be true of a row, or it is left out."""
    names: tuple[tuple[int, str], ...] = ()
    """By which of its columns, as (stream, name), `kept` calls every column of the join."""
    counted: bool = False
    """Whether rows are only counted."""
    closing: tuple[tuple[int, int, bool], ...] = ()
    """Times that tuples of the first input carry, by their rows, and how much newer than these a partner may be; and
    whether there is none where such a time is null. A window ends with the first of them, not before its tuple."""

    @property
    def streams(self) -> int:
        return 2

    @property
    def count_only(self) -> bool:
        return self.counted

    @property
    def needs_order(self) -> bool:
        return self.made_by.needs_order

    @property
    def at_once(self) -> bool:
        return self.made_by.at_once

    def arriving(self) -> OuterJoin:
        return replace(self, made_by=self.made_by.arriving())

    def corrected(self, reach: int) -> OuterJoin | None:
        # A tuple of a semi join that has left would have to leave again, with an earlier partner.
        join = None if self.kind is JoinKind.SEMI else self.made_by.corrected(reach)
        return None if join is None else replace(self, made_by=join)

    @property
    def windows_joined(self) -> tuple[int, ...]:
        return self.made_by.windows

    @property
    def state_identity(self) -> object:
        return self.made_by.state_identity, self.kind, self.rows

    def learning_key(self, quality: Quality) -> str:
        return self.made_by.learning_key(quality)

    @property
    def one_shard(self) -> str | None:
        return self.made_by.one_shard or (None if self.made_by.key_classes else NO_KEY)

    @property
    def shard_rows(self) -> tuple[tuple[int, ...], ...] | None:
        return self.made_by.shard_rows

    @property
    def key_classes(self) -> list[KeyClass]:
        return self.made_by.key_classes

    @property
    def null_keys(self) -> NullKeys:
        return NullKeys.PASS

    @property
    def absent_columns(self) -> frozenset[int]:
        return frozenset(at for at, (stream, _) in enumerate(self.made_by.emit) if not self._always_there(stream))

    def _always_there(self, stream: int) -> bool:
        """Whether every row has a tuple of this stream."""
        return not self.kind.lonely or not self.kind.preserved[1 - stream]

    def describe(self, shown: Shown) -> Described:
        said = self.made_by.describe(shown)
        first, second = shown.aliases
        label = f"{self.kind.value} window join of {first} and {second}"
        details = [Detail(line) for line in self._leaving(shown.aliases)]
        attributes = said.attributes | {"kind": self.kind.value}
        return Described(label, attributes, (*details, *said.details))

    def _leaving(self, aliases: tuple[str, ...]) -> Iterator[str]:
        for stream, preserved in enumerate(self.kind.preserved):
            if not preserved:
                continue
            mine, other = aliases[stream], aliases[1 - stream]
            if self.kind.lonely:
                size = format_duration(self.made_by.windows[stream])
                after = f"at most {size}" if self.closing and stream == 0 else size
                leaves = f"leaves when its window has passed, {after} after it"
                yield f"a tuple of {mine} without partner in {other} {leaves}"
            else:
                yield f"a tuple of {mine} leaves once, with its first partner in {other}"

    @property
    def marked(self) -> WindowJoin:
        """The join over tuples that carry a mark; the marks of both members follow the columns."""
        marks = tuple((stream, self.rows) for stream in range(2))
        return replace(self.made_by, emit=self.made_by.emit + marks, rows=self.rows + 1)

    def build(self, context: BuildContext = PLAIN) -> OuterJoinOperator:
        if self.made_by.leaving.correctable is None:
            return OuterJoinOperator(self, context)
        # It is a join that is told to do more, so it is made of this one.
        from slackwater.operators.join.absence_changes import CorrectedOuterJoin

        return CorrectedOuterJoin(self, context)


@dataclass(frozen=True)
class Waiting:
    """Preserved tuples without partner whose window is open, in the order in which they came."""

    mark: Words
    until: Words
    """The last instant at which a partner may lie."""
    late: Flags
    """A late tuple gives no row; who counts losses wants to know of it."""
    columns: Words
    """The row that each would give, a line for each column."""

    @staticmethod
    def none(columns: int) -> Waiting:
        nothing = np.zeros(0, np.int64)
        return Waiting(nothing, nothing, np.zeros(0, np.bool_), np.zeros((columns, 0), np.int64))

    def __len__(self) -> int:
        return len(self.mark)

    def only(self, which: Flags | Words) -> Waiting:
        """Some of them."""
        return Waiting(self.mark[which], self.until[which], self.late[which], self.columns[:, which])

    def and_then(self, more: Waiting) -> Waiting:
        """Those, and others that came after them."""
        return Waiting(
            np.concatenate([self.mark, more.mark]), np.concatenate([self.until, more.until]),
            np.concatenate([self.late, more.late]), np.concatenate([self.columns, more.columns], axis=1),
        )  # fmt: skip

    def places_of(self, marks: Words) -> tuple[Words, Flags]:
        """Where tuples with these marks stand, and which of them do."""
        at = np.searchsorted(self.mark, marks)
        if not len(self):
            return at, np.zeros(len(marks), np.bool_)
        at = np.minimum(at, len(self) - 1)
        return at, self.mark[at] == marks


class OuterJoinOperator(Operator):
    """The mutable half of `OuterJoin`."""

    spec: OuterJoin

    def __init__(self, spec: OuterJoin, context: BuildContext) -> None:
        self.spec = spec
        self._join: JoinOperator = spec.marked.build(context)
        self._columns = len(spec.marked.emit) - 2
        self._nulls = np.array(spec.nulls, np.int64)
        self._keep = self._wanted(context)
        self._waiting = Waiting.none(self._columns)
        self._next = 0
        """The mark of the next tuple."""
        self._kept = ArrayCheckpoint(ABSENT)
        self._restored: Mapping[str, Words] = {}
        """What was persisted beside the windows, as it was taken over last."""
        self._log: ClosingLog | None = None

    def ledger_for(self, terms: LedgerTerms) -> AbsenceLedger | None:
        if not self.spec.kind.lonely:
            return None
        self._log = ClosingLog()
        ledger = AbsenceLedger(self._join.spec, self.spec.kind, self._join.condition, terms, self._log)
        self._join.remember_for(ledger)
        return ledger

    def _wanted(self, context: BuildContext) -> Filter | None:
        if not self.spec.kept:
            return None
        places = {name: at for at, name in enumerate(self.spec.names)}
        return compile_filter(self.spec.kept, lambda stream, name: places[stream, name], context.encode_text)

    def process(self, run: OrderedBatch, ordered: bool) -> Iterator[Output]:
        """Take in a run; yield its rows."""
        marks = np.arange(self._next, self._next + len(run))
        self._next += len(run)
        words = np.vstack([run.words[: self.spec.rows], marks])
        if self._log is not None:
            self._log.words = words
        self._waiting = self._waiting.and_then(self._of_run(run, words))
        passed = run.passed(ordered)
        for made in self._join.process(replace(run, tuples=run.tuples._replace(words=words)), ordered):
            if made.amends:
                self._follow(made)
                continue
            pairs = self._pairs(made)
            # In order, whatever may still be made is not older than the last pair.
            reached = int(made.ts[-1]) if ordered else BEFORE_ALL
            yield from self._in_order(pairs, self._without_partner(reached), passed)
        yield from self._in_order(None, self._without_partner(run.watermark), passed)

    def _of_run(self, run: OrderedBatch, words: Words) -> Waiting:
        """The preserved tuples of a run."""
        return self._of_tuples(run.stream, words, run.late)

    def _follow(self, made: Output) -> None:
        """Pairs that late tuples complete, where they are made."""
        raise NotImplementedError

    def _of_tuples(self, stream: Words, words: Words, late: Flags) -> Waiting:
        """The preserved tuples among some."""
        spec = self.spec
        preserved = np.array(spec.kind.preserved)[stream]
        if spec.kind is JoinKind.SEMI:
            preserved &= ~late
        mine = np.flatnonzero(preserved)
        columns = np.repeat(self._nulls[:, None], len(mine), axis=1)
        for at, (of, row) in enumerate(spec.marked.emit[: self._columns]):
            own = stream[mine] == of
            columns[at, own] = words[row, mine[own]]
        return Waiting(words[-1, mine], self._until(stream[mine], words[:, mine]), late[mine], columns)

    def _until(self, stream: Words, words: Words) -> Words:
        """The last instant at which a partner of each tuple may lie, or its own where that lies before."""
        until = words[TS] + np.array(self.spec.made_by.windows, np.int64)[stream]
        for row, most, required in self.spec.closing:
            time, there = words[row], words[row] != NULL_WORD
            sooner = np.where(there, np.minimum(until, time + most * there), words[TS] if required else until)
            until = np.where(stream == 0, sooner, until)
        return np.asarray(np.maximum(until, words[TS]))

    def _pairs(self, made: Output) -> Output | None:
        """The rows that pairs give; whoever is in one waits no longer."""
        *columns, first, second = made.columns
        kind, found = self.spec.kind, np.zeros(len(self._waiting), np.bool_)
        for preserved, marks in zip(kind.preserved, (first, second), strict=True):
            if preserved:
                at, there = self._waiting.places_of(marks)
                found[at[there]] = True
                if kind is JoinKind.SEMI:
                    _, once = np.unique(at[there], return_index=True)
                    made = made.only(np.flatnonzero(there)[np.sort(once)])
                    columns = list(made.columns[:-2])
        if found.any():
            self._waiting = self._waiting.only(~found)
        if kind is JoinKind.ANTI or not len(made.ts):
            return None
        return replace(made, columns=tuple(columns))

    def _without_partner(self, watermark: int) -> Waiting:
        """Those whose window has passed; they wait no longer."""
        over = self._waiting.until < watermark
        if not over.any():
            return Waiting.none(self._columns)
        gone = self._waiting.only(over)
        self._waiting = self._waiting.only(~over)
        if not self.spec.kind.lonely:
            return Waiting.none(self._columns)
        if self._log is not None:
            self._log.closed = self._log.closed.and_then(Closed(gone.mark, gone.until, gone.late))
        return gone.only(np.argsort(gone.until, kind="stable"))

    def _in_order(self, pairs: Output | None, alone: Waiting, passed: Words) -> Iterator[Output]:
        """Rows of pairs and of tuples without partner, as they leave."""
        alone = alone.only(~alone.late)
        made = [] if pairs is None else [pairs]
        if len(alone):
            by = np.searchsorted(passed, alone.until, "right")
            made.append(Output(alone.until, tuple(alone.columns), by, None, len(alone)))
        made = [one for one in map(self._only_wanted, made) if len(one.ts)]
        if not made:
            return
        rows = replace(made[0], by_at_latest=True)
        if len(made) > 1:
            both = [made[0], made[1]]
            ts = np.concatenate([one.ts for one in both])
            columns = tuple(np.concatenate(column) for column in zip(*(one.columns for one in both), strict=True))
            by = np.concatenate([one.by for one in both])
            rows = Output(ts, columns, by, None, len(ts), by_at_latest=True).only(np.argsort(ts, kind="stable"))
        if self.spec.count_only:
            rows = replace(rows, columns=(), multiplicity=np.ones(len(rows.ts), np.int64))
        yield rows

    def _only_wanted(self, rows: Output) -> Output:
        if self._keep is None:
            return rows
        lines = np.stack(rows.columns)
        return rows.only(np.flatnonzero(self._keep(lines, lines.view(np.float64), len(rows.ts))))

    @property
    def state_rows(self) -> int:
        """Tuples in the windows; those that wait are among them."""
        return self._join.state_rows

    def window_contents(self, watermark: int) -> Iterator[WindowContents]:
        """The windows, and the rows of those that wait."""
        yield from self._join.window_contents(watermark)
        waiting = len(self._waiting)
        yield WindowContents(RESULTS, waiting, waiting * (2 + self._columns))

    def snapshot_delta(self) -> list[StateUpdate]:
        """What the windows say, and the marks of those that wait: the tuples themselves are in the windows."""
        return [*self._join.snapshot_delta(), *self._kept.snapshot_delta(self._arrays())]

    def _arrays(self) -> dict[str, Words]:
        waiting = self._waiting
        return {"mark": waiting.mark, "late": waiting.late.astype(np.int64), "next": np.array([self._next])}

    def restore(self, entries: list[StateUpdate]) -> None:
        self._join.restore([entry for entry in entries if entry.namespace != ABSENT])
        arrays = self._restored = self._kept.restore(entry for entry in entries if entry.namespace == ABSENT)
        if arrays:
            self._next = int(arrays["next"][0])
            self._waiting = self._standing(arrays["mark"], arrays["late"].astype(np.bool_))

    def _standing(self, marks: Words, late: Flags) -> Waiting:
        """The tuples with these marks, all of which are in the windows."""
        streams, words = self._join.standing()
        if not len(marks):
            return Waiting.none(self._columns)
        order = np.argsort(words[-1], kind="stable")
        there = order[np.searchsorted(words[-1, order], marks)]
        return self._of_tuples(streams[there], words[:, there], late)
