"""Blocks and headers: the tuples of one input, one partition and one shard as one binary row, and what every shard
hears of a table that was packed, whichever of its tuples it gets.

A block crosses between JVM and Python as a whole. It is an Arrow record batch of words and, where there is text among
them, the distinct texts of the block in front of it. Codes are the same in every process, so they travel as they are.

Invariant: a block read back gives the words that were written, and the reader's codebook knows every text of theirs,
but for those whose code it has for another text. Clocks, delays and counts of a stream follow from headers alone. A
header is made once, and parsed once in a task, for all shards there.
"""

from __future__ import annotations

import io
import json
from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from slackwater.core.batch import Flags, Words
from slackwater.core.schema import NULL_WORD
from slackwater.disorder.event_times import of_sampled
from slackwater.disorder.release.state import NO_PARTITION
from slackwater.sources.codebook import Codebook, read_texts, write_texts

ROWS = b"rows"


def write_block(words: Words, text_rows: tuple[int, ...], codebook: Codebook, without: tuple[int, ...] = ()) -> bytes:
    """Words of shape (rows, tuples) as bytes, with the texts of `text_rows`; rows in `without` stay here.

    >>> mine, yours = Codebook(), Codebook()
    >>> words = np.stack([np.array([1, 2]), np.array([0, 1]), mine.encode(pa.array(["x", "y"]))])
    >>> read, clash = read_block(write_block(words, (2,), mine), (2,), yours)
    >>> bool((read == words).all()), yours.decode(read[2]).to_pylist(), bool(clash.any())
    (True, ['x', 'y'], False)
    """
    rows = [r for r in range(len(words)) if r not in without]
    schema = pa.schema([(f"w{r}", pa.int64()) for r in rows]).with_metadata({ROWS: str(len(words)).encode()})
    # It gives its bytes away without a copy.
    sink = io.BytesIO()
    if text_rows:
        sink.write(write_texts(codebook.texts_of(words[list(text_rows)])))
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(pa.record_batch([pa.array(words[r]) for r in rows], schema=schema))
    return sink.getvalue()


class OpenBlock:
    """A block whose texts have been given to a codebook, and whose words can be read to where they belong."""

    def __init__(self, block: bytes, text_rows: tuple[int, ...], codebook: Codebook) -> None:
        source = pa.BufferReader(block)
        self._text_rows, self._strange = text_rows, np.zeros(0, np.int64)
        if text_rows:
            codes, taken = codebook.take_in(read_texts(source))
            self._strange = codes[taken]
        self._table = pa.ipc.open_stream(source).read_all()
        self.rows, self.size = int(self._table.schema.metadata[ROWS]), self._table.num_rows

    def into(self, rows: Sequence[Words] | Words, number: int = 0) -> Flags:
        """Read the words, each row to its place; one that was not written counts up from a number. Returns which tuples
        have a text whose code stands for another one in the codebook: the text is null in them."""
        for r, row in enumerate(rows):
            name = f"w{r}"
            known = name in self._table.column_names
            row[:] = self._table.column(name).to_numpy() if known else np.arange(number, number + self.size)
        clash = np.zeros(self.size, np.bool_)
        for r in self._text_rows if len(self._strange) else ():
            there = np.isin(rows[r], self._strange)
            rows[r][there] = NULL_WORD
            clash |= there
        return clash


def read_block(block: bytes, text_rows: tuple[int, ...], codebook: Codebook) -> tuple[Words, Flags]:
    """The words of a block alone, and which tuples have a text whose code stands for another one."""
    opened = OpenBlock(block, text_rows, codebook)
    words = np.empty((opened.rows, opened.size), np.int64)
    return words, opened.into(words)


def as_bytes(table: pa.Table) -> bytes:
    """A table as one Arrow stream."""
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


UNCOUNTED = {"filtered": 0, "rejected": {}, "rows": 0}
"""What a header says to all shards but the first."""
FAILED = "failed"
"""What a header has, and nothing else, where a query has failed over these rows."""


class Reported(NamedTuple):
    """The event times of one partition of a stream, or of all of it."""

    name: int | None
    """The word of the partition."""
    shift: int
    buckets: Words
    """Columns of counts, latest and oldest times, as of `of_sampled`."""
    behind: Sequence[Sequence[int | None]] = ()
    """Where several filters are told of: for each, how far the oldest of a bucket is behind the latest of all."""


def parse_header(text: str) -> dict[str, Any]:
    """A header with its arrays."""
    header: dict[str, Any] = json.loads(text)
    if "reported" in header:
        header["reported"] = [
            Reported(name, shift, of_sampled(buckets), *behind)
            for name, (shift, buckets, *behind) in header["reported"]
        ]
        header["counts"] = [np.frombuffer(b64decode(one), np.int64).reshape(2, -1).copy() for one in header["counts"]]
    return header


def heralds(shards: Sequence[int], tasks: int) -> set[int]:
    """The first shard of every task: with its line a header comes to all shards there.

    >>> heralds((4, 5, 6, 7), 2), heralds((3, 0, 1), 4)
    ({4, 5}, {0, 1, 3})
    """
    return set({label % tasks: label for label in reversed(shards)}.values())


def counted_times(ts: Words, granularity: int) -> str:
    """Event times, cut to the granularity, and how many tuples have each.

    >>> header = {"reported": [], "counts": [counted_times(np.array([7, 5, 11]), 5)]}
    >>> parse_header(json.dumps(header))["counts"][0].tolist()
    [[5, 10], [2, 1]]
    """
    return b64encode(np.stack(np.unique(ts // granularity * granularity, return_counts=True)).tobytes()).decode()


def by_partition(words: Words, row: int) -> Iterator[tuple[int | None, Words | slice]]:
    """The partitions of a stream by their words, each with the places of its tuples; all where there are none."""
    if row == NO_PARTITION:
        yield None, slice(None)
        return
    # Sorted once: a look at all tuples for each partition would cost their product.
    order = np.argsort(words[row], kind="stable")
    names, begins = np.unique(words[row, order], return_index=True)
    for name, (begin, end) in zip(names.tolist(), pairwise([*begins.tolist(), len(order)]), strict=True):
        yield name, order[begin:end]


def texts_of(names: Sequence[int | None], is_text: bool, codebook: Codebook) -> list[str]:
    """The texts that words of partitions stand for: a shard gets those, too, of which it has no tuple."""
    if not is_text:
        return []
    texts: list[str | None] = codebook.decode(np.array(names, np.int64)).to_pylist()
    return [text for text in texts if text is not None]
