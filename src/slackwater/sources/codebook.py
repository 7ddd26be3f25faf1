"""Text as numbers: one code per distinct string of a query.

Invariant: equal strings have equal codes in all streams, literals and processes, so text is compared as integers; of
two different strings with one code the second is not taken in: its row is rejected, or it is an error. Literals are
kept for ever, texts of the data for as long as somebody holds their codes: `sweep` lets go of the others. What
`snapshot_delta` has given so far, applied in order, is exactly the texts of the data that are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.core.batch import Flags, Words
from slackwater.core.errors import DataError
from slackwater.core.schema import NULL_WORD
from slackwater.core.state import StateUpdate, state_update
from slackwater.expressions.text_table import TextTable
from slackwater.expressions.texts import Numbers

FEW = 1 << 16
"""No sweep is worth its while for fewer texts, and so many are given whole as the dictionary of a column."""
FEW_BYTES = 1 << 24
MOST_CHUNKS = 64
"""Chunks of persisted texts at which they are written anew as one."""
NAMESPACE = "texts"


class Codebook:
    """Codes for the strings of one query.

    >>> book = Codebook()
    >>> codes = book.encode(pa.array(["btc", None, "eth", "btc"]))
    >>> bool(codes[0] == codes[3] == book.code("btc")), bool(codes[1] == NULL_WORD)
    (True, True)
    >>> book.decode(codes[[2, 0, 1]]).to_pylist()
    ['eth', 'btc', None]
    """

    def __init__(self, secret: int = 0) -> None:
        self.table = TextTable(secret)
        self._literals: dict[str, int] = {}
        self._dictionary = pa.array([], pa.string())
        self._limit, self._byte_limit = FEW, FEW_BYTES
        self._saved = 0
        """Entries that are persisted: the first so many."""
        self._chunks: list[str] = []
        self._gone: list[str] = []
        """The chunks they are persisted in, and those that are to be dropped."""
        self._next = 0

    def __len__(self) -> int:
        """How many texts are kept."""
        return len(self.table)

    def code(self, text: str) -> int:
        """The code of a literal, which is kept for ever."""
        if text not in self._literals:
            self._literals[text] = int(self.encode(pa.array([text], pa.string()))[0])
        return self._literals[text]

    def encode(self, values: pa.Array | pa.ChunkedArray) -> Words:
        """The codes of a column of strings."""
        codes, clash = self.take_in(values)
        if clash.any():
            at = int(np.argmax(clash))
            (other,) = self.decode(codes[at : at + 1]).to_pylist()
            raise DataError(f"the texts '{values[at].as_py()}' and '{other}' have the same hash; rename one of them")
        return codes

    def take_in(self, values: pa.Array | pa.ChunkedArray) -> tuple[Words, Flags]:
        """The same, and which of the strings have the code of another one that is kept; they are not kept."""
        if isinstance(values, pa.ChunkedArray):
            parts = [self.take_in(chunk) for chunk in values.chunks]
            if len(parts) == 1:
                return parts[0]
            none = np.zeros(0, np.int64), np.zeros(0, np.bool_)
            codes, clash = (np.concatenate(column) for column in zip(none, *parts, strict=True))
            return codes, clash
        if pa.types.is_dictionary(values.type):
            codes, clash = self.take_in(values.dictionary)
            codes, clash = np.append(codes, NULL_WORD), np.append(clash, False)
            index = pc.fill_null(values.indices.cast(pa.int64()), len(codes) - 1).to_numpy(zero_copy_only=False)
            return np.asarray(codes[index], np.int64), clash[index]
        return self.table.take_in(*_buffers(values))

    def decode(self, codes: Words) -> pa.Array:
        """The strings of a column of codes, as a dictionary."""
        entry = self.table.find(codes)
        missing = entry < 0
        mask = missing if missing.any() else None
        # Results leave in many small tables; few texts are made into a dictionary once, for all of them.
        if len(self.table) <= FEW:
            if len(self._dictionary) != len(self.table):
                self._dictionary = self._strings(np.arange(len(self.table), dtype=np.int32))
            return pa.DictionaryArray.from_arrays(pa.array(entry, mask=mask), self._dictionary)
        index = pa.array(np.arange(len(entry), dtype=np.int32), mask=mask)
        return pa.DictionaryArray.from_arrays(index, self._strings(entry))

    def texts_of(self, codes: Words) -> pa.Array:
        """The distinct texts of codes, each once."""
        marks = np.zeros(len(self.table), np.bool_)
        self.table.mark(np.ascontiguousarray(codes).reshape(-1), marks)
        return self._strings(np.flatnonzero(marks).astype(np.int32))

    def _strings(self, entry: Numbers) -> pa.Array:
        ends, data = self.table.gather(entry)
        if ends[-1] < 2**31:
            return pa.StringArray.from_buffers(len(entry), pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(data))
        return pa.LargeStringArray.from_buffers(len(entry), pa.py_buffer(ends), pa.py_buffer(data))

    @property
    def due(self) -> bool:
        """Whether so many texts have come since the last sweep that the next one is worth its while."""
        return len(self.table) >= self._limit or self.table.used >= self._byte_limit

    def sweep(self, held: Iterable[Words]) -> None:
        """Let go of every text whose code is not among these words, whatever they mean."""
        marks = np.zeros(len(self.table), np.bool_)
        self.table.mark(np.fromiter(self._literals.values(), np.int64), marks)
        for words in held:
            self.table.mark(words, marks)
        if not marks.all():
            self._keep(np.flatnonzero(marks).astype(np.int32))
        self._limit = max(FEW, 2 * len(self.table))
        self._byte_limit = max(FEW_BYTES, 2 * self.table.used)

    def _keep(self, entry: Numbers) -> None:
        self.table.keep(entry)
        self._dictionary = pa.array([], pa.string())
        self._write_anew()

    def _write_anew(self) -> None:
        self._gone += self._chunks
        self._chunks, self._saved = [], 0

    def snapshot_delta(self) -> Iterator[StateUpdate]:
        """What to persist since the last call: new texts as one chunk, after a sweep all that are left."""
        count = len(self.table)
        if count > self._saved and len(self._chunks) >= MOST_CHUNKS:
            self._write_anew()
        if count > self._saved:
            texts = self._strings(np.arange(self._saved, count, dtype=np.int32))
            self._chunks.append(f"{self._next:012d}")
            self._next += 1
            yield state_update(NAMESPACE, self._chunks[-1], write_texts(texts))
        for key in self._gone:
            yield state_update(NAMESPACE, key, None)
        self._gone, self._saved = [], count

    def restore(self, entries: Iterable[StateUpdate]) -> None:
        """Take over all chunks, or those that were written or dropped since this codebook was up to date."""
        entries = sorted(entries, key=lambda entry: entry.key)
        # Chunks are dropped all together, so whatever is left of them was written later, and is given here.
        if any(entry.value is None for entry in entries):
            self._keep(self.table.find(np.fromiter(self._literals.values(), np.int64)))
            self._chunks = []
        for entry in entries:
            self._next = max(self._next, int(entry.key) + 1)
            if entry.value is not None:
                self.encode(read_texts(entry.value))
                self._chunks.append(entry.key)
        self._gone, self._saved = [], len(self.table)


def write_texts(texts: pa.Array) -> bytes:
    """Texts as an Arrow stream.

    >>> read_texts(write_texts(pa.array(["btc", "eth"]))).to_pylist()
    ['btc', 'eth']
    """
    batch = pa.record_batch([texts], names=["text"])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def read_texts(value: bytes | pa.NativeFile) -> pa.ChunkedArray:
    """The inverse of `write_texts`; of a file, what it holds from where it stands."""
    return pa.ipc.open_stream(value).read_all().column("text")


def _buffers(values: pa.Array) -> tuple[Words, npt.NDArray[np.uint8], Flags]:
    """Where the texts of a column end, their bytes, and which of them are null."""
    if not (pa.types.is_string(values.type) or pa.types.is_large_string(values.type)):
        values = values.cast(pa.large_string())
    n, (_, offsets, data) = len(values), values.buffers()
    width = np.int32 if pa.types.is_string(values.type) else np.int64
    if n == 0 or offsets is None:
        ends = np.zeros(n + 1, np.int64)
    else:
        ends = np.frombuffer(offsets, width)[values.offset : values.offset + n + 1].astype(np.int64, copy=False)
    null = values.is_null().to_numpy(zero_copy_only=False) if values.null_count else np.zeros(n, np.bool_)
    return ends, np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8), null
