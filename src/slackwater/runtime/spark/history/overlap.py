"""Rows of a stream that are in its history too.

Invariant: a row is found by its event time alone, or by its id among the rows of the history that are no further than
`APART` from it in event time. An id that is text is known by 64 bits of a hash: beside a billion rows, one in twenty
billion is taken for one of them.

It costs little to import where nothing has a history.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa

from slackwater.core.batch import Flags, Words
from slackwater.core.nested import column_at
from slackwater.runtime.history import APART, are_among, id_words
from slackwater.runtime.spark.exchange.files import read_file
from slackwater.runtime.spark.store import At, inside, store_at
from slackwater.sources.encode import GOOD, encode_time

PIECE = "slackwater_piece"
"""The column whose values are folders: pieces of a history."""
KEPT_PIECES = 32
"""Pieces whose ids a worker keeps."""


@dataclass(frozen=True)
class Overlap:
    """How rows are known again that are in the history of a stream."""

    time: str
    unit: str
    before: int
    """From this event time on no row is in it."""
    id: str | None = None
    """The column that names a row."""
    kept: pa.Field | None = None
    """The same in the pieces of the history."""
    folder: At = ""
    """The pieces of the history of this stream, where ids tell."""
    edges: tuple[int, ...] = ()

    def among(self, table: pa.Table) -> Flags:
        """Which rows of a table are in the history."""
        times, reasons = encode_time(column_at(table, self.time), self.unit)
        old = (reasons == GOOD) & (times < self.before)
        if self.id is None or self.kept is None or not old.any():
            return np.asarray(old, np.bool_)
        ids = id_words(column_at(table, self.id))
        times, at = times[old], np.flatnonzero(old)
        first, last = (np.searchsorted(self.edges, times + far, "right") for far in (-APART, APART))
        found = np.zeros(len(ids), np.bool_)
        for piece in range(int(first.min()), int(last.max()) + 1):
            known = ids_of(self.folder, piece, self.kept)
            near = at[(first <= piece) & (piece <= last)]
            found[near] |= are_among(ids[near], known)
        return found


@lru_cache(maxsize=KEPT_PIECES)
def ids_of(folder: At, piece: int, field: pa.Field) -> Words:
    """The ids of one piece, in their order."""
    files = files_of(folder, piece)
    column = [read_file(file, "parquet", pa.schema([field]), folder).column(0) for file in files]
    return np.unique(np.concatenate([np.zeros(0, np.int64), *map(id_words, column)]))


def files_of(folder: At, piece: int) -> list[str]:
    """The files of one piece, in their order."""
    store = store_at(inside(folder, f"{PIECE}={piece}"))
    return [store.path(name) for name in store.names() if name.endswith(".parquet")]
