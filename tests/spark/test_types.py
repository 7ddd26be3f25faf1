"""Every type of Spark as event time, key, value and payload: it works and comes back as it was, or is refused by name.

Columns of all types are made from one stream of numbers, and few queries read them all: what is asked of one type is
then looked up in their results.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark", reason="the Spark runtime needs pyspark")

from pyspark.sql import DataFrame, Row, SparkSession

import slackwater as sw
from slackwater.core.errors import QueryError

pytestmark = pytest.mark.xdist_group("spark")

ROWS = 12


@dataclass(frozen=True)
class Type:
    """A type by Spark's name for it, and how a column of it is made from `id`."""

    name: str
    made: str
    readable: bool = True
    summed: str | None = None
    """What SUM of it is, by Spark's name; None where there is no sum."""
    clock: str | None = None
    """How an event time of it is made, from 1970 on by the second (a date: by the day); None where it can be none."""

    @property
    def column(self) -> str:
        return "c_" + "".join(letter if letter.isalnum() else "_" for letter in self.name)


SECOND = "timestamp'2024-01-01 00:00:00+00:00' + make_dt_interval(0, 0, 0, id)"
CLOCK = "timestamp'1970-01-01 00:00:00+00:00' + make_dt_interval(0, 0, 0, id)"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TYPES = (
    Type("boolean", "id % 3 = 0"),
    Type("tinyint", "cast(id as tinyint)", summed="bigint", clock="cast(id as tinyint)"),
    Type("smallint", "cast(300 * id as smallint)", summed="bigint", clock="cast(id as smallint)"),
    Type("int", "cast(id as int)", summed="bigint", clock="cast(id as int)"),
    Type("bigint", "id * 10000000000", summed="bigint", clock="id"),
    Type("float", "cast(id / 4 as float)", summed="double", clock="cast(id as float)"),
    Type("double", "id / 3", summed="double", clock="cast(id as double)"),
    Type("decimal(9,2)", "cast(id - 5.25 as decimal(9,2))", summed="decimal(19,2)", clock="cast(id as decimal(9,2))"),
    Type("decimal(18,4)", "cast(id / 3 as decimal(18,4))", summed="decimal(28,4)", clock="cast(id as decimal(18,4))"),
    Type("decimal(38,10)", "cast(id as decimal(38,10))", readable=False, clock="cast(id as decimal(38,10))"),
    Type("string", "concat('text ', id)", clock=f"date_format({CLOCK}, \"yyyy-MM-dd'T'HH:mm:ssXXX\")"),
    Type("char(3)", "cast('abc' as char(3))"),
    Type("varchar(9)", "cast(concat('v', id) as varchar(9))"),
    Type("binary", "cast('bytes' as binary)", readable=False),
    Type("date", "date'2024-02-27' + cast(id as int)", clock="date'1970-01-01' + cast(id as int)"),
    Type("timestamp", f"{SECOND} + interval 7 hours", clock=CLOCK),
    Type(
        "timestamp_ntz",
        "timestamp_ntz'2024-03-10 02:30:00' + make_dt_interval(0, 0, 0, id)",
        clock="timestamp_ntz'1970-01-01 00:00:00' + make_dt_interval(0, 0, 0, id)",
    ),
    Type("interval day to second", "make_dt_interval(cast(id as int))", readable=False),
    Type("interval year to month", "make_ym_interval(cast(id as int))", readable=False),
    Type("interval", "make_interval(cast(id as int))", readable=False),
    Type("array<int>", "array(1, 2)", readable=False),
    Type("map<string,int>", "map('a', 1)", readable=False),
    Type("variant", "parse_json('1')", readable=False),
    Type("void", "null", readable=False),
)
READABLE = [one for one in TYPES if one.readable]
SUMMED = [one for one in READABLE if one.summed]
ORDERED = [*SUMMED, *(one for one in READABLE if one.name in ("date", "timestamp", "timestamp_ntz"))]
CLOCKS = [one for one in TYPES if one.clock]
by_name = pytest.mark.parametrize("one", TYPES, ids=lambda one: one.name)


@dataclass(frozen=True)
class World:
    """A stream of numbers, the columns of every type made of it, and what Spark itself makes of them."""

    stream: DataFrame
    still: DataFrame
    run: Callable[[DataFrame], DataFrame]


@pytest.fixture(scope="module")
def world(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """In a session whose zone is not UTC, and in which an hour of that night does not exist."""
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    folder = tmp_path_factory.mktemp("types")
    for number, begin in enumerate((0, ROWS // 2)):
        file = folder / f"{number}.parquet"
        pq.write_table(pa.table({"id": list(range(begin, begin + ROWS // 2))}), file)
        os.utime(file, (1_000_000 + number, 1_000_000 + number))
    made = [f"{SECOND} as ts", "id", *(f"{one.made} as {one.column}" for one in TYPES)]
    made += ["if(id = 3, null, named_struct('user', named_struct('id', id, 'tags', array(1)))) as event"]
    reader = spark.readStream.schema("id long").option("maxFilesPerTrigger", 1)
    count = 0

    def run(frame: DataFrame) -> DataFrame:
        nonlocal count
        count += 1
        out = folder.parent / f"{folder.name}-out-{count}"
        writer = frame.writeStream.format("parquet").option("checkpointLocation", str(out / "checkpoint"))
        writer.option("path", str(out / "rows")).trigger(availableNow=True).start().awaitTermination()
        return spark.read.parquet(str(out / "rows"))

    yield World(reader.parquet(str(folder)).selectExpr(*made), spark.read.parquet(str(folder)).selectExpr(*made), run)
    spark.conf.set("spark.sql.session.timeZone", before)


@dataclass(frozen=True)
class Found:
    """A result, fetched once for all that is asked of it: its columns with their types, and its rows."""

    types: dict[str, str]
    rows: list[Row]

    def values(self, column: str, by: str = "id") -> dict[Any, Any]:
        return {row[by]: row[column] for row in self.rows}


def found(frame: DataFrame) -> Found:
    return Found(dict(frame.dtypes), frame.collect())


@pytest.fixture(scope="module")
def still(world: World) -> Found:
    """What Spark itself makes of the numbers."""
    return found(world.still.select("id", *(one.column for one in READABLE)))


@pytest.fixture(scope="module")
def payload(spark: SparkSession, world: World) -> tuple[Found, list[str]]:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        out = sw.sql(spark, "SELECT * FROM s WITH NO WAIT", s=world.stream)
    return found(world.run(out)), [str(one.message) for one in said]


@by_name
def test_a_type_is_carried_as_payload_or_left_out_with_a_word(payload, still, one):
    carried, said = payload
    if not one.readable:
        assert one.column not in carried.types
        reported = one.name.replace(",", ", ") if one.name.startswith("decimal") else one.name
        assert f"s.{one.column} ({reported}) is left out; a query cannot read it" in said
        return
    assert carried.types[one.column] == still.types[one.column]
    given, wanted = carried.values(one.column), still.values(one.column)
    assert len(given) >= ROWS - 1
    assert given == {key: wanted[key] for key in given}


@pytest.fixture(scope="module")
def grouped(spark: SparkSession, world: World) -> Found:
    keys = ", ".join(one.column for one in READABLE)
    query = f"SELECT id AS number, {keys}, event.user.id, COUNT(*) AS n FROM s [RANGE 1 SECOND]"
    query += f" GROUP BY s.id, {keys}, event.user.id WITH NO WAIT"
    return found(world.run(sw.sql(spark, query, s=world.stream)))


@pytest.fixture(scope="module")
def joined(spark: SparkSession, world: World) -> set[int]:
    """Which numbers were paired, where the columns of all types had to be equal."""
    equal = " AND ".join(f"a.{one.column} = b.{one.column}" for one in READABLE)
    query = f"SELECT a.id AS id FROM a [RANGE 1 MS], b [RANGE 1 MS] WHERE {equal} WITH NO WAIT"
    return {row.id for row in world.run(sw.sql(spark, query, a=world.stream, b=world.stream)).collect()}


@by_name
def test_a_type_is_a_key_or_refused_by_name(spark, grouped, joined, world, still, one):
    if not one.readable:
        for query in (
            f"SELECT {one.column}, COUNT(*) AS n FROM s [1 s] GROUP BY {one.column}",
            f"SELECT a.id FROM s [1 s] a, s [1 s] b WHERE a.{one.column} = b.{one.column}",
        ):
            with pytest.raises(QueryError, match=f"column '{one.column}' of stream s holds ") as error:
                sw.sql(spark, query, s=world.stream)
            assert one.name in str(error.value).replace(", ", ",")
        return
    assert grouped.types[one.column] == still.types[one.column]
    given, wanted = grouped.values(one.column, "number"), still.values(one.column)
    assert len(given) >= ROWS - 2
    assert given == {key: wanted[key] for key in given}
    assert len(joined) >= ROWS - 1


@pytest.fixture(scope="module")
def aggregated(spark: SparkSession, world: World) -> tuple[Found, Found]:
    """Our sums and extremes by window, and Spark's own."""
    asked = [f"SUM({one.column}) AS sum_{one.column}" for one in SUMMED]
    asked += [f"{f}({one.column}) AS {f}_{one.column}" for one in ORDERED for f in ("MIN", "MAX")]
    asked += [f"COUNT({one.column}) AS COUNT_{one.column}" for one in READABLE]
    averaged = [one for one in SUMMED if one.name != "decimal(18,4)"]
    asked += [f"AVG({one.column}) AS avg_{one.column}" for one in averaged]
    ours = sw.sql(spark, f"SELECT {', '.join(asked)} FROM s [RANGE 4 SECONDS] WITH NO WAIT", s=world.stream)
    world.still.createOrReplaceTempView("still")
    window = "window(ts, '4 seconds')"
    theirs = spark.sql(f"SELECT {window}.start AS window_start, {', '.join(asked)} FROM still GROUP BY {window}")
    return found(world.run(ours)), found(theirs)


@by_name
def test_a_type_is_the_value_of_an_aggregate_or_refused_by_name(spark, aggregated, world, one):
    if not one.readable:
        with pytest.raises(QueryError, match=f"column '{one.column}' of stream s holds "):
            sw.sql(spark, f"SELECT MAX({one.column}) AS m FROM s [1 s]", s=world.stream)
        return
    ours, theirs = aggregated
    names = [name for name in ours.types if name.split("_", 1)[1] == one.column]
    assert names
    for name in names:
        assert ours.types[name] == theirs.types[name]
        given, wanted = (frame.values(name, "window_start") for frame in (ours, theirs))
        assert len(given) >= 2
        for window, value in given.items():
            assert value == (pytest.approx(wanted[window]) if isinstance(value, float) else wanted[window]), name
    if one.summed:
        assert ours.types[f"sum_{one.column}"] == one.summed


@pytest.fixture(scope="module")
def timed(spark: SparkSession, world: World) -> dict[str, dict[int, datetime]]:
    """When each number came, by an event time of each type; eight of them make one query."""
    found: dict[str, dict[int, datetime]] = {}
    for begin in range(0, len(CLOCKS), 8):
        some = {f"s{number}": one for number, one in enumerate(CLOCKS[begin : begin + 8])}
        frames = {name: world.stream.selectExpr(f"{one.clock} as at", "id") for name, one in some.items()}
        each = (f"SELECT '{one.name}' AS type, id, at FROM {name}" for name, one in some.items())
        query = f"{' UNION ALL '.join(each)} WITH NO WAIT OPTIONS (max_ahead = '100 days')"
        for row in world.run(sw.sql(spark, query, time="at", time_unit="s", **frames)).collect():
            found.setdefault(row.type, {})[row.id] = row.at.astimezone(UTC)
    return found


@by_name
def test_a_type_is_an_event_time_or_refused_by_name(spark, timed, world, one):
    if not one.clock:
        reported = "string" if "char" in one.name else one.name
        if reported != "string":
            with pytest.raises(QueryError, match=r"column 'at' of type .* cannot be an event time") as error:
                sw.sql(spark, "SELECT id FROM s", time="at", s=world.stream.withColumnRenamed(one.column, "at"))
            assert {"boolean": "bool"}.get(reported, reported) in str(error.value)
        return
    step = timedelta(days=1) if one.name == "date" else timedelta(seconds=1)
    assert timed[one.name] == {number: EPOCH + number * step for number in timed[one.name]}
    # The clocks of the others, which move by seconds, hold up dates after the first.
    assert len(timed[one.name]) >= (1 if one.name == "date" else 2)


def test_an_event_time_without_a_zone_or_hour_comes_back_as_it_is(spark, world):
    for name, type_, value in (
        ("date", "date", date(1970, 1, 3)),
        ("timestamp_ntz", "timestamp_ntz", datetime(1970, 1, 1, 0, 0, 2)),
    ):
        (one,) = (one for one in CLOCKS if one.name == name)
        frame = world.stream.selectExpr(f"{one.clock} as at", "id")
        out = sw.sql(spark, "SELECT id, at FROM s WITH NO WAIT OPTIONS (max_ahead = '100 days')", time="at", s=frame)
        assert dict(out.dtypes)["at"] == type_
        assert found(world.run(out)).values("at")[2] == value


def test_fields_of_nested_columns_are_read_by_their_path(payload, grouped):
    carried, said = payload
    nested = carried.values("event.user.id")
    assert [nested[number] for number in (2, 3, 4)] == [2, None, 4]
    assert "s.event.user.tags (array<int>) is left out; a query cannot read it" in said
    users = grouped.values("id", "number")
    assert [users[number] for number in (2, 3, 4)] == [2, None, 4]


@pytest.mark.parametrize(
    ("named", "reported"),
    [
        ("event", "column 'event' of stream s holds struct<user: struct<id: int64, tags: array<int>>>"),
        ("event.user.tags", "column 'event.user.tags' of stream s holds array<int>, which a query cannot read"),
        ("s.event.user.tags", "column 'event.user.tags' of stream s holds array<int>, which a query cannot read"),
        ("event.user.idd", "no column 'event.user.idd' in stream s; did you mean 'event.user.id'?"),
        ("c_decimal_38_10_", "at most 18 digits can be read; cast it to decimal(18, 10) or double"),
    ],
)
def test_what_cannot_be_read_is_refused_before_anything_starts(spark, world, named, reported):
    with pytest.raises(QueryError) as error:
        sw.sql(spark, f"SELECT {named} FROM s", s=world.stream)
    assert reported in str(error.value)


def test_late_rows_tell_decimals_and_dates_exactly(spark, world):
    frame = world.stream.selectExpr(
        "if(id = 11, timestamp_seconds(0), ts) as ts", "c_decimal_9_2_ as p", "c_date as d", "event"
    )
    out = sw.sql(spark, "SELECT p, d, event.user.id FROM s WITH NO WAIT", give="late", s=frame)
    (row,) = (json.loads(row.row) for row in world.run(out).collect())
    assert (row["p"], row["d"], row["event.user.id"]) == ("5.75", "2024-03-09", 11)
