"""The state of one shard as a log of pages: everything that changed, for each micro-batch.

An epoch changes many small entries, and each read or write of a store costs a round trip. So entries are written
together, as one value: a page. Pages are read in order; what a later page says of an entry counts. A log like this
grows: once it is twice as large as what counts in it, entries of the oldest page that still count are written again
with the new one, and the oldest page is dropped. Most of what an epoch writes is worthless soon: clocks change in every
epoch, and tuples leave slack. So an epoch writes what has changed to a *hot* page, which the next epoch replaces; what
still counts of it then goes to the log, where it stays as long as a window holds it.

Invariant: the entries of all pages, in order, are the state. Pages go in the order in which they came, so an entry that
was dropped is never seen again. A hot page drops no entry, and counts only until the next epoch, whose pages have
everything of it that counts. Two marks are equal only if the state behind them is: a mark is made anew by every
write, so a shard that a failed attempt left behind is never taken for an up-to-date one.

References: M. Rosenblum, J. Ousterhout, "The design and implementation of a log-structured file system", 1992, section
3; here the oldest segment is cleaned first, and young entries are kept apart.
"""

from __future__ import annotations

import json
import secrets
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import pyarrow as pa

from slackwater.core.errors import UsageError
from slackwater.core.state import StateUpdate

FORMAT = 6
LARGEST = 8 << 20
"""Bytes of a page; what one micro-batch changes may take several."""
SPARE = 64 << 10
"""Bytes that the log may have beyond twice what counts in it."""
HEAD = 64
"""About as many bytes as a page, or an entry, takes beside its value."""
CODEC = "lz4"
_LENGTH = struct.Struct("<I")
Place = tuple[str, str]
Number = tuple[int, int]
"""The epoch of a page, and which of its pages it is."""
Written = tuple[StateUpdate, int]
"""An entry, and the epoch in which it changed."""
HOT = 1 << 16
"""The numbers of hot pages begin here."""


class Mark(NamedTuple):
    """A moment in the life of a shard: its last epoch, and the name of the write that ended it."""

    epoch: int
    name: str


class Pages(Protocol):
    """Where the pages of one shard are kept."""

    def mark(self, since: int | None = None) -> Mark | None:
        """Where the shard stands; None before its first epoch. What was written `since` will be asked for."""

    def resume(self, oldest: int) -> None:
        """Go on where this worker wrote the last epoch, with pages from this one on."""

    def next_epoch(self, before: Mark | None) -> int:
        """The epoch that is written after a mark."""

    def all(self) -> Iterable[tuple[Number, bytes]]:
        """All pages up to the mark, in any order."""

    def get(self, number: Number) -> bytes | None:
        """One page."""

    def has(self, number: Number) -> bool:
        """Whether there is a page."""

    def put(self, number: Number, value: bytes) -> None:
        """Add a page of the epoch that is being written."""

    def drop(self, number: Number) -> None:
        """Drop the oldest page."""

    def commit(self, mark: Mark, oldest: int) -> None:
        """End the write: the shard stands at this mark, and no page is older than this epoch."""


def check_format(found: int, file: str = "the checkpoint") -> None:
    """Refuse pages of another version."""
    if found != FORMAT:
        raise UsageError(
            f"{file} has state of format {found}, and this version of slackwater reads format {FORMAT};"
            " go on with the version that wrote it, or use a new checkpoint folder"
        )


class Page(NamedTuple):
    """What one value of the store holds."""

    name: str
    """Of the write that it belongs to."""
    parts: int
    """How many pages that write has, or hot pages."""
    entries: tuple[StateUpdate, ...]
    changed: tuple[int, ...]
    """The epoch in which each of them changed: it may have been written again later."""


def encoded(page: Page) -> bytes:
    """A page as bytes: what it has, and then the values, compressed, since all of it crosses to the JVM and to disk.

    >>> page = Page("x", 1, (StateUpdate("a", "b", b"12"), StateUpdate("a", "c", None)), (1, 2))
    >>> decoded(encoded(page)) == page
    True
    """
    sizes = [
        (one.namespace, one.key, -1 if one.value is None else len(one.value), epoch)
        for one, epoch in zip(page.entries, page.changed, strict=True)
    ]
    head = json.dumps([page.name, page.parts, sizes]).encode()
    values = pa.compress(b"".join(one.value or b"" for one in page.entries), codec=CODEC, asbytes=True)
    return b"".join([_LENGTH.pack(len(head)), head, values])


def decoded(value: bytes) -> Page:
    """The inverse of `encoded`."""
    (length,) = _LENGTH.unpack_from(value)
    head = _LENGTH.size + length
    name, parts, sizes = json.loads(value[_LENGTH.size : head])
    values = pa.decompress(value[head:], sum(max(size, 0) for _, _, size, _ in sizes), codec=CODEC, asbytes=True)
    entries, at = [], 0
    for namespace, key, size, _ in sizes:
        entries.append(StateUpdate(namespace, key, None if size < 0 else values[at : at + size]))
        at += max(size, 0)
    return Page(name, parts, tuple(entries), tuple(epoch for *_, epoch in sizes))


@dataclass
class Account:
    """Which page has the last word on every entry, and how many bytes of each page still count."""

    where: dict[Place, tuple[Number, int]] = field(default_factory=dict)
    size: dict[Number, int] = field(default_factory=dict)
    """Bytes of every page but hot ones, in their order, before they are compressed."""
    counting: dict[Number, int] = field(default_factory=dict)
    hot: dict[Place, StateUpdate] = field(default_factory=dict)
    """The entries on which a hot page has the last word; they are there to be written once more."""

    def note(self, number: Number, entries: Sequence[StateUpdate]) -> None:
        """A page has been read or written."""
        hot = number[1] >= HOT
        if not hot:
            self.size[number], self.counting[number] = HEAD + _bytes(entries), 0
        for one in entries:
            place = (one.namespace, one.key)
            before = self.where.pop(place, None)
            if before is not None and before[0] in self.counting:
                self.counting[before[0]] -= before[1]
            self.hot.pop(place, None)
            if one.value is not None:
                self.where[place] = number, _bytes([one])
                if hot:
                    self.hot[place] = one
                else:
                    self.counting[number] += _bytes([one])

    def forget(self, number: Number) -> None:
        """A page has been dropped."""
        del self.size[number], self.counting[number]

    def is_too_long(self, moved: int, spare: int) -> bool:
        """Whether the oldest page should go, where so many bytes are written again already."""
        counting = moved + sum(self.counting.values())
        return len(self.size) > 1 and moved + sum(self.size.values()) > 2 * counting + spare


class PageStore:
    """The entries of one shard, read from pages and written to them."""

    def __init__(self, pages: Pages, largest: int = LARGEST, spare: int = SPARE) -> None:
        self._pages = pages
        self._largest, self._spare = largest, spare
        self.account: Account | None = None
        """Of the pages that are there; whoever keeps the entries until the next micro-batch keeps it with them."""
        self._read_bytes = self._written = 0

    def mark(self, since: int | None = None) -> Mark | None:
        """Where the shard stands; None before its first epoch. What was written `since` will be asked for."""
        return self._pages.mark(since)

    def resume(self, mark: Mark, account: Account) -> None:
        """Go on with the account that this worker has kept since it wrote the last epoch."""
        self.account = account
        self._pages.resume(next(iter(account.size))[0] if account.size else mark.epoch)

    def everything(self) -> list[StateUpdate]:
        """All entries, for a worker that does not know the shard."""
        account, entries = Account(), dict[Place, StateUpdate]()
        for number, value in sorted(self._pages.all(), key=lambda one: one[0]):
            page = self._decoded(value)
            account.note(number, page.entries)
            entries |= {(one.namespace, one.key): one for one in page.entries}
        self.account = account
        return [one for one in entries.values() if one.value is not None]

    def between(self, then: Mark, now: Mark) -> list[StateUpdate] | None:
        """What was written or dropped after a mark, for who had the account then; None where pages are gone."""
        account = self.account
        assert account is not None
        if then == now:
            return []
        known = None if then.epoch >= now.epoch else self._read((then.epoch, 0))
        # Pages go in their order, so all later ones are there.
        if known is None or known.name != then.name:
            self.account = None
            return None
        touched: dict[Place, StateUpdate] = {}
        for number, page in self._written_between(then.epoch, now.epoch):
            account.note(number, page.entries)
            # What changed before, and was only written again, is known.
            news = (one for one, epoch in zip(page.entries, page.changed, strict=True) if epoch > then.epoch)
            touched |= {(one.namespace, one.key): one for one in news}
        while not self._pages.has(oldest := next(iter(account.size))):
            account.forget(oldest)
        return list(touched.values())

    def _written_between(self, then: int, now: int) -> Iterator[tuple[Number, Page]]:
        """The pages that were written after an epoch; of hot ones the last, which has what counts of the others."""
        for epoch in range(then + 1, now + 1):
            yield from self._parts(epoch, 0)
        yield from self._parts(now, HOT)

    def _parts(self, epoch: int, first: int) -> Iterator[tuple[Number, Page]]:
        part, parts = 0, 1
        while part < parts:
            found = self._read((epoch, first + part))
            assert found is not None
            parts = found.parts
            yield (epoch, first + part), found
            part += 1

    def _read(self, number: Number) -> Page | None:
        found = self._pages.get(number)
        return None if found is None else self._decoded(found)

    def _decoded(self, value: bytes) -> Page:
        self._read_bytes += len(value)
        return decoded(value)

    def write(self, before: Mark | None, snapshot_delta: Iterable[StateUpdate]) -> Mark:
        """Persist the epoch that follows a mark."""
        changes = list(snapshot_delta)
        if self.account is None:
            self.everything()
        account = self.account
        assert account is not None
        mark = Mark(self._pages.next_epoch(before), secrets.token_hex(8))
        changing = {(one.namespace, one.key) for one in changes}
        cooled = [one for place, one in account.hot.items() if place not in changing]
        gone = [one for one in changes if one.value is None]
        moved = self._cleaned(account, changing, _bytes(cooled) + _bytes(gone))
        cold = [*moved, *((one, before.epoch) for one in cooled if before), *((one, mark.epoch) for one in gone)]
        hot = [(one, mark.epoch) for one in changes if one.value is not None]
        last = list(self._hot_pages(before))
        for first, written in ((0, cold), (HOT, hot)):
            groups = list(_cut(written, self._largest))
            for part, group in enumerate(groups, first):
                page = Page(mark.name, len(groups), tuple(one for one, _ in group), tuple(epoch for _, epoch in group))
                value = encoded(page)
                self._pages.put((mark.epoch, part), value)
                self._written += len(value)
                account.note((mark.epoch, part), page.entries)
        for number in last:
            self._pages.drop(number)
        self._pages.commit(mark, next(iter(account.size))[0])
        return mark

    def _hot_pages(self, before: Mark | None) -> Iterator[Number]:
        part = HOT
        while before is not None and self._pages.has((before.epoch, part)):
            yield before.epoch, part
            part += 1

    def _cleaned(self, account: Account, changing: set[Place], most: int) -> list[Written]:
        """Drop the oldest pages of a log that is too long; what still counts in them, as far as it does not change
        now, with the epochs in which it changed. No more is moved than one page, or as much as is written anyway."""
        moved: list[Written] = []
        size = 0
        while account.is_too_long(size, self._spare) and size <= most:
            number = next(iter(account.size))
            found = self._read(number)
            assert found is not None
            for one, epoch in zip(found.entries, found.changed, strict=True):
                place = (one.namespace, one.key)
                if place not in changing and account.where.get(place, (None, 0))[0] == number:
                    moved.append((one, epoch))
                    size += _bytes([one])
            self._pages.drop(number)
            account.forget(number)
        return moved

    def traffic(self) -> dict[str, int]:
        """Bytes of pages read and written since the last call."""
        reported = {"state_read": self._read_bytes, "state_written": self._written}
        self._read_bytes = self._written = 0
        return reported


def _bytes(entries: Iterable[StateUpdate]) -> int:
    return sum(HEAD + len(one.value or b"") for one in entries)


def _cut(entries: Sequence[Written], largest: int) -> Iterator[list[Written]]:
    """Entries in groups of so many bytes; there is always one."""
    group: list[Written] = []
    size = 0
    for one, epoch in entries:
        if group and size + len(one.value or b"") > largest:
            yield group
            group, size = [], 0
        group.append((one, epoch))
        size += len(one.value or b"")
    yield group
