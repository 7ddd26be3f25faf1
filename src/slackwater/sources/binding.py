"""Queries over tables: bound to their columns, and planned by what they say: rates, what a tuple weighs, and how many
rows operators have.

Invariant: a column whose type no query can read is never passed over in silence: naming it is an error that says so,
and `SELECT *` leaves it out with a word. Only queries that are planned by rates are asked for them: those whose windows
follow rates, and those over instantaneous windows. Others pay nothing for it. Rows of operators are counted at the end
of each table, at most SAMPLE of it, however long it is. A plan changes which way a query is computed, and never its
results.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.core.batch import TS
from slackwater.core.errors import QueryError
from slackwater.core.nested import column_at, leaves, nested
from slackwater.core.schema import DIGITS, Schema, kind_of, type_name
from slackwater.core.time import SECOND
from slackwater.expressions.columnar import Coding
from slackwater.expressions.tree import Column
from slackwater.language.bind import Bound, bind
from slackwater.language.bound import (
    BoundQuery,
    InstantQuery,
    RowsQuery,
    StreamRef,
    rates_anywhere,
    raw_streams,
    streams_read,
)
from slackwater.language.dialect import sources_of
from slackwater.operators.contract import BuildContext
from slackwater.operators.instant.spec import InstantRelation
from slackwater.operators.instant.store import WindowStore
from slackwater.operators.instant.table_statistics import take_statistics
from slackwater.plan.instant import on_engines_by
from slackwater.plan.physical import PhysicalPlan
from slackwater.plan.planner import plan
from slackwater.plan.rate_model import Expected
from slackwater.sources.codebook import Codebook
from slackwater.sources.encode import GOOD, encode_time
from slackwater.sources.files import schema_of
from slackwater.sources.ingest import ingest


def bind_to_tables(text: str, tables: Mapping[str, pa.Table], time: str) -> Bound:
    """Bind a query to the columns of tables, by the names of its sources.

    >>> bind_to_tables("SELECT v FROM s", {"s": pa.table({"ts": [1], "v": [2]})}, "ts").query.outputs[0].name
    'v'
    """
    try:
        return bind(text, _schemas(text, tables, time))
    except QueryError as error:
        raise _unreadable_column(error, tables) or error from None


def _schemas(text: str, tables: Mapping[str, pa.Table], time: str) -> dict[str, Schema]:
    read = {name.lower() for name in sources_of(text)}
    found = {}
    for name, table in tables.items():
        try:
            found[name] = schema_of(name, table, time)
        except QueryError:
            # A program may have more streams at hand than this query reads; those need no event times.
            if name.lower() in read:
                raise
    return found


def left_out(query: BoundQuery, tables: Mapping[str, pa.Table]) -> list[str]:
    """Columns that `SELECT *` cannot give because no query can read their type, as alias.column (type)."""
    inside = [name for stream in streams_read(query) if stream.query for name in left_out(stream.query, tables)]
    if not isinstance(query, RowsQuery):
        return inside
    given = {(item.expr.stream, item.expr.name) for item in query.outputs if isinstance(item.expr, Column)}
    return inside + [
        f"{stream.alias}.{name} ({type_name(leaf.type)})"
        for position, stream in enumerate(query.streams)
        if stream.query is None and all((position, name) in given for name in stream.schema.names)
        for name, leaf in leaves(tables[stream.source].schema).items()
        if kind_of(leaf.type) is None and name != stream.schema.time
    ]


def _unreadable_column(error: QueryError, tables: Mapping[str, pa.Table]) -> QueryError | None:
    """A better error where the place of this one is the name of a column whose type no query can read."""
    if error.start is None:
        return None
    named = _named_at(error.text, error.start, error.stop or error.start)
    for name, table in tables.items():
        for column, type_ in _unreadable(table.schema).items():
            # The place of the error may be the last part of a name; what stands before it may be an alias.
            if named == column.lower() or named.endswith("." + column.lower()):
                message = f"column '{column}' of stream {name} holds {type_name(type_)}{_remedy(column, type_)}"
                return QueryError(message, error.text, error.start, error.stop)
    return None


def _unreadable(schema: pa.Schema) -> dict[str, pa.DataType]:
    """Columns and fields that no query can read, by their path, the longest paths first; nested columns themselves
    are among them."""
    found = {name: leaf.type for name, leaf in leaves(schema).items() if kind_of(leaf.type) is None}
    found |= nested(schema)
    return dict(sorted(found.items(), key=lambda one: -len(one[0])))


def _remedy(column: str, type_: pa.DataType) -> str:
    if pa.types.is_decimal(type_) and 0 <= type_.scale <= DIGITS:
        return f"; at most {DIGITS} digits can be read; cast it to decimal({DIGITS}, {type_.scale}) or double"
    if pa.types.is_struct(type_) and type_.num_fields:
        return f", which a query cannot read; name a field of it, as in {column}.{_first_field(type_)}"
    return ", which a query cannot read"


def _first_field(type_: pa.DataType) -> str:
    return next(iter(leaves(pa.schema(list(type_)))), type_.field(0).name)


_PATH = re.compile(r"""(?:(?:\w+|"[^"]*"|`[^`]*`)\s*\.\s*)*$""")


def _named_at(text: str, start: int, stop: int) -> str:
    """The name whose last part stands at a place of the text, in lower case, without quotes."""
    before = _PATH.search(text, 0, start)
    written = (before.group() if before else "") + text[start:stop]
    return re.sub(r"""["`\s]""", "", written).lower()


SAMPLE = 1 << 17
"""Rows of a table that are looked at."""
NEWEST = 0.99
"""Event times beyond this quantile may be wrong, and are not gone by."""
WORD = 8
"""Bytes of a value, where nothing says what a tuple weighs."""
STRAYS = 100
"""One in so many event times at either end may be wrong by any amount, and is not gone by."""


def plan_over(
    query: BoundQuery,
    tables: Mapping[str, pa.Table],
    time_unit: str,
    *,
    count_only: bool = False,
    identities: bool = False,
) -> PhysicalPlan:
    """The plan of a query over recorded streams."""
    expected = expected_of(query, tables, time_unit)
    made = plan(query, count_only=count_only, identities=identities, expected=expected)
    spec = made.operator.as_relations
    return made if spec is None else _measured(made, spec, tables, time_unit, expected)


def _measured(
    made: PhysicalPlan,
    spec: InstantRelation,
    tables: Mapping[str, pa.Table],
    time_unit: str,
    expected: Mapping[str, Expected],
) -> PhysicalPlan:
    """The plan by table statistics of the newest windows that all streams have filled; as it is where there are
    none."""
    codebook = Codebook()
    found, rates = [], {}
    for stream, one in enumerate(made.inputs):
        table = tables[one.stream.source]
        taken = ingest(one, table.slice(max(0, len(table) - SAMPLE)), codebook, time_unit)
        good = taken.reasons == GOOD
        keep = good & taken.passes
        if not keep.any() or one.stream.source not in expected:
            return made
        rates[stream] = expected[one.stream.source].rate * float(keep.sum() / good.sum())
        places = [place for _, place in spec.places[stream]]
        found.append((taken.words[TS, keep], taken.words[places][:, keep]))
    newest = min(float(np.quantile(ts, NEWEST)) for ts, _ in found)
    at = (int(newest) // spec.slide + 1) * spec.slide
    stores = []
    for ts, words in found:
        stores.append(WindowStore(len(words)))
        stores[-1].append(ts[ts < at], words[:, ts < at])
    statistics = take_statistics(spec.as_stated, stores, at, BuildContext(Coding(codebook), codebook.table))
    return on_engines_by(made, spec, statistics, rates)


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
