"""A pane store: the panes of several window aggregates over one stream, kept, persisted and filled once.

Its readers have the same keys and the same accumulators. Their windows, their slack and their filters may differ
(`fragments.py` says how). A reader is a query, or a shard of one; it may come and go at any time. Its flag says which
tuples are its own: one that comes later has a flag that nothing from before has.

Invariant: panes are cut by the greatest common divisor of all ranges and slides *as of when their tuples came*. A query
that comes later may need finer panes; what came before is not wanted by it, and whoever wants that has windows of whole
panes of the old length.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import gcd
from typing import NamedTuple

import numpy as np

from slackwater.core.batch import Flags, Words
from slackwater.core.collections.numbering import Numbering
from slackwater.core.collections.records import NONE, grown, table
from slackwater.core.errors import SlackwaterError
from slackwater.core.state import StateUpdate, decode_words, encode_words, state_update
from slackwater.core.time import BEFORE_ALL
from slackwater.disorder.sharing.log import Selection
from slackwater.operators.aggregate import state as st
from slackwater.operators.aggregate.algebra import AggregateSpec, Layout, lower
from slackwater.operators.aggregate.panes import first_open, panes
from slackwater.operators.aggregate.partials import program_for
from slackwater.operators.aggregate.shared import fragments as fr
from slackwater.operators.aggregate.tables import GrowingTables

NAMESPACE = "panes"
SMALLEST = 64
MOST_LINES = 1 << 17


@dataclass(frozen=True)
class SharedSpec:
    """What readers of a store have in common, in rows of the words that the store is given."""

    keys: tuple[int, ...]
    layout: Layout


class ClosedLines(NamedTuple):
    """Windows of one reader that were closed together."""

    lines: Words
    state: Words
    """The combined partial of each."""
    values: list[Words] | None
    """The aggregates of each; None where some have none, and the reader is to find out whether it is its own."""


class Delivered(NamedTuple):
    """Closed windows on their way to who emits them: by which place of its run, and when that was."""

    closed: ClosedLines
    by: Words
    clock: Words
    emit_time: Words


@dataclass(eq=False)
class PaneReader:
    """A query that reads the panes of a store."""

    range: int
    slide: int
    aggregates: tuple[AggregateSpec, ...]
    """Over the rows of the store."""
    flag: int
    next: int = field(init=False)
    """Its oldest window that is not closed."""
    store: PaneStore | None = None
    delivered: list[Delivered] = field(default_factory=list)
    """What is to be emitted with the run that is processed next."""

    def __post_init__(self) -> None:
        self.next = first_open(panes(self.range, self.slide), BEFORE_ALL)

    @property
    def held(self) -> int:
        """Partials that it still needs."""
        return 0 if self.store is None else self.store.held_by(self)

    def as_words(self) -> list[int]:
        """As compiled code sees it."""
        return [self.range, self.slide, *Selection.numbered(self.flag), self.next]


class PaneStore:
    """Panes of several readers; `flags` is how many words of flags a tuple has."""

    def __init__(self, spec: SharedSpec, flags: int) -> None:
        self.spec, self._words = spec, flags
        self.readers: list[PaneReader] = []
        self._key_rows = np.array(spec.keys, np.int64)
        self.clear()

    def clear(self) -> None:
        """Hold nothing: what there is will be restored."""
        spec = self.spec
        self._tables = GrowingTables(program_for(spec.layout), len(spec.keys), spec.layout.width, ())
        self._signatures = Numbering(self._words, nulls=True)
        nothing = np.zeros(0, np.int64)
        self._fragments = fr.Fragments(
            table(SMALLEST, fr.FRAGMENT_FIELDS), np.zeros(SMALLEST, np.int64), self._signatures.known, nothing, nothing,
            np.zeros(fr.FRAGMENT_SCALARS, np.int64),
        )  # fmt: skip
        self._fit_signatures()
        self._persisted: set[str] = set()
        self._at = self._signature = np.zeros(0, np.int64)
        self._taken = 0
        self._new: st.Taken | None = None

    # Readers come and go.

    def join(self, reader: PaneReader) -> None:
        """One more reader, from now on."""
        reader.store = self
        self.readers.append(reader)

    def leave(self, reader: PaneReader) -> None:
        """One reader less; what only it needed is forgotten."""
        self.readers.remove(reader)
        reader.store = None
        self._sweep()

    @property
    def grain(self) -> int:
        """The length of the panes that tuples are put into now."""
        return gcd(*(length for one in self.readers for length in (one.range, one.slide)))

    # Flags.

    def relay(self, flags: int) -> None:
        """A tuple has so many words of flags from now on."""
        before = self._signatures.keys
        self._words = flags
        self._sign_again(np.vstack((before, np.zeros((flags - len(before), before.shape[1]), np.int64))))

    def clear_flag(self, flag: int) -> None:
        """No query has this flag any more, or not yet."""
        self._change_flag(flag, np.zeros(self._signatures.count, np.bool_))

    def copy_flag(self, source: int, target: int) -> None:
        """Whatever has the flag of the source has that of the target, and nothing else has."""
        self._change_flag(target, _has(source, self._signatures.keys))

    def _change_flag(self, flag: int, on: Flags) -> None:
        """Signatures have a flag from now on, or do not have it."""
        f, order = self._fragments, self._order
        masks, changed = self._signatures.keys.copy(), on != _has(flag, self._signatures.keys)
        selection = Selection.numbered(flag)
        masks[selection.word, changed] ^= selection.mask
        f.records[order, fr.DIRTY] |= changed[f.records[order, fr.SIGNATURE]]
        self._sign_again(masks)

    def _sign_again(self, masks: Words) -> None:
        """Signatures have these flags, and those without a fragment are forgotten."""
        f, order = self._fragments, self._order
        used, place = np.unique(f.records[order, fr.SIGNATURE], return_inverse=True)
        self._signatures = Numbering(self._words, nulls=True)
        numbers = self._signatures.of(np.ascontiguousarray(masks[:, used]))
        f.records[order, fr.SIGNATURE] = numbers[place]
        nothing = np.zeros(0, np.int64)
        self._fragments = f._replace(newest=nothing, needed=nothing)
        self._fit_signatures()
        self._fragments.needed[numbers] = f.needed[used]

    def _fit_signatures(self) -> None:
        """Space for all signatures that have a number."""
        f, known = self._fragments, self._signatures.known
        more = known.shape[1] - len(f.newest)
        if more:
            newest, needed = np.append(f.newest, np.full(more, NONE)), np.append(f.needed, np.full(more, BEFORE_ALL))
            self._fragments = f._replace(masks=known, newest=newest, needed=needed)
        f.scalars[fr.SIGNATURES] = self._signatures.count

    @property
    def _order(self) -> Words:
        f = self._fragments
        order: Words = f.order[: f.scalars[fr.FRAGMENTS]]
        return order

    # Tuples.

    def begin(self, words: Words, first_flag: int) -> None:
        """Take a batch; its tuples go into panes by `advance`."""
        mask = np.zeros((self._words, 1), np.int64)
        for selection in (Selection.numbered(one.flag) for one in self.readers):
            mask[selection.word] |= selection.mask
        flags = words[first_flag : first_flag + self._words] & mask
        self._at = np.flatnonzero(flags.any(axis=0))
        self._signature, self._taken = self._signatures.of(np.ascontiguousarray(flags[:, self._at])), 0
        self._fit_signatures()
        self._new = st.Taken(words, words.view(np.float64), self._at, self._key_rows, self._at[:0])
        self._reserve(len(self._at))

    def _reserve(self, tuples: int) -> None:
        """Make space for so many more partials, groups and fragments."""
        self._tables.reserve(tuples)
        f = self._fragments
        size = len(f.records)
        if f.scalars[fr.FRAGMENTS] + tuples <= size:
            return
        while size < f.scalars[fr.FRAGMENTS] + tuples:
            size *= 2
        records = grown(f.records, size, int(f.scalars[fr.FREE_FRAGMENT]))
        f.scalars[fr.FREE_FRAGMENT] = len(f.records)
        self._fragments = f._replace(records=records, order=np.append(f.order, np.zeros(size - len(f.order), np.int64)))

    def advance(
        self, position: int, epoch: Words, watermark: Words, ends: Words, reached: Words
    ) -> Iterator[list[ClosedLines | None]]:
        """Take in the tuples of the batch before a place in it; yields windows that are closed meanwhile, by reader.

        `epoch` has the epoch of each tuple of the batch, `watermark` that of each reader before every epoch; `ends`
        says whose segment ends at the place, and `reached` where its watermark is then.
        """
        assert self._new is not None
        readers = np.array([one.as_words() for one in self.readers], np.int64).reshape(-1, fr.READER_FIELDS)
        stop = int(np.searchsorted(self._at, position))
        arrived = fr.Arrivals(self._signature, epoch, watermark, ends, reached)
        status, t, capacity = fr.OUT_OF_CAPACITY, self._tables, 1024
        while status != fr.CLOSED_ALL:
            most = max(capacity, int(t.scalars[st.GROUPS]) + (stop - self._taken if t.keys else 1))
            closed = st.room_for(most, fr.OF_KEY + t.keys, t.width)
            self._taken, n, status = fr.process_arrivals(
                t.now, self._fragments, readers, self._new, arrived, self._at, self._taken, stop, self.grain, closed
            )
            capacity = min(4 * capacity, MOST_LINES // t.wide)
            for one, following in zip(self.readers, readers[:, fr.NEXT].tolist(), strict=True):
                one.next = following
            if n:
                yield self._by_reader(closed.lines[:n], closed.state[:n])

    def end_batch(self) -> None:
        """Nothing more comes of the batch."""
        self._new = None
        self._sweep()

    def _sweep(self) -> None:
        readers = np.array([one.as_words() for one in self.readers], np.int64).reshape(-1, fr.READER_FIELDS)
        used = fr.sweep(self._tables.now, self._fragments, readers)
        if self._fragments.scalars[fr.SIGNATURES] > 2 * used + SMALLEST:
            self._sign_again(self._signatures.keys)

    def _by_reader(self, lines: Words, state: Words) -> list[ClosedLines | None]:
        order = np.argsort(lines[:, fr.OF_READER], kind="stable")
        lines, state = lines[order], state[order]
        edges = np.searchsorted(lines[:, fr.OF_READER], np.arange(len(self.readers) + 1)).tolist()
        values: dict[AggregateSpec, Words | None] = {}
        for aggregate in dict.fromkeys(one for reader in self.readers for one in reader.aggregates):
            try:
                values[aggregate] = lower(aggregate, self.spec.layout, state)
            except SlackwaterError:
                values[aggregate] = None
        found: list[ClosedLines | None] = []
        for reader, first, stop in zip(self.readers, edges[:-1], edges[1:], strict=True):
            own = [values[one] for one in reader.aggregates]
            # Views would keep whole buffers alive for as long as the results are.
            known = [one[first:stop].copy() for one in own if one is not None]
            whole = known if len(known) == len(own) else None
            found.append(ClosedLines(lines[first:stop], state[first:stop], whole) if stop > first else None)
        return found

    def held_by(self, reader: PaneReader) -> int:
        """The partials that a reader still needs."""
        return fr.held_by(self._fragments, np.array(reader.as_words(), np.int64))

    @property
    def state_rows(self) -> int:
        """Partials of all readers, each counted once."""
        return int(self._tables.scalars[st.PARTIALS])

    # State.

    def snapshot_delta(self, prefix: str) -> list[StateUpdate]:
        """Panes that changed since the last call, and those that are gone, under names that begin like this."""
        f, order = self._fragments, self._order
        start = f.records[order, fr.START]
        dirty = f.records[order, fr.DIRTY] != 0
        entries = self._entries(prefix, start, dirty)
        self._persisted.update(one.key for one in entries)
        gone = self._persisted - {f"{prefix}{pane}" for pane in np.unique(start).tolist()}
        self._persisted -= gone
        f.records[order, fr.DIRTY] = 0
        return [*entries, *(state_update(NAMESPACE, key, None) for key in sorted(gone))]

    def persisted(self, prefix: str) -> list[StateUpdate]:
        """What is persisted of all panes, once all are."""
        start = self._fragments.records[self._order, fr.START]
        return self._entries(prefix, start, np.ones(len(start), np.bool_))

    def _entries(self, prefix: str, start: Words, some: Flags) -> list[StateUpdate]:
        """The panes of some fragments, as they are persisted."""
        return [
            state_update(NAMESPACE, f"{prefix}{pane}", self._encoded(self._order[start == pane]))
            for pane in np.unique(start[some]).tolist()
        ]

    def _encoded(self, members: Words) -> bytes:
        t, f = self._tables.now, self._fragments
        at, of = np.empty((2, int(f.records[members, fr.PARTIALS].sum())), np.int64)
        fr.list_partials(t, f, members, at, of)
        masks = f.masks[:, f.records[of, fr.SIGNATURE]]
        columns = {"grain": f.records[of, fr.GRAIN]} | {f"f{w}": mask for w, mask in enumerate(masks)}
        return encode_words(columns | self._tables.encoded(at))

    def restore(self, prefix: str, entries: Sequence[StateUpdate], flags: Sequence[tuple[int, int]]) -> None:
        """Take over panes that were persisted under a prefix; of each pair of flags, what had the first gets the
        second."""
        for entry in entries:
            if entry.value is not None:
                self._put_back(int(entry.key.removeprefix(prefix)), decode_words(entry.value), flags)

    def note_persisted(self, keys: Iterable[str], as_it_is: bool) -> None:
        """These entries are persisted; `as_it_is`: with all that was taken over, and nothing else."""
        self._persisted.update(keys)
        if as_it_is:
            self._fragments.records[self._order, fr.DIRTY] = 0

    def _put_back(self, start: int, saved: dict[str, Words], flags: Sequence[tuple[int, int]]) -> None:
        count, t = len(saved["grain"]), self._tables
        words = np.zeros((self._words, count), np.int64)
        before = np.stack([saved[f"f{w}"] for w in range(sum(name[0] == "f" for name in saved))])
        for old, new in flags:
            selection = Selection.numbered(new)
            words[selection.word] |= np.where(_has(old, before), selection.mask, 0)
        kept = np.flatnonzero(np.any(words != 0, axis=0))
        self.begin(np.ascontiguousarray(words[:, kept]), 0)
        keys, state = t.decoded({name: column[kept] for name, column in saved.items()})
        fr.put_back(
            t.now, self._fragments, start, saved["grain"][kept], self._signature, keys, np.arange(t.keys), state,
            state.view(np.float64),
        )  # fmt: skip


def _has(flag: int, masks: Words) -> Flags:
    """Which of some words of flags, one set a column, have this one."""
    selection = Selection.numbered(flag)
    if selection.word >= len(masks):
        return np.zeros(masks.shape[1], np.bool_)
    return np.not_equal(masks[selection.word] & selection.mask, 0)
