"""Pages as files of the checkpoint folder: one file a shard and micro-batch, and one of the entries that are hot.

Spark's state store costs every micro-batch a server, a socket and a commit of RocksDB for each shard. A log of pages
needs none of that: the state after micro-batch N is that after N - 1 and one page more. Spark's own logs say which
micro-batches are done, so no other record is needed: micro-batch N always begins with file N - 1, also when it runs
again, and then replaces file N.

Like Spark's own logs on a local disk the files outlive every process, but are not forced to the disk: to wait for that
would cost more than all the rest.

Invariant: a file is whole or absent. It says which file is the oldest that still counts; those before the oldest one
of N - 1 are removed by N, since no micro-batch before N can run again. A micro-batch that runs twice makes the same
state twice, so it does not matter whose file stays.
"""

from __future__ import annotations

import secrets
import struct
import time
from collections.abc import Iterator
from pathlib import Path

from slackwater.core.errors import SlackwaterError
from slackwater.runtime.spark.state.pages import FORMAT, HOT, Mark, Number, check_format
from slackwater.sinks.folder import writing

_HEAD = struct.Struct("<HxxI16s")
"""Format, the oldest micro-batch that counts, the name of the write."""
ABANDONED = 600
"""Seconds after which a file under a hidden name is one of a task that has died."""


class PageFiles:
    """The files of one shard, as one micro-batch reads and writes them."""

    def __init__(self, folder: Path, micro_batch: int) -> None:
        self._folder, self._now = folder, micro_batch
        self._new: dict[bool, bytes] = {}
        """The pages of this micro-batch, by whether they are hot."""
        self._oldest_before = 0

    def _file(self, micro_batch: int, hot: bool = False) -> Path:
        return self._folder / f"{micro_batch:010d}.{'hot' if hot else 'pages'}"

    def mark(self) -> Mark | None:
        """Where the last micro-batch left the shard; None in the first one."""
        if self._now == 0:
            return None
        try:
            with self._file(self._now - 1).open("rb") as file:
                found, self._oldest_before, name = _HEAD.unpack(file.read(_HEAD.size))
        except FileNotFoundError:
            raise SlackwaterError(
                f"{self._file(self._now - 1)}, the state after micro-batch {self._now - 1}, is not there; put it back,"
                " or use a new checkpoint folder"
            ) from None
        check_format(found)
        return Mark(self._now - 1, name.decode())

    def next_epoch(self, before: Mark | None) -> int:
        """Epochs are the micro-batches."""
        return self._now

    def all(self) -> Iterator[tuple[Number, bytes]]:
        """The pages up to the mark that count."""
        if self.mark() is None:
            return
        self._tidy()
        for number in (*((one, 0) for one in range(self._oldest_before, self._now)), (self._now - 1, HOT)):
            value = self.get(number)
            if value is None:
                raise SlackwaterError(
                    f"{self._file(number[0], number[1] == HOT)}, a part of the state, is not there; put it back, or use"
                    " a new checkpoint folder"
                )
            yield number, value

    def get(self, number: Number) -> bytes | None:
        """One page."""
        try:
            return self._file(number[0], number[1] == HOT).read_bytes()[_HEAD.size :]
        except FileNotFoundError:
            return None

    def has(self, number: Number) -> bool:
        """Whether a page counts still."""
        return number == (self._now - 1, HOT) or (number[1] == 0 and number[0] >= self._oldest_before)

    def put(self, number: Number, value: bytes) -> None:
        """Take a page of this micro-batch; there is one of each kind."""
        assert number in ((self._now, 0), (self._now, HOT))
        self._new[number[1] == HOT] = value

    def drop(self, number: Number) -> None:
        """Nothing yet: this micro-batch may run again, and needs it then."""

    def commit(self, mark: Mark, oldest: int) -> None:
        """Let the files of this micro-batch appear, and remove those that nobody can need any more."""
        with writing(self._folder):
            self._folder.mkdir(parents=True, exist_ok=True)
            # The hot one first: the other one says that the micro-batch is done.
            for hot in (True, False):
                hidden = self._folder / f".{self._now}-{secrets.token_hex(8)}"
                with hidden.open("wb") as file:
                    file.write(_HEAD.pack(FORMAT, oldest, mark.name.encode()))
                    file.write(self._new[hot])
                hidden.replace(self._file(self._now, hot))
        self._file(self._now - 2, hot=True).unlink(missing_ok=True)
        gone = self._oldest_before - 1
        while gone >= 0 and self._file(gone).exists():
            self._file(gone).unlink(missing_ok=True)
            gone -= 1

    def _tidy(self) -> None:
        """Remove what tasks that were killed have left."""
        for file in self._folder.iterdir():
            old = file.suffix == ".pages" and int(file.stem) < self._oldest_before
            old = old or (file.suffix == ".hot" and int(file.stem) < self._now - 1)
            if old or (file.name.startswith(".") and time.time() - file.stat().st_mtime > ABANDONED):
                file.unlink(missing_ok=True)
