"""Pages as files of the checkpoint folder: one file a task and micro-batch, and one of the entries that are hot.

The state after micro-batch N is that after N - 1 and one page more. Spark's own logs say which micro-batches are done,
so no other record is needed: micro-batch N always begins with file N - 1, also when it runs again, and then replaces
file N.

Like Spark's own logs on a local disk the files outlive every process, but are not forced to the disk: to wait for that
would cost more than all the rest.

Invariant: a file is whole or absent, and one whose checksums differ is refused. It says which file is the oldest that
still counts; those before the oldest one of N - 1 are removed by N, since no micro-batch before N can run again. A
micro-batch that runs twice makes the same state twice, so it does not matter whose file stays.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import NamedTuple
from zlib import crc32

from slackwater.core.errors import SlackwaterError, UsageError
from slackwater.runtime.spark.store import AT_ONCE, Store, damaged

FORMAT = 7
_FIELDS = struct.Struct("<HxxI16s12sI")
"""Format, the oldest micro-batch that counts, the name of the write, who wrote, the checksum of the page."""
_CHECK = struct.Struct("<I")
HEAD = _FIELDS.size + _CHECK.size
"""Bytes in front of the page: the fields, and their own checksum."""
UNCHECKED = 4
"""The last format without checksums."""
SELDOM = 16
"""Micro-batches between two looks for files that can go, in a store that is far."""
ABANDONED = 600
"""Seconds after which a file under a hidden name is one of a task that has died."""


class Mark(NamedTuple):
    """A moment in the life of shards: their last epoch, and the name of the write that ended it."""

    epoch: int
    name: str


class MissingStateError(SlackwaterError):
    """There is no state after the last micro-batch."""


class Writer(NamedTuple):
    """The writer: the run of a streaming query, and the DataFrame in it."""

    run: str
    who: str

    def short(self) -> bytes:
        """As a file has it, half of it for the run."""
        return b"".join(sha256(one.encode()).hexdigest()[:6].encode() for one in self)


NOBODY = Writer("", "")


PAGES, HOT_PAGE, REPORTS = "pages", "hot", "reports"
"""Kinds of files: what counts for long, what every micro-batch writes again, and what shards tell each other."""


def file_name(micro_batch: int, kind: str = PAGES) -> str:
    """What a file of a micro-batch is called."""
    return f"{micro_batch:010d}.{kind}"


def check_format(found: int, file: str = "the checkpoint") -> None:
    """Refuse pages of another version."""
    if found != FORMAT:
        raise UsageError(
            f"{file} has state of format {found}, and this version of slackwater reads format {FORMAT};"
            " go on with the version that wrote it, or use a new checkpoint folder"
        )


def _file_of(epoch: int, hot: bool) -> str:
    return file_name(epoch, HOT_PAGE if hot else PAGES)


class PageFiles:
    """The files of one task, as one micro-batch reads and writes them; `is_new` says that there are none before it."""

    def __init__(self, store: Store, micro_batch: int, writer: Writer = NOBODY, is_new: bool = False) -> None:
        self._store, self.micro_batch, self._writer = store, micro_batch, writer
        self._is_new = is_new or micro_batch == 0
        self._fetched: dict[str, bytes | None] = {}
        """Files that were read together, and are not yet asked for."""
        self.oldest = 0
        """The oldest page that counts after the last micro-batch."""

    def mark(self, since: int | None = None) -> Mark | None:
        """Where the last micro-batch left the shards; None in the first one. From a store that is far, what was
        written `since` comes along."""
        if self._is_new:
            return None
        file = file_name(self.micro_batch - 1)
        if self._store.far:
            first = max(self.micro_batch - AT_ONCE, self.micro_batch - 1 if since is None else since)
            self._fetch([(self.micro_batch - 1, True), *((one, False) for one in range(first, self.micro_batch))])
        content = self._fetched.get(file) or self._store.read(file, HEAD)
        if content is None:
            raise MissingStateError(
                f"{self._store.path(file)}, the state after micro-batch {self.micro_batch - 1}, is not there;"
                " put it back, or use a new checkpoint folder;"
                " where workers run on several machines, all must share that folder"
            )
        self.oldest, name, _ = self._head(file, content)
        return Mark(self.micro_batch - 1, name)

    def _fetch(self, pages: Sequence[tuple[int, bool]]) -> None:
        """Read files that will be asked for, all at once."""
        names = [name for name in (_file_of(*one) for one in pages) if name not in self._fetched]
        self._fetched |= zip(names, self._store.read_all(names), strict=True)

    def _head(self, file: str, content: bytes) -> tuple[int, str, int]:
        """The oldest micro-batch that counts, the name of the write, and the checksum of the page."""
        path = self._store.path(file)
        if len(content) < HEAD:
            raise damaged(path, "it is cut off")
        found, oldest, name, writer, checksum = _FIELDS.unpack_from(content)
        if crc32(content[: _FIELDS.size]) != _CHECK.unpack_from(content, _FIELDS.size)[0]:
            if 0 < found <= UNCHECKED:
                check_format(found, path)
            raise damaged(path, "its checksum differs")
        check_format(found, path)
        mine = self._writer.short()
        if writer[:6] == mine[:6] and writer != mine:
            raise UsageError(
                f"{path} was written by another DataFrame of the same streaming query; name a folder of its own for"
                " each with state=..."
            )
        return oldest, name.decode(), checksum

    def all(self) -> Iterator[tuple[int, bool, bytes]]:
        """The pages up to the mark that count, in their order, each with its epoch and whether it is hot."""
        if self.mark() is None:
            return
        self._tidy()
        last = self.micro_batch - 1
        pages = (*((epoch, False) for epoch in range(self.oldest, last + 1)), (last, True))
        for place, (epoch, hot) in enumerate(pages):
            if self._store.far and place % AT_ONCE == 0:
                self._fetch(pages[place : place + AT_ONCE])
            value = self.get(epoch, hot)
            if value is None:
                raise SlackwaterError(
                    f"{self._store.path(_file_of(epoch, hot))}, a part of the state, is not there;"
                    " put it back, or use a new checkpoint folder"
                )
            yield epoch, hot, value

    def get(self, epoch: int, hot: bool = False) -> bytes | None:
        file = _file_of(epoch, hot)
        content = self._fetched.pop(file) if file in self._fetched else self._store.read(file)
        if content is None:
            return None
        *_, checksum = self._head(file, content)
        page = content[HEAD:]
        if crc32(page) != checksum:
            raise damaged(self._store.path(file), "its checksum differs")
        return page

    def commit(self, mark: Mark, oldest: int, cold: bytes, hot: bytes) -> None:
        """Publish the pages of this micro-batch, and remove those that cannot be needed any more."""
        if self._is_new:
            self.oldest = self.micro_batch
        # The hot one first: the other one says that the micro-batch is done.
        for kind, page in ((HOT_PAGE, hot), (PAGES, cold)):
            fields = _FIELDS.pack(FORMAT, oldest, mark.name.encode(), self._writer.short(), crc32(page))
            self._store.write(file_name(self.micro_batch, kind), fields + _CHECK.pack(crc32(fields)) + page)
        if self._store.far:
            # To ask for each would cost more than to write.
            if self.micro_batch % SELDOM == 0:
                self._tidy()
            return
        self._store.remove(file_name(self.micro_batch - 2, HOT_PAGE))
        gone = self.oldest - 1
        while gone >= 0 and self._store.exists(file_name(gone)):
            self._store.remove(file_name(gone))
            gone -= 1

    def _tidy(self) -> None:
        """Remove what nobody can need any more, and what tasks that were killed have left."""
        gone = []
        for name in self._store.names():
            number, _, kind = name.partition(".")
            oldest = {PAGES: self.oldest, HOT_PAGE: self.micro_batch - 1, REPORTS: self.micro_batch - 1}.get(kind)
            if oldest is not None and int(number) < oldest:
                gone.append(name)
        self._store.remove(*gone)
        self._store.remove_abandoned(time.time() - ABANDONED)
