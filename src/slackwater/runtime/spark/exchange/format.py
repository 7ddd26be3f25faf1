"""Blocks: the tuples of one input, one partition and one shard as one binary row.

A block crosses between JVM and Python as a whole. It is an Arrow record batch of words and, where there is text among
them, the distinct texts of the block in front of it. Codes are the same in every process, so they travel as they are.

Invariant: a block read back gives the words that were written, and the reader's codebook knows every text of theirs,
but for those whose code it has for another text.
"""

from __future__ import annotations

import io
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from slackwater.core.batch import Flags, Words
from slackwater.core.schema import NULL_WORD
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
