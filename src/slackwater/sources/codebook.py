"""Text as numbers: one code per distinct string of a query.

Invariant: equal strings have equal codes across all streams and literals of a query, so text is compared as integers.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.model.batch import Words
from slackwater.model.schema import NULL_WORD


class Codebook:
    """Codes for the strings of one query.

    >>> book = Codebook()
    >>> book.encode(pa.array(["btc", None, "eth", "btc"])).tolist() == [0, NULL_WORD, 1, 0]
    True
    >>> book.decode(np.array([1, 0, NULL_WORD])).to_pylist()
    ['eth', 'btc', None]
    """

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}
        self._texts: list[str] = []
        self._dictionary = pa.array([], pa.string())

    def code(self, text: str) -> int:
        """The code of one string."""
        code = self._codes.setdefault(text, len(self._texts))
        if code == len(self._texts):
            self._texts.append(text)
        return code

    @property
    def texts(self) -> list[str]:
        """All strings in the order of their codes."""
        return self._texts

    def encode(self, values: pa.Array | pa.ChunkedArray) -> Words:
        """The codes of a column of strings."""
        if isinstance(values, pa.ChunkedArray):
            values = values.combine_chunks()
        if not pa.types.is_dictionary(values.type):
            values = pc.dictionary_encode(values.cast(pa.large_string()))
        texts = values.dictionary.to_pylist()
        codes = np.array([NULL_WORD if text is None else self.code(text) for text in texts] + [NULL_WORD], np.int64)
        index = pc.fill_null(values.indices.cast(pa.int64()), len(texts)).to_numpy(zero_copy_only=False)
        return np.asarray(codes[index], np.int64)

    def decode(self, codes: Words) -> pa.Array:
        """The strings of a column of codes."""
        # Results leave in many small tables; the dictionary is made again only when there are new texts.
        if len(self._dictionary) < len(self._texts):
            self._dictionary = pa.array(self._texts, pa.string())
        missing = codes == NULL_WORD
        index = pa.array(np.where(missing, 0, codes).astype(np.int32), mask=missing)
        return pa.DictionaryArray.from_arrays(index, self._dictionary)
