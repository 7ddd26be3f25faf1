"""The column engine: a fragment of a tree as one statement of a database inside the worker, run at every instant (MIG).

The database reads the chunks of a window where they lie, as Arrow record batches over the same memory: nothing is sent
when tuples come, and nothing deleted when they go. What the row engine makes of each tuple is read in the same way;
what it computes at an instant is handed over as one batch. So the database holds nothing, and a restart or another
placement has nothing to move.

Invariant: the rows of an instant are those that the row engine would give, in some order. A null is told by validity,
which is made once for each chunk that has nulls.

References: 004 §6.2 (MIG operator).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from slackwater.core.batch import Flags, Words
from slackwater.core.errors import DataError, UsageError
from slackwater.core.schema import NULL_FLOAT, NULL_WORD, Field, Kind
from slackwater.expressions.relational import Given, Relation, Scan, operators
from slackwater.operators.contract import BuildContext
from slackwater.operators.instant.blocks import Block, empty
from slackwater.operators.instant.fragments import Fragment
from slackwater.operators.instant.row_engine import Instant, Node
from slackwater.operators.instant.sql import Statement, can_be_column
from slackwater.operators.instant.store import Chunk, WindowStore
from slackwater.operators.instant.windows import Windows, window_under

_NAN = np.array(np.nan).view(np.int64)


def connected() -> Any:
    """A database of its own, in memory."""
    try:
        import duckdb
    except ImportError as error:
        raise UsageError("the column engine is DuckDB, which is not installed: pip install duckdb") from error
    return duckdb.connect(":memory:")


def arrow_of(words: Words, n: int, columns: Sequence[Field]) -> pa.RecordBatch:
    """The first rows of some words as a record batch over the same memory."""
    arrays = []
    for at, column in enumerate(columns):
        is_float = column.kind is Kind.FLOAT
        row = words[at, :n]
        valid = row != (NULL_FLOAT if is_float else NULL_WORD)
        bits = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
        kind = pa.float64() if is_float else pa.int64()
        arrays.append(pa.Array.from_buffers(kind, n, [bits, pa.py_buffer(row)]))
    if not arrays:
        # A batch must have a column to have rows.
        return pa.record_batch([pa.nulls(n, pa.int8())], names=["nothing"])
    return pa.record_batch(arrays, names=[f"c{at}" for at in range(len(arrays))])


def words_of(table: pa.Table, columns: Sequence[Field]) -> Block:
    """What a statement has given, as words."""
    n = table.num_rows
    words = np.empty((len(columns), n), np.int64)
    for at, column in enumerate(columns):
        array = table.column(at).combine_chunks()
        if column.kind is Kind.FLOAT:
            floats = array.fill_null(0.0).to_numpy(zero_copy_only=False)
            words[at] = np.where(np.isnan(floats), _NAN, np.ascontiguousarray(floats).view(np.int64))
            null = NULL_FLOAT
        else:
            words[at] = array.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
            null = NULL_WORD
        if array.null_count:
            words[at, array.is_null().to_numpy(zero_copy_only=False)] = null
    return Block(words, n)


class SeenWindow:
    """A window as the database sees it."""

    def __init__(self, store: WindowStore, size: int, columns: Sequence[Field]) -> None:
        self._store, self._size, self._columns = store, size, columns
        self._whole: dict[int, pa.RecordBatch] = {}
        self._none = arrow_of(empty(len(columns)).words, 0, columns)

    def at(self, instant: int) -> pa.Table:
        """Its rows at an instant."""
        batches = [self._batch(chunk, inside) for chunk, inside in self._store.parts(instant - self._size, instant)]
        first = self._store.chunks[0].number if self._store.chunks else 0
        for number in [number for number in self._whole if number < first]:
            del self._whole[number]
        return pa.Table.from_batches(batches, self._none.schema)

    def _batch(self, chunk: Chunk, inside: slice | Flags) -> pa.RecordBatch:
        whole = self._whole.get(chunk.number)
        if whole is None:
            whole = arrow_of(chunk.words, chunk.n, self._columns)
            if chunk.n == len(chunk.ts):
                self._whole[chunk.number] = whole
        if isinstance(inside, slice):
            return whole.slice(inside.start, inside.stop - inside.start)
        return whole.take(pa.array(np.flatnonzero(inside)))


class ColumnFragment(Node):
    """A fragment on the column engine."""

    def __init__(
        self, relation: Relation, fragments: Sequence[Fragment], windows: Windows, context: BuildContext
    ) -> None:
        refused = [type(node).__name__.lower() for node in operators(relation) if not can_be_column(node)]
        if refused:
            raise UsageError(
                f"the column engine cannot compute a {refused[0]} of this query exactly; use the row engine"
            )
        self._relation, self.columns = relation, len(relation.columns)
        self._database = connected()
        self._windows: dict[str, SeenWindow] = {}
        self._given: dict[str, tuple[int, Sequence[Field]]] = {}
        self._fragments, self._stores = fragments, windows
        self._statement = Statement(self._leaf, context.encode_text).of(relation)

    def _leaf(self, leaf: Scan | Given) -> str:
        """The name of a leaf; every leaf has its own, for windows of one stream may differ in range."""
        if isinstance(leaf, Given) and window_under(self._fragments[leaf.fragment].relation) is None:
            name = f"given{leaf.fragment}"
            self._given[name] = (leaf.fragment, leaf.columns)
            return name
        rows = leaf if isinstance(leaf, Scan) else self._fragments[leaf.fragment].relation
        scan = window_under(rows)
        assert scan is not None, "rows of one window"
        name = f"window{scan.stream}_{scan.range}" if isinstance(leaf, Scan) else f"rows{leaf.fragment}"
        self._windows.setdefault(name, SeenWindow(self._stores.rows_of(rows), scan.range, rows.columns))
        return name

    def blocks(self, instant: Instant) -> Iterator[Block]:
        tables = {name: window.at(instant.at) for name, window in self._windows.items()}
        for name, (fragment, columns) in self._given.items():
            given = instant.given[fragment]
            tables[name] = pa.Table.from_batches([arrow_of(given.words, given.n, columns)])
        for name, table in tables.items():
            self._database.register(name, table)
        try:
            found = self._database.sql(self._statement).to_arrow_table()
        except Exception as error:
            raise DataError(f"the column engine could not compute an instant: {str(error).splitlines()[0]}") from error
        yield words_of(found, self._relation.columns)


class ReadWhereKept(Node):
    """Rows of the row engine that the database reads where they are kept, so that nothing is computed at an instant."""

    def __init__(self, relation: Relation) -> None:
        self.columns = len(relation.columns)

    def blocks(self, instant: Instant) -> Iterator[Block]:
        return iter(())
