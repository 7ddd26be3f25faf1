"""PostgreSQL as a table that is kept up to date.

Invariant: one transaction has the rows of a micro-batch and its number in the ledger `slackwater_upserts`. A number
that is there is passed over, and the row of the ledger is locked before it is read, so of two processes on one
checkpoint the later sees what the earlier has done. What fails half way leaves nothing, not even the table. Every type
of a column has one in PostgreSQL that holds all its values; what has none is refused by the name of its column. Nested
values are JSON, as Spark writes them.
"""

from __future__ import annotations

import io
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.types import ArrayType, MapType, StructType

from slackwater.core.errors import SlackwaterError, UsageError
from slackwater.runtime.spark.types import column
from slackwater.runtime.spark.upsert.changes import (
    CHANGE,
    DELETE,
    JSON,
    VERSION,
    check_fits,
    newest_rows,
    not_written,
    parts_of,
)
from slackwater.runtime.spark.versions import as_table

if TYPE_CHECKING:
    from psycopg import Connection, Cursor
    from psycopg.sql import Composed, Identifier

NESTED = b"slackwater.nested"
"""The mark of a column that is JSON by now."""
PLAIN = {
    pa.bool_(): "boolean", pa.int8(): "smallint", pa.int16(): "smallint", pa.int32(): "integer", pa.int64(): "bigint",
    pa.float32(): "real", pa.float64(): "double precision", pa.string(): "text", pa.large_string(): "text",
    pa.date32(): "date", pa.binary(): "bytea", pa.large_binary(): "bytea",
}  # fmt: skip
HOLD = {
    "smallint": ("smallint", "integer", "bigint"), "integer": ("integer", "bigint"),
    "real": ("real", "double precision"), "text": ("text", "character varying", "character", "citext"),
    "jsonb": ("jsonb", "json"),
}  # fmt: skip
"""The types that hold all values of a type, where these are more than itself; a text may be too long, and is refused
then."""
_NUMERIC = re.compile(r"numeric(?:\((\d+),(-?\d+)\))?$")


def plain_table(frame: DataFrame) -> pa.Table:
    """The rows of a DataFrame, nested columns as JSON."""
    nested = {one.name for one in frame.schema if isinstance(one.dataType, (ArrayType, MapType, StructType))}
    rows = as_table(
        frame.select(
            *(fn.to_json(column(name), JSON).alias(name) if name in nested else column(name) for name in frame.columns)
        )
    )
    return rows.cast(
        pa.schema([one.with_metadata({NESTED: b""}) if one.name in nested else one for one in rows.schema])
    )


def type_of(field: pa.Field) -> str:
    """The type of a column in PostgreSQL.

    >>> type_of(pa.field("at", pa.timestamp("us", "UTC"))), type_of(pa.field("price", pa.decimal128(12, 2)))
    ('timestamp with time zone', 'numeric(12,2)')
    """
    type = field.type
    if NESTED in (field.metadata or {}):
        return "jsonb"
    if type in PLAIN:
        return PLAIN[type]
    if pa.types.is_timestamp(type):
        return "timestamp with time zone" if type.tz else "timestamp without time zone"
    if pa.types.is_decimal(type):
        return f"numeric({type.precision},{type.scale})"
    if pa.types.is_duration(type):
        return "interval"
    raise UsageError(f"column '{field.name}' is {type}, which PostgreSQL has no type for; leave it out, or use CAST")


def holds(stored: str, given: str) -> bool:
    """Whether a type can hold the values of another.

    >>> holds("bigint", "integer"), holds("character varying(20)", "text"), holds("numeric(9,2)", "numeric(12,2)")
    (True, True, False)
    """
    number, own = _NUMERIC.match(given), _NUMERIC.match(stored)
    if number is not None and own is not None:
        if own[1] is None:
            return True
        return int(own[2]) >= int(number[2]) and int(own[1]) - int(own[2]) >= int(number[1]) - int(number[2])
    return stored.split("(")[0] in HOLD.get(given, ()) or stored == given


def as_csv(rows: pa.Table) -> bytes:
    """Rows as COPY reads them; a text is in quotes, null is nothing at all."""
    columns = []
    for one, type in zip(rows.columns, rows.schema.types, strict=True):
        if pa.types.is_decimal(type):
            one = one.cast(pa.string())
        elif pa.types.is_duration(type):
            micros = one.cast(pa.duration("us")).cast(pa.int64()).cast(pa.string())
            one = pc.binary_join_element_wise(micros, " microseconds", "")
        elif pa.types.is_binary(type) or pa.types.is_large_binary(type):
            one = pa.array([None if value is None else f"\\x{value.hex()}" for value in one.to_pylist()], pa.string())
        columns.append(one)
    out = io.BytesIO()
    options = pyarrow.csv.WriteOptions(include_header=False)
    pyarrow.csv.write_csv(pa.table(columns, names=rows.column_names), out, options)
    return out.getvalue()


INSTALL = "an upsert into PostgreSQL needs a client: pip install 'slackwater[postgres]'"
LEDGER = "slackwater_upserts"
STAGED = "slackwater_changes"
"""The temporary table that change rows are copied to."""
PATIENCE = 60.0
"""Seconds that a server may be away."""
PAUSE, LONGEST_PAUSE = 0.1, 5.0
"""Seconds before another try: they double."""
AT_START = 10
"""Seconds that a server has to take a connection."""
CONNECTION = {
    "connect_timeout": str(AT_START), "application_name": "slackwater", "client_encoding": "utf8",
    # A server that is gone without a word is noticed within half a minute.
    "keepalives_idle": "10", "keepalives_interval": "5", "keepalives_count": "3", "tcp_user_timeout": "30000",
}  # fmt: skip
"""What a connection has, unless the user's words for it say otherwise."""
TAKES_NULL_KEYS = 150_000
"""The version of PostgreSQL from which on an index can hold that null equals null."""
NEVER_BETTER = ("28", "3D")
"""Classes of failures that no waiting mends: a password, the name of the database."""


def client() -> Any:
    """The module of the client, which is loaded only where a table of PostgreSQL is used."""
    try:
        import psycopg
    except ImportError:
        raise UsageError(INSTALL) from None
    return psycopg


@dataclass(frozen=True)
class PostgresTable:
    """A table of a database."""

    name: str
    dsn: str = field(default="", repr=False)
    patience: float = PATIENCE

    @property
    def parts(self) -> tuple[str, ...]:
        return parts_of(self.name, '"')

    def connect(self) -> Connection[Any]:
        psycopg = client()
        given = psycopg.conninfo.conninfo_to_dict(self.dsn)
        return psycopg.connect(**{**CONNECTION, **given})

    def check(self, what: str) -> None:
        """Refuse a database that cannot be reached."""
        psycopg = client()
        if len(self.parts) > 2:
            raise UsageError(f"{what}: {self.name!r} is no table of PostgreSQL; write table or schema.table")
        try:
            self.connect().close()
        except psycopg.Error as error:
            raise UsageError(
                f"{what}: no database answers for table {self.name!r} ({said(error)}); is it running, and is this its"
                " dsn='host=... dbname=...'?"
            ) from None

    def has_rows_of_another_run(self, spark: SparkSession) -> bool:
        psycopg = client()
        try:
            with self.connect() as connection, connection.cursor() as cursor:
                return Statements(cursor, self).has_change_rows()
        except psycopg.Error as error:
            raise UsageError(f"table {self.name!r} cannot be read: {said(error)}") from None

    def opened(self, run: str) -> PostgresWriter:
        return PostgresWriter(self, run)


class PostgresWriter:
    """A table as one output of one query writes it, by a connection that is made anew where it is lost."""

    def __init__(self, table: PostgresTable, run: str) -> None:
        self._table, self._run = table, run
        self._connection: Connection[Any] | None = None
        self._checked = False

    def apply(self, changes: DataFrame, keys: Sequence[str], number: int, versioned: bool) -> None:
        self.write(plain_table(changes), keys, number, versioned)

    def write(self, changes: pa.Table, keys: Sequence[str], number: int, versioned: bool = True) -> None:
        """Apply change rows that are here, unless that has been done."""
        psycopg = client()
        name, deadline, pause = self._table.name, time.monotonic() + self._table.patience, PAUSE
        batch = Batch(newest_rows(changes, keys), tuple(keys), number, versioned)
        while True:
            try:
                return self._write(batch)
            except (psycopg.OperationalError, psycopg.InterfaceError) as error:
                self._close()
                if time.monotonic() + pause > deadline or (error.sqlstate or "").startswith(NEVER_BETTER):
                    raise SlackwaterError(not_written(name, number, said(error))) from None
            except psycopg.Error as error:
                self._close()
                raise SlackwaterError(not_written(name, number, said(error))) from None
            except BaseException:
                self._close()
                raise
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _write(self, batch: Batch) -> None:
        if self._connection is None:
            self._connection = self._table.connect()
        with self._connection.transaction(), self._connection.cursor() as cursor:
            Transaction(cursor, self._table, self._run, batch).write(self._checked)
        self._checked = True


@dataclass(frozen=True)
class Batch:
    """The newest change rows of a micro-batch."""

    rows: pa.Table
    keys: tuple[str, ...]
    number: int
    versioned: bool

    @property
    def schema(self) -> pa.Schema:
        """The columns that the table has."""
        return self.rows.schema.remove(self.rows.schema.get_field_index(CHANGE))


class Statements:
    """Statements about a table, and the ledger in its schema."""

    def __init__(self, cursor: Cursor[Any], table: PostgresTable) -> None:
        self._cursor, self._table, self._sql = cursor, table, client().sql
        self._target = self._sql.Identifier(*table.parts)
        self._ledger = self._sql.Identifier(*table.parts[:-1], LEDGER)

    def _do(self, text: str, *parts: Any, given: Sequence[Any] | None = None, **named: Any) -> None:
        """Have a statement done with these names and values in it."""
        self._cursor.execute(self._sql.SQL(text).format(*parts, **named), given)

    def _found(self) -> tuple[Any, ...]:
        found = self._cursor.fetchone()
        assert found is not None
        return tuple(found)

    def _text(self, composed: Any) -> str:
        return str(composed.as_string(self._cursor))

    def resolved(self, table: Identifier) -> str | None:
        """The name of a table with its schema, as nobody else has it; None where there is no such table."""
        self._cursor.execute(
            "SELECT n.nspname || '.' || c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
            " WHERE c.oid = to_regclass(%s)",
            [self._text(table)],
        )
        found = self._cursor.fetchone()
        return None if found is None else str(found[0])

    def has_change_rows(self) -> bool:
        """Whether the table has rows, and the ledger says that they are those of change rows."""
        target = self.resolved(self._target)
        if target is None or self.resolved(self._ledger) is None:
            return False
        self._do(
            "SELECT EXISTS (SELECT FROM {} WHERE target = %s AND versioned) AND EXISTS (SELECT FROM {})",
            self._ledger, self._target, given=[target],
        )  # fmt: skip
        return bool(self._found()[0])


class Transaction(Statements):
    """One micro-batch."""

    def __init__(self, cursor: Cursor[Any], table: PostgresTable, run: str, batch: Batch) -> None:
        super().__init__(cursor, table)
        self._run, self._batch = run, batch
        self._staged = self._sql.Identifier(STAGED)

    def write(self, is_checked: bool) -> None:
        """Apply it, unless that has been done; the table fits where that `is_checked`."""
        if not is_checked:
            self._create()
        target = self.resolved(self._target)
        if self._begun(target) >= self._batch.number:
            return
        if not is_checked:
            given = {one.name: type_of(one) for one in self._batch.schema}
            check_fits(self._stored_types(), given, holds, self._table.name)
        self._check_key()
        self._stage()
        self._apply()
        self._do(
            "UPDATE {} SET batch = %s, at = now() WHERE run = %s AND target = %s",
            self._ledger, given=[self._batch.number, self._run, target],
        )  # fmt: skip

    def _create(self) -> None:
        """Create the ledger and the table where they are not there."""
        # Two that create a table at the same time get in each other's way.
        self._cursor.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", [LEDGER])
        if self.resolved(self._ledger) is None:
            self._do(
                "CREATE TABLE {} (run text, target text, batch bigint NOT NULL, versioned boolean NOT NULL,"
                " at timestamptz NOT NULL, PRIMARY KEY (run, target))",
                self._ledger,
            )
        if self.resolved(self._target) is not None:
            return
        self._do("CREATE TABLE {} ({})", self._target, self._columns(self._batch.schema))
        unique = self._sql.SQL("UNIQUE NULLS NOT DISTINCT" if self._takes_nulls else "PRIMARY KEY")
        self._do("ALTER TABLE {} ADD {} ({})", self._target, unique, self._listed(self._batch.keys))

    @property
    def _takes_nulls(self) -> bool:
        return bool(self._cursor.connection.info.server_version >= TAKES_NULL_KEYS)

    def _begun(self, target: str | None) -> int:
        """Lock the row of the run in the ledger; the last micro-batch that it has."""
        self._do(
            "INSERT INTO {} VALUES (%s, %s, -1, %s, now()) ON CONFLICT DO NOTHING",
            self._ledger, given=[self._run, target, self._batch.versioned],
        )  # fmt: skip
        self._do(
            "SELECT batch FROM {} WHERE run = %s AND target = %s FOR UPDATE", self._ledger, given=[self._run, target]
        )
        return int(self._found()[0])

    def _stored_types(self) -> dict[str, str]:
        """The columns of the table, with their types as PostgreSQL writes them."""
        self._cursor.execute(
            "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute"
            " WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
            [self._text(self._target)],
        )
        return dict(self._cursor.fetchall())

    def _check_key(self) -> None:
        """Refuse a table that would take two rows of one key."""
        batch = self._batch
        null = next((name for name in batch.keys if batch.rows.column(name).null_count), None)
        distinct = "NOT i.indnullsnotdistinct" if self._takes_nulls else "TRUE"
        self._do(
            "SELECT bool_and({}) FROM pg_index i WHERE i.indrelid = to_regclass(%s) AND i.indisunique AND i.indisvalid"
            " AND i.indimmediate AND i.indpred IS NULL AND i.indexprs IS NULL AND %s = (SELECT"
            ' array_agg(a.attname::text ORDER BY a.attname::text COLLATE "C") FROM pg_attribute a'
            " WHERE a.attrelid = i.indrelid AND a.attnum = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1]))",
            self._sql.SQL(distinct), given=[self._text(self._target), sorted(batch.keys)],
        )  # fmt: skip
        takes_two = self._found()[0]
        if takes_two is None or (takes_two and null is not None):
            nulls = "" if distinct == "TRUE" else " NULLS NOT DISTINCT"
            why = "no unique index of the key" if takes_two is None else f"takes two rows whose '{null}' is null"
            index = self._sql.SQL("CREATE UNIQUE INDEX ON {} ({})").format(self._target, self._listed(batch.keys))
            raise UsageError(f"table {self._table.name!r} has {why}: {self._text(index)}{nulls}")

    def _stage(self) -> None:
        """Copy change rows to a table that goes with the transaction."""
        schema = self._batch.rows.schema
        self._do("CREATE TEMPORARY TABLE {} ({}) ON COMMIT DROP", self._staged, self._columns(schema))
        copied = self._sql.SQL("COPY {} ({}) FROM STDIN (FORMAT csv)")
        with self._cursor.copy(copied.format(self._staged, self._listed(schema.names))) as copy:
            copy.write(as_csv(self._batch.rows))

    def _apply(self) -> None:
        """Apply what is staged."""
        sql, keys, columns = self._sql, self._batch.keys, self._batch.schema.names
        names = {
            "target": self._target, "staged": self._staged, "version": sql.Identifier(VERSION),
            "change": sql.Identifier(CHANGE), "gone": sql.Literal(DELETE),
        }  # fmt: skip
        for same in self._sames():
            self._do(
                "DELETE FROM {target} AS stored USING pg_temp.{staged} AS given"
                " WHERE {same} AND given.{change} = {gone} AND coalesce(stored.{version}, -1) < given.{version}",
                same=same, **names,
            )  # fmt: skip
        others = [sql.Identifier(name) for name in columns if name not in keys]
        sets = sql.SQL(", ").join(sql.SQL("{one} = EXCLUDED.{one}").format(one=one) for one in others)
        self._do(
            "INSERT INTO {target} AS stored ({columns}) SELECT {columns} FROM pg_temp.{staged} WHERE {change} <> {gone}"
            " ON CONFLICT ({keys}) DO UPDATE SET {sets} WHERE coalesce(stored.{version}, -1) < EXCLUDED.{version}",
            columns=self._listed(columns), keys=self._listed(keys), sets=sets, **names,
        )  # fmt: skip

    def _sames(self) -> list[Composed]:
        """How the keys of rows to delete are found: one condition for each set of columns that are null together.

        `IS NOT DISTINCT FROM` would say it at once, and no index answers it.
        """
        sql, keys = self._sql, self._batch.keys
        gone = self._batch.rows.filter(pc.equal(self._batch.rows.column(CHANGE), DELETE))
        nulls = pa.table([pc.is_null(gone.column(name)) for name in keys], names=[str(i) for i in range(len(keys))])
        found = nulls.group_by(nulls.column_names).aggregate([]).to_pylist()

        def one(name: str, null: bool) -> Any:
            text = "stored.{} IS NULL AND given.{} IS NULL" if null else "stored.{} = given.{}"
            return sql.SQL(text).format(sql.Identifier(name), sql.Identifier(name))

        return [
            sql.SQL(" AND ").join(one(name, null) for name, null in zip(keys, row.values(), strict=True))
            for row in found
        ]

    def _columns(self, schema: pa.Schema) -> Composed:
        sql = self._sql
        columns = (sql.SQL("{} " + type_of(one)).format(sql.Identifier(one.name)) for one in schema)
        return sql.SQL(", ").join(columns)

    def _listed(self, names: Sequence[str]) -> Composed:
        return self._sql.SQL(", ").join(map(self._sql.Identifier, names))


def said(error: BaseException) -> str:
    """What PostgreSQL says, in one line."""
    diagnosis = getattr(error, "diag", None)
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return str(getattr(diagnosis, "message_primary", None) or (lines[0] if lines else type(error).__name__))
