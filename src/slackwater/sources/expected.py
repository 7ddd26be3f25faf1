"""What is to be expected of streams that are there as tables: how fast they are, and what a tuple weighs.

Invariant: only queries that are planned by rates are told: those whose windows follow rates, and those over
instantaneous windows. Others need no such thing, and pay nothing for it.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.core.nested import column_at
from slackwater.core.time import SECOND
from slackwater.language.bound import BoundQuery, InstantQuery, StreamRef, rates_anywhere, raw_streams
from slackwater.plan.rate_model import Expected
from slackwater.sources.encode import GOOD, encode_time

WORD = 8
"""Bytes of a value, where nothing says what a tuple weighs."""
STRAYS = 100
"""One in so many event times at either end may be wrong by any amount, and is not gone by."""


def expected_of(query: BoundQuery, tables: Mapping[str, pa.Table], time_unit: str) -> dict[str, Expected]:
    """By source, what the tables say of the streams of a query; nothing of one that has no two event times."""
    if not (rates_anywhere(query) or isinstance(query, InstantQuery)):
        return {}
    found: dict[str, Expected] = {}
    size_by = query.options.size_by
    for stream in raw_streams(query):
        table = tables[stream.source]
        rate = rate_of(column_at(table, stream.schema.time), time_unit)
        if rate is not None:
            found[stream.source] = Expected(rate, _weight(stream, table, size_by))
    return found


def rate_of(times: pa.ChunkedArray, time_unit: str) -> float | None:
    """Tuples a second of event time, by all but the first and last hundredth of them.

    >>> rate_of(pa.chunked_array([[0, 500, 1000, 1500, 2000]]), "ms")
    2.0
    """
    words, reasons = encode_time(times, time_unit)
    known = np.sort(words[reasons == GOOD])
    strays = len(known) // STRAYS
    kept = known[strays : len(known) - strays]
    if len(kept) < 2 or kept[0] == kept[-1]:
        return None
    return (len(kept) - 1) * SECOND / float(kept[-1] - kept[0])


def _weight(stream: StreamRef, table: pa.Table, size_by: str | None) -> float:
    """Bytes of a tuple on average, by the column that says so, or by its number of values."""
    words = float(WORD * len(stream.schema.names))
    if size_by is None or size_by not in stream.schema:
        return words
    if not stream.schema[size_by].kind.numeric:
        return words
    sizes = column_at(table, size_by)
    mean = pc.mean(pc.if_else(pc.greater_equal(sizes, 0), sizes, None)).as_py()
    return words if mean is None else float(mean)
