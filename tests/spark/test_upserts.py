"""Change rows applied to tables: each micro-batch once, whatever is repeated, refused or killed.

PostgreSQL runs on loopback, where it is installed. Delta and Iceberg run where there is a build for the running Spark.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import slackwater as sw
from slackwater.core.errors import SlackwaterError, UsageError
from slackwater.runtime.spark.sinks import Called, sink, writer_of
from slackwater.runtime.spark.upsert import postgres as module
from slackwater.runtime.spark.upsert.changes import newest, newest_rows
from slackwater.runtime.spark.upsert.merge import DeltaTable
from slackwater.runtime.spark.upsert.postgres import PostgresTable
from slackwater.runtime.spark.upsert.topic import KEY as MESSAGE_KEY
from slackwater.runtime.spark.upsert.topic import VALUE, messages
from slackwater.runtime.spark.versions import as_table, build_of
from slackwater.testing.broker import UnavailableError
from tests.kit.change_rows import KEY, Rows, micro_batches, table_of
from tests.kit.postgres import Postgres
from tests.kit.processes import Process, python
from tests.spark.conftest import Streamed
from tests.spark.streams import pieces
from tests.spark.upserts_job import BATCHES, MORE, ROWS, RUN, frame_of
from tests.spark.upserts_session import FORMATS, TARGETS, jars

pytestmark = pytest.mark.xdist_group("spark")

Job = Callable[..., Process]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Postgres]:
    pytest.importorskip("psycopg", reason="the sink needs a client: pip install 'slackwater[postgres]'")
    try:
        made = Postgres()
    except UnavailableError as error:
        pytest.skip(str(error))
    with made:
        yield made


@pytest.fixture
def database(cluster: Postgres, request: pytest.FixtureRequest) -> Database:
    name = f"t{abs(hash(request.node.name)) % 10**8}"
    Database(cluster.dsn).run(f"CREATE DATABASE {name}")
    return Database(cluster.dsn.replace("dbname=postgres", f"dbname={name}"))


class Database:
    """A database of one test."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn

    def run(self, text: str) -> list[tuple[Any, ...]]:
        import psycopg

        with psycopg.connect(self.dsn, autocommit=True) as connection:
            done = connection.execute(text)  # type: ignore[arg-type]
            return done.fetchall() if done.description else []

    def totals(self) -> Rows:
        found = self.run("SELECT window_end, country, total, n, _version FROM totals")
        rows = {(row[0].astimezone(UTC), row[1]): tuple(row[2:]) for row in found}
        assert len(rows) == len(found), "a key is there twice"
        return rows

    def noted(self) -> list[tuple[Any, ...]]:
        return self.run("SELECT run, target, batch FROM slackwater_upserts ORDER BY run")


# Which row of a key counts.


def test_of_the_rows_of_a_key_the_one_with_the_highest_version_counts_in_spark_as_here(spark: SparkSession) -> None:
    (batch,) = micro_batches(1, rows=200)
    wanted = table_of([batch])
    for found in (newest_rows(batch, KEY), as_table(newest(frame_of(spark, batch), KEY))):
        assert found.column_names == batch.column_names
        keys = [(row["window_end"], row["country"]) for row in found.to_pylist()]
        assert len(keys) == len(set(keys)) > len(wanted)
        assert table_of([found.cast(batch.schema)]) == wanted


# What is refused before anything starts.


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda: sw.upsert("postgre", "t"), "no such kind of table; did you mean 'postgres'?"),
        (lambda: sw.upsert("oracle", "t"), "there are delta, iceberg, postgres, kafka"),
        (lambda: sw.upsert("postgres", "t", dns="host=x"), "no option 'dns'; did you mean 'dsn'?"),
        (lambda: sw.upsert("delta", ""), "name the table"),
        (lambda: sw.upsert("kafka", "t", key="k").check(["k"], "results"), "results: name the brokers"),
        (lambda: sw.upsert("delta", "a.`b", key="k").check(["k"], "results"), "'a.`b' is no name of a table"),
        (lambda: sw.upsert("postgres", "t").check(["k"], "results"), "results: an upsert needs a key: name the"),
        (
            lambda: sw.upsert("postgres", "t", key="contry").check(["country", "_change", "_version"], "results"),
            "no column 'contry' for the key of an upsert; did you mean 'country'?",
        ),
        (
            lambda: sw.upsert("postgres", "t", key="k").check(["k", "_version"], "results"),
            "a column '_version' and no '_change'",
        ),
        (lambda: sw.upsert("postgres", "t", key="k").check(["k", "K"], "results"), "'k' and 'K' differ by case alone"),
        (
            lambda: sw.upsert("postgres", "t", key="k").with_key(("w", "k")).check(["w", "_change", "_version"], "x"),
            r"is not what versions are counted by; leave it out, or write key=\['w', 'k'\]",
        ),
        (
            lambda: sw.upsert("postgres", "t", key="k", dsn="host=127.0.0.1 port=1").check(["k"], "results"),
            "results: no database answers for table 't'",
        ),
        (lambda: sw.upsert("postgres", "a.b.c", key="k").check(["k"], "results"), "write table or schema.table"),
    ],
)  # fmt: skip
def test_what_cannot_be_a_table_is_refused_in_one_sentence(made: Callable[[], object], said: str) -> None:
    with pytest.raises(UsageError, match=said) as told:
        made()
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("kind", FORMATS)
def test_a_session_without_the_format_is_told_which_versions_of_spark_have_a_build(
    spark: SparkSession, kind: str
) -> None:
    said = "has no" if build_of(kind) else r"no build of \w+ is known for Spark .*; there is one for 3\.5, 4\.0"
    with pytest.raises(UsageError, match=said):
        sw.upsert(kind, "t", key="k").check(["k"], "results")


def test_writers_say_whether_they_take_changes_and_are_given_the_key_of_a_plan() -> None:
    table = writer_of(sw.upsert("delta", "t"), "results")
    assert (table.takes_changes, Called(print).takes_changes) == (True, True)
    assert (sink("json", "x").takes_changes, sw.kafka_sink("127.0.0.1:1", "t").takes_changes) == (False, False)
    assert isinstance(table, type(sw.upsert("delta", "t")))
    assert table.with_key(("a", "b")).declared == ("a", "b")
    assert sink("json", "x").with_key(("a",)) == sink("json", "x")
    assert "secret" not in repr(sw.upsert("postgres", "t", dsn="password=secret"))


def test_a_path_and_a_name_are_quoted_as_what_they_are() -> None:
    assert DeltaTable("shop.by day").identifier == "`shop`.`by day`"
    assert DeltaTable("s3a://lake/a`b/").identifier == "delta.`s3a://lake/a``b`"
    assert DeltaTable("out/table").identifier == f"delta.`{Path.cwd()}/out/table`"


def test_messages_have_keys_that_do_not_depend_on_the_zone_of_a_session(spark: SparkSession) -> None:
    (batch,) = micro_batches(1, rows=3)
    before = spark.conf.get("spark.sql.session.timeZone")
    frame, found = frame_of(spark, batch), []
    for zone in ("UTC", "Asia/Tokyo"):
        spark.conf.set("spark.sql.session.timeZone", zone)
        found.append(as_table(messages(frame, KEY)).sort_by(MESSAGE_KEY).to_pylist())
    spark.conf.set("spark.sql.session.timeZone", before)
    assert found[0] == found[1]
    keys = {row[MESSAGE_KEY].decode() for row in found[0]}
    assert all(key.startswith('{"window_end":"2026-11-01T12:00:0') and "00000" in key for key in keys)
    assert all(b'"_version"' in row[VALUE] and b"_change" not in row[VALUE] for row in found[0])


# PostgreSQL.


def opened(database: Database, run: str = RUN, **more: Any) -> module.PostgresWriter:
    """The table of totals, for a process that has just started."""
    return PostgresTable("totals", database.dsn, **more).opened(run)


def test_a_table_is_the_answer_whatever_is_written_again_by_whom(database: Database) -> None:
    batches = micro_batches(12)
    for number, batch in enumerate(batches):
        opened(database).write(batch, KEY, number)
        assert database.totals() == table_of(batches[: number + 1])
        if number % 3 == 0:
            # A start after a kill, and a process that was taken for dead.
            opened(database).write(batch, KEY, number)
            opened(database).write(batches[number // 2], KEY, number // 2)
            assert database.totals() == table_of(batches[: number + 1])
    assert database.noted() == [(RUN, "public.totals", 11)]


def test_every_type_of_a_result_comes_back_as_it_was(spark: SparkSession, database: Database) -> None:
    schema = (
        "k string, small smallint, i int, n bigint, f float, d double, price decimal(12, 2), yes boolean, day date,"
        " at timestamp, local timestamp_ntz, raw binary, tags array<string>, place struct<x: double, at: timestamp>,"
        " `odd \"name\"; --` int, _change string, _version bigint"
    )  # fmt: skip
    at = datetime(2026, 11, 1, 12, 0, 0, 123457)
    full = (
        'a "quoted", text\n\\.', 1, 2, 1 << 60, 0.5, 0.1, Decimal("1234567890.12"), True, date(2026, 11, 1), at, at,
        b"\x00\xff", ["x", None], (float("nan"), at), 7, "insert", 0,
    )  # fmt: skip
    empty = ("", *[None] * 14, "insert", 0)
    table = sw.upsert("postgres", '"odd; DROP ""x"', key="k", dsn=database.dsn)
    table.of_run("1", "results").write(spark.createDataFrame([full, empty], schema), 0)
    found = database.run('SELECT * FROM "odd; DROP ""x" ORDER BY k DESC')
    there, nothing = found
    utc = at.replace(tzinfo=UTC)
    assert there[:12] == (*full[:9], utc, at, full[11])
    assert there[12:] == (["x", None], {"x": "NaN", "at": "2026-11-01T12:00:00.123457Z"}, 7, 0)
    assert nothing == ("", *[None] * 14, 0)


def test_a_table_that_does_not_fit_is_refused_by_the_name_of_its_column(database: Database) -> None:
    columns = "window_end timestamptz, country text, total double precision, n bigint, _version bigint"
    unique = ", UNIQUE NULLS NOT DISTINCT (country, window_end)"
    (batch,) = micro_batches(1)
    for made, said in (
        (columns.replace("n bigint", "n integer") + unique, "column 'n' is integer, and that of the results bigint"),
        (columns.replace("n bigint, ", "") + unique, "has no column 'n'"),
        (columns + ", seen date" + unique, "has a column 'seen', which the results do not have"),
        (columns, r'no unique index of the key: CREATE UNIQUE INDEX ON "totals" \("window_end", "country"\) NULLS NOT'),
        (columns + ", UNIQUE (window_end, country)", "takes two rows whose 'country' is null"),
        (columns + ", UNIQUE (window_end)", "no unique index of the key"),
    ):
        database.run(f"DROP TABLE IF EXISTS totals; CREATE TABLE totals ({made})")
        with pytest.raises(UsageError, match=said):
            opened(database).write(batch, KEY, 0)
        assert database.run("SELECT count(*) FROM totals") == [(0,)]
        assert database.run("SELECT to_regclass('slackwater_upserts')") == [(None,)]
    database.run(f"DROP TABLE totals; CREATE TABLE totals ({columns}{unique})")
    opened(database).write(batch, KEY, 0)
    assert database.totals() == table_of([batch])


def test_what_fails_half_way_leaves_nothing(database: Database) -> None:
    first, second = micro_batches(2)
    opened(database).write(first, KEY, 0)
    limit = max(row[1] for row in table_of([first]).values())
    database.run(f"ALTER TABLE totals ADD CHECK (n <= {limit})")
    with pytest.raises(
        SlackwaterError, match=r"micro-batch 1 could not be written \(.*violates check.* writes it once"
    ):
        opened(database).write(second.set_column(3, "n", pa.array([limit + 1] * second.num_rows)), KEY, 1)
    assert (database.totals(), database.noted()) == (table_of([first]), [(RUN, "public.totals", 0)])


def test_rows_of_another_run_are_refused_until_the_table_is_empty(spark: SparkSession, database: Database) -> None:
    table = sw.upsert("postgres", "totals", key=KEY, dsn=database.dsn)
    table.check(["window_end", "country", "_change", "_version"], "results")
    table.refuse_other_runs(spark, "results")
    batches = micro_batches(2)
    opened(database).write(batches[0], KEY, 0)
    with pytest.raises(UsageError, match=r"'totals' has the rows of another run.*empty it, name a new one, or go on"):
        table.refuse_other_runs(spark, "results")
    database.run("DELETE FROM totals")
    table.refuse_other_runs(spark, "results")
    opened(database, "another").write(batches[0], KEY, 0)
    assert database.totals() == table_of(batches[:1])


def test_rows_that_are_no_changes_are_added_once_by_their_key(spark: SparkSession, database: Database) -> None:
    table = sw.upsert("postgres", "seen", key="k", dsn=database.dsn)
    rows = [spark.createDataFrame(given, "k string, n int") for given in ([("a", 1), ("b", 2)], [("a", 9), ("c", 3)])]
    for run in ("1", "2"):
        one = table.of_run(run, "results")
        one.check(["k", "n"], "results")
        one.refuse_other_runs(spark, "results")
        for number, frame in enumerate(rows):
            one.write(frame, number)
    assert database.run("SELECT * FROM seen ORDER BY k") == [("a", 1, 0), ("b", 2, 0), ("c", 3, 0)]


def test_a_query_keeps_a_table_of_its_windows(
    spark: SparkSession, streamed: Streamed, database: Database, tmp_path: Path
) -> None:
    text = "SELECT key, SUM(v) AS total FROM s [RANGE 100 MS] GROUP BY key WITH DELAY 100 MS"
    table = sw.upsert("postgres", "sums", key=["window_start", "window_end", "key"], dsn=database.dsn)
    given = {"s": streamed("s", pieces(0, 3)), "trigger": "available"}
    query = sw.start(
        spark, text, results=table, late=str(tmp_path / "late"), checkpoint=tmp_path / "checkpoint", **given
    )  # type: ignore[call-overload]
    assert query.wait()
    assert database.run("SELECT count(*), max(_version) FROM sums") == [(query.progress().latest.results, 0)]
    with pytest.raises(UsageError, match="no column 'kez' for the key of an upsert; did you mean 'key'"):
        sw.start(
            spark, text, results=sw.upsert("postgres", "sums", key="kez", dsn=database.dsn),
            checkpoint=tmp_path / "another", **given,
        )  # type: ignore[call-overload]  # fmt: skip


def test_a_server_that_is_killed_and_comes_back_costs_nothing(tmp_path: Path) -> None:
    pytest.importorskip("psycopg")
    try:
        cluster = Postgres()
    except UnavailableError as error:
        pytest.skip(str(error))
    batches = micro_batches(4)
    with cluster:
        database = Database(cluster.dsn)
        writer = opened(database, patience=20.0)
        writer.write(batches[0], KEY, 0)
        cluster.kill()
        impatient = opened(database, patience=0.5)
        with pytest.raises(SlackwaterError, match=r"micro-batch 1 could not be written \(.*a start from the same"):
            impatient.write(batches[1], KEY, 1)
        cluster.start()
        # Its connection is lost, and it does not know.
        for number in (1, 2, 3):
            writer.write(batches[number], KEY, number)
        assert database.totals() == table_of(batches)


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    """Start a process that applies micro-batches, in a folder of this name."""
    started: list[Process] = []

    def begin(kind: str, target: str, *size: int) -> Process:
        folder = tmp_path / kind
        folder.mkdir(exist_ok=True)
        command = python("-m", "tests.spark.upserts_job", str(folder), kind, target, *map(str, size))
        started.append(Process(command, tmp_path / "log"))
        return started[-1]

    yield begin
    for process in started:
        process.kill()


def killed_again_and_again(
    begin: Callable[[], Process], folder: Path, kills: int, last: int, within: float = 0.1
) -> None:
    """Kill a job at random moments, so many seconds after a micro-batch; then let it end, and once more without the
    last note of what is done."""
    moments, commits, reached = random.Random(2026), folder / "commits", 0
    for kill in range(kills):
        process, wanted = begin(), reached + (last - reached) // (kills - kill + 1)
        process.until(lambda: commits.exists() and len(list(commits.iterdir())) >= wanted)  # noqa: B023
        time.sleep(moments.uniform(0, within))
        process.kill()
        reached = len(list(commits.iterdir()))
    assert 0 < reached < last, "it was to be killed before its end"
    assert begin().ended() == 0
    (commits / str(last - 1)).unlink()
    assert begin().ended() == 0


@pytest.mark.parametrize(
    ("kills", "batches", "rows"),
    [(2, BATCHES, ROWS), pytest.param(10, *MORE, marks=pytest.mark.long("the same with two kills"))],
)
def test_a_job_that_is_killed_again_and_again_leaves_the_answer(
    kills: int, batches: int, rows: int, database: Database, job: Job, tmp_path: Path
) -> None:
    killed_again_and_again(lambda: job("postgres", database.dsn, batches, rows), tmp_path / "postgres", kills, batches)
    assert database.totals() == table_of(micro_batches(batches, rows))
    assert database.noted() == [(RUN, "public.totals", batches - 1)]


# Delta and Iceberg, each in a session of its own.


@pytest.mark.parametrize("kind", FORMATS)
def test_a_table_of_spark_is_the_answer_whatever_is_written_again_and_refuses_what_does_not_fit(
    kind: str, tmp_path: Path
) -> None:
    jars(kind)
    process = Process(python("-m", "tests.spark.upserts_session", kind, str(tmp_path)), tmp_path / "log")
    assert process.ended() == 0, process.said()


@pytest.mark.long("a table of Spark is the answer whatever is written again")
@pytest.mark.parametrize("kind", FORMATS)
def test_a_job_that_is_killed_again_and_again_leaves_the_answer_in_a_table_of_spark(
    kind: str, job: Job, tmp_path: Path
) -> None:
    jars(kind)
    target = TARGETS[kind].format(folder=tmp_path)
    killed_again_and_again(lambda: job(kind, target, 30, 40), tmp_path / kind, 10, 30, within=1.5)
    found = pq.read_table(tmp_path / kind / "table.parquet").to_pylist()
    rows = {(row["window_end"], row["country"]): (row["total"], row["n"], row["_version"]) for row in found}
    assert len(rows) == len(found)
    assert rows == table_of(micro_batches(30, 40))
