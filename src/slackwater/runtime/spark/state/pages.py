"""The state of shards as a log of pages: everything that changed, for each micro-batch.

An epoch changes many small entries, and each read or write of a store costs a round trip. So entries are written
together, as one value: a page. Pages are read in order; what a later page says of an entry counts. A log like this
grows: once it is twice as large as what counts in it, entries of the oldest page that still count are written again
with the new one, and the oldest page is dropped. Most of what an epoch writes is worthless soon: clocks change in every
epoch, and tuples leave slack. So an epoch writes what has changed to a *hot* page, which the next epoch replaces; what
still counts of it then goes to the log, where it stays as long as a window holds it. Tuples that enter a window stay as
they are, so they go to the log at once.

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
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa

from slackwater.core.state import StateUpdate, is_lasting
from slackwater.runtime.spark.state.page_files import NOBODY, Mark, PageFiles, Writer
from slackwater.runtime.spark.store import Store

SPARE = 64 << 10
"""Bytes that the log may have beyond twice what counts in it."""
HEAD = 64
"""About as many bytes as a page, or an entry, takes beside its value."""
CODEC = "lz4"
_LENGTH = struct.Struct("<I")
Place = tuple[str, str]
Written = tuple[StateUpdate, int]
"""An entry, and the epoch in which it changed."""


class Page(NamedTuple):
    """What one file holds."""

    name: str
    """Of the write that it belongs to."""
    entries: tuple[StateUpdate, ...]
    changed: tuple[int, ...]
    """The epoch in which each of them changed: it may have been written again later."""


def encoded(page: Page) -> bytes:
    """A page as bytes: what it has, and then the values, compressed.

    >>> page = Page("x", (StateUpdate("a", "b", b"12"), StateUpdate("a", "c", None)), (1, 2))
    >>> decoded(encoded(page)) == page
    True
    """
    sizes = [
        (one.namespace, one.key, -1 if one.value is None else len(one.value), epoch)
        for one, epoch in zip(page.entries, page.changed, strict=True)
    ]
    head = json.dumps([page.name, sizes]).encode()
    values = pa.compress(b"".join(one.value or b"" for one in page.entries), codec=CODEC, asbytes=True)
    return b"".join([_LENGTH.pack(len(head)), head, values])


def decoded(value: bytes) -> Page:
    """The inverse of `encoded`."""
    (length,) = _LENGTH.unpack_from(value)
    head = _LENGTH.size + length
    name, sizes = json.loads(value[_LENGTH.size : head])
    values = pa.decompress(value[head:], sum(max(size, 0) for _, _, size, _ in sizes), codec=CODEC, asbytes=True)
    entries, at = [], 0
    for namespace, key, size, _ in sizes:
        entries.append(StateUpdate(namespace, key, None if size < 0 else values[at : at + size]))
        at += max(size, 0)
    return Page(name, tuple(entries), tuple(epoch for *_, epoch in sizes))


@dataclass
class Account:
    """Which page has the last word on every entry, and how many bytes of each page still count."""

    where: dict[Place, tuple[int | None, int]] = field(default_factory=dict)
    """The epoch of the page, or None where it is a hot one; and the bytes of the entry."""
    size: dict[int, int] = field(default_factory=dict)
    """Bytes of every page but hot ones, in their order, before they are compressed."""
    counting: dict[int, int] = field(default_factory=dict)
    hot: dict[Place, StateUpdate] = field(default_factory=dict)
    """The entries on which a hot page has the last word; they are there to be written once more."""

    @property
    def oldest(self) -> int:
        return next(iter(self.size))

    def note(self, epoch: int, entries: Sequence[StateUpdate], hot: bool = False) -> None:
        if not hot:
            self.size[epoch], self.counting[epoch] = HEAD + _bytes(entries), 0
        for one in entries:
            place = (one.namespace, one.key)
            before, size = self.where.pop(place, (None, 0))
            if before is not None and before in self.counting:
                self.counting[before] -= size
            self.hot.pop(place, None)
            if one.value is not None:
                self.where[place] = None if hot else epoch, _bytes([one])
                if hot:
                    self.hot[place] = one
                else:
                    self.counting[epoch] += _bytes([one])

    def forget(self, epoch: int) -> None:
        del self.size[epoch], self.counting[epoch]

    def is_too_long(self, moved: int, spare: int) -> bool:
        """Whether the oldest page should go, where so many bytes are written again already."""
        counting = moved + sum(self.counting.values())
        return len(self.size) > 1 and moved + sum(self.size.values()) > 2 * counting + spare


class PageStore:
    """The entries of all shards of a task, read from pages and written to them."""

    def __init__(
        self, store: Store, micro_batch: int, writer: Writer = NOBODY, is_new: bool = False, spare: int = SPARE
    ) -> None:
        self._files, self._spare = PageFiles(store, micro_batch, writer, is_new), spare
        self.account: Account | None = None
        """Of the pages that are there; whoever keeps the entries until the next micro-batch keeps it with them."""
        self._read_bytes = self._written = 0

    def mark(self, since: int | None = None) -> Mark | None:
        """Where the shards stand; None before their first epoch. What was written `since` will be asked for."""
        return self._files.mark(since)

    def resume(self, mark: Mark, account: Account) -> None:
        """Go on with the account that this worker has kept since it wrote the last epoch."""
        self.account = account
        self._files.oldest = account.oldest if account.size else mark.epoch

    def everything(self) -> list[StateUpdate]:
        """All entries, for a worker that does not know the shards."""
        account, entries = Account(), dict[Place, StateUpdate]()
        for epoch, hot, value in self._files.all():
            page = self._decoded(value)
            account.note(epoch, page.entries, hot)
            entries |= {(one.namespace, one.key): one for one in page.entries}
        self.account = account
        return [one for one in entries.values() if one.value is not None]

    def between(self, then: Mark, now: Mark) -> list[StateUpdate] | None:
        """What was written or dropped after a mark, for who had the account then; None where pages are gone."""
        account = self.account
        assert account is not None
        if then == now:
            return []
        known = None if then.epoch >= now.epoch else self._read(then.epoch)
        # Pages go in their order, so all later ones are there.
        if known is None or known.name != then.name:
            self.account = None
            return None
        touched: dict[Place, StateUpdate] = {}
        # Of hot pages the last has what counts of the others.
        for epoch, hot in (*((epoch, False) for epoch in range(then.epoch + 1, now.epoch + 1)), (now.epoch, True)):
            page = self._read(epoch, hot)
            assert page is not None
            account.note(epoch, page.entries, hot)
            # What changed before, and was only written again, is known.
            news = (one for one, changed in zip(page.entries, page.changed, strict=True) if changed > then.epoch)
            touched |= {(one.namespace, one.key): one for one in news}
        while account.oldest < self._files.oldest:
            account.forget(account.oldest)
        return list(touched.values())

    def _read(self, epoch: int, hot: bool = False) -> Page | None:
        found = self._files.get(epoch, hot)
        return None if found is None else self._decoded(found)

    def _decoded(self, value: bytes) -> Page:
        self._read_bytes += len(value)
        return decoded(value)

    def write(self, before: Mark | None, snapshot_delta: Iterable[StateUpdate]) -> Mark:
        """Persist the epoch that follows a mark."""
        changes = {(one.namespace, one.key): one for one in snapshot_delta}
        if self.account is None:
            self.everything()
        account = self.account
        assert account is not None
        mark = Mark(self._files.micro_batch, secrets.token_hex(8))
        cooled = [one for place, one in account.hot.items() if place not in changes]
        gone = [one for one in changes.values() if one.value is None]
        lasting = {place for place, one in changes.items() if is_lasting(one) and place not in account.where}
        cold = self._cleaned(account, changes, _bytes(cooled) + _bytes(gone))
        cold += ((one, before.epoch) for one in cooled if before)
        cold += ((one, mark.epoch) for place, one in changes.items() if one.value is None or place in lasting)
        hot = [(one, mark.epoch) for place, one in changes.items() if one.value is not None and place not in lasting]
        pages = []
        for written, is_hot in ((cold, False), (hot, True)):
            page = Page(mark.name, tuple(one for one, _ in written), tuple(epoch for _, epoch in written))
            pages.append(encoded(page))
            self._written += len(pages[-1])
            account.note(mark.epoch, page.entries, is_hot)
        self._files.commit(mark, account.oldest, *pages)
        return mark

    def _cleaned(self, account: Account, changing: Container[Place], most: int) -> list[Written]:
        """Drop the oldest pages of a log that is too long; what still counts in them, as far as it does not change
        now, with the epochs in which it changed. No more is moved than one page, or as much as is written anyway."""
        moved: list[Written] = []
        size = 0
        while account.is_too_long(size, self._spare) and size <= most:
            oldest = account.oldest
            found = self._read(oldest)
            assert found is not None
            for one, epoch in zip(found.entries, found.changed, strict=True):
                place = (one.namespace, one.key)
                if place not in changing and account.where.get(place, (None, 0))[0] == oldest:
                    moved.append((one, epoch))
                    size += _bytes([one])
            account.forget(oldest)
        return moved

    def traffic(self) -> dict[str, int]:
        """Bytes of pages read and written since the last call."""
        reported = {"state_read": self._read_bytes, "state_written": self._written}
        self._read_bytes = self._written = 0
        return reported


def _bytes(entries: Iterable[StateUpdate]) -> int:
    return sum(HEAD + len(one.value or b"") for one in entries)
