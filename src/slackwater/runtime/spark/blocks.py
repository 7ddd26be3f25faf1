"""Blocks: the tuples of one input, one partition and one shard as one binary row.

A block crosses between JVM and Python as a whole. It is an Arrow record batch of words; text travels as codes of a
small dictionary of its own, which the shard translates into its codes.

Invariant: a block read back gives the words that were written, with every text code translated.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Protocol

import numpy as np
import pyarrow as pa

from slackwater.model.batch import Words
from slackwater.model.schema import NULL_WORD

TEXTS, ROWS = b"texts", b"rows"


class Texts(Protocol):
    """What text a code stands for."""

    def __getitem__(self, code: int, /) -> str: ...


def write_block(words: Words, text_rows: tuple[int, ...], texts: Texts, without: tuple[int, ...] = ()) -> bytes:
    """Words of shape (rows, tuples) as bytes; codes in `text_rows` are places in `texts`, rows in `without` stay here.

    >>> words = np.array([[1, 2], [0, 1], [1, NULL_WORD]])
    >>> read_block(write_block(words, (2,), ["x", "y"]), (2,), {"x": 7, "y": 8}.__getitem__)[2].tolist()[0]
    8
    """
    used: dict[int, int] = {}
    sent = words.copy() if text_rows else words
    for row in text_rows:
        codes, place = np.unique(words[row], return_inverse=True)
        known = np.array([NULL_WORD if c == NULL_WORD else used.setdefault(c, len(used)) for c in codes.tolist()])
        sent[row] = known[place] if len(codes) else sent[row]
    rows = [r for r in range(len(sent)) if r not in without]
    schema = pa.schema([(f"w{r}", pa.int64()) for r in rows])
    told = {TEXTS: json.dumps([texts[code] for code in used]).encode(), ROWS: str(len(sent)).encode()}
    schema = schema.with_metadata(told)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(pa.record_batch([pa.array(sent[r]) for r in rows], schema=schema))
    return sink.getvalue().to_pybytes()


def read_block(block: bytes, text_rows: tuple[int, ...], code: Callable[[str], int], number: int = 0) -> Words:
    """The words of a block, text in the codes of the reader; a row that was not written counts up from a number."""
    table = pa.ipc.open_stream(block).read_all()
    words = np.empty((int(table.schema.metadata[ROWS]), table.num_rows), np.int64)
    for r in range(len(words)):
        name = f"w{r}"
        known = name in table.column_names
        words[r] = table.column(name).to_numpy() if known else np.arange(number, number + table.num_rows)
    if text_rows:
        codes = np.array([code(text) for text in json.loads(table.schema.metadata[TEXTS])] + [NULL_WORD], np.int64)
        for row in text_rows:
            words[row] = codes[np.where(words[row] == NULL_WORD, len(codes) - 1, words[row])]
    return words


def as_bytes(table: pa.Table) -> bytes:
    """A table as one Arrow stream."""
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()
