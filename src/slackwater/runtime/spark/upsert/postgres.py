"""PostgreSQL as a table that is kept up to date.

Invariant: one transaction has the rows of a micro-batch and its number in the ledger `slackwater_upserts`. A number
that is there is passed over, and the row of the ledger is locked before it is read, so of two processes on one
checkpoint the later sees what the earlier has done. What fails half way leaves nothing, not even the table.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from slackwater.core.errors import SlackwaterError, UsageError
from slackwater.runtime.spark.upsert.changes import CHANGE, DELETE, VERSION, newest_rows
from slackwater.runtime.spark.upsert.names import parts_of
from slackwater.runtime.spark.upsert.postgres_types import as_csv, check_types, plain_table, type_of
from slackwater.runtime.spark.upsert.table import not_written

if TYPE_CHECKING:
    from psycopg import Connection, Cursor
    from psycopg.sql import Composed

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
        """The name, in parts."""
        return parts_of(self.name, '"')

    def connect(self) -> Connection[Any]:
        """A new connection."""
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
        """Whether it has rows, and the ledger says that they are those of change rows."""
        psycopg = client()
        try:
            with self.connect() as connection, connection.cursor() as cursor:
                return _has_change_rows(cursor, self.parts)
        except psycopg.Error as error:
            raise UsageError(f"table {self.name!r} cannot be read: {said(error)}") from None

    def opened(self, run: str) -> PostgresWriter:
        """The table for the micro-batches of this run."""
        return PostgresWriter(self, run)


class PostgresWriter:
    """A table as one output of one query writes it, by a connection that is made anew where it is lost."""

    def __init__(self, table: PostgresTable, run: str) -> None:
        self._table, self._run = table, run
        self._connection: Connection[Any] | None = None
        self._checked = False

    def apply(self, changes: DataFrame, keys: Sequence[str], number: int, versioned: bool) -> None:
        """Apply the change rows of a micro-batch."""
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
            if not self._checked:
                create(cursor, self._table, batch)
            ledger, target = ledger_beside(self._table.parts), resolved(cursor, self._table.parts)
            if begun(cursor, ledger, self._run, target, batch) >= batch.number:
                return
            if not self._checked:
                check_types(stored_types(cursor, self._table.parts), batch.schema, self._table.name)
            check_key(cursor, self._table, batch)
            stage(cursor, batch)
            apply(cursor, self._table.parts, batch)
            note(cursor, ledger, self._run, target, batch.number)
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


def ledger_beside(parts: tuple[str, ...]) -> tuple[str, ...]:
    """The name of the ledger, in the schema of the table."""
    return (*parts[:-1], LEDGER)


def resolved(cursor: Cursor[Any], parts: tuple[str, ...]) -> str | None:
    """The name of a table with its schema, as nobody else has it; None where there is no such table."""
    from psycopg import sql

    cursor.execute(
        "SELECT n.nspname || '.' || c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE c.oid = to_regclass(%s)",
        [sql.Identifier(*parts).as_string(cursor)],
    )
    found = cursor.fetchone()
    return None if found is None else str(found[0])


def _has_change_rows(cursor: Cursor[Any], parts: tuple[str, ...]) -> bool:
    from psycopg import sql

    target, ledger = resolved(cursor, parts), ledger_beside(parts)
    if target is None or resolved(cursor, ledger) is None:
        return False
    cursor.execute(
        sql.SQL("SELECT EXISTS (SELECT FROM {} WHERE target = %s AND versioned) AND EXISTS (SELECT FROM {})").format(
            sql.Identifier(*ledger), sql.Identifier(*parts)
        ),
        [target],
    )
    return bool(_one(cursor)[0])


def create(cursor: Cursor[Any], table: PostgresTable, batch: Batch) -> None:
    """Create the ledger and the table where they are not there."""
    from psycopg import sql

    # Two that create a table at the same time get in each other's way.
    cursor.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", [LEDGER])
    parts = table.parts
    if resolved(cursor, ledger_beside(parts)) is None:
        cursor.execute(
            sql.SQL(
                "CREATE TABLE {} (run text, target text, batch bigint NOT NULL, versioned boolean NOT NULL,"
                " at timestamptz NOT NULL, PRIMARY KEY (run, target))"
            ).format(sql.Identifier(*ledger_beside(parts)))
        )
    if resolved(cursor, parts) is not None:
        return
    cursor.execute(sql.SQL("CREATE TABLE {} ({})").format(sql.Identifier(*parts), _columns(batch.schema)))
    takes_nulls = cursor.connection.info.server_version >= TAKES_NULL_KEYS
    cursor.execute(
        sql.SQL("ALTER TABLE {} ADD {} ({})").format(
            sql.Identifier(*parts),
            sql.SQL("UNIQUE NULLS NOT DISTINCT") if takes_nulls else sql.SQL("PRIMARY KEY"),
            _listed(batch.keys),
        )
    )


def begun(cursor: Cursor[Any], ledger: tuple[str, ...], run: str, target: str | None, batch: Batch) -> int:
    """Lock the row of a run in the ledger; the last micro-batch that it has."""
    from psycopg import sql

    cursor.execute(
        sql.SQL("INSERT INTO {} VALUES (%s, %s, -1, %s, now()) ON CONFLICT DO NOTHING").format(sql.Identifier(*ledger)),
        [run, target, batch.versioned],
    )
    cursor.execute(
        sql.SQL("SELECT batch FROM {} WHERE run = %s AND target = %s FOR UPDATE").format(sql.Identifier(*ledger)),
        [run, target],
    )
    return int(_one(cursor)[0])


def note(cursor: Cursor[Any], ledger: tuple[str, ...], run: str, target: str | None, number: int) -> None:
    """Note in the ledger that a micro-batch is written."""
    from psycopg import sql

    cursor.execute(
        sql.SQL("UPDATE {} SET batch = %s, at = now() WHERE run = %s AND target = %s").format(sql.Identifier(*ledger)),
        [number, run, target],
    )


def stored_types(cursor: Cursor[Any], parts: tuple[str, ...]) -> dict[str, str]:
    """The columns of a table, with their types as PostgreSQL writes them."""
    from psycopg import sql

    cursor.execute(
        "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute"
        " WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
        [sql.Identifier(*parts).as_string(cursor)],
    )
    return dict(cursor.fetchall())


def check_key(cursor: Cursor[Any], table: PostgresTable, batch: Batch) -> None:
    """Refuse a table that would take two rows of one key."""
    from psycopg import sql

    null = next((name for name in batch.keys if batch.rows.column(name).null_count), None)
    distinct = "NOT i.indnullsnotdistinct" if cursor.connection.info.server_version >= TAKES_NULL_KEYS else "TRUE"
    cursor.execute(
        sql.SQL(
            "SELECT bool_and({}) FROM pg_index i WHERE i.indrelid = to_regclass(%s) AND i.indisunique AND i.indisvalid"
            " AND i.indimmediate AND i.indpred IS NULL AND i.indexprs IS NULL AND %s = (SELECT"
            ' array_agg(a.attname::text ORDER BY a.attname::text COLLATE "C") FROM pg_attribute a'
            " WHERE a.attrelid = i.indrelid AND a.attnum = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1]))"
        ).format(sql.SQL(distinct)),
        [sql.Identifier(*table.parts).as_string(cursor), sorted(batch.keys)],
    )
    takes_two = _one(cursor)[0]
    if takes_two is None or (takes_two and null is not None):
        nulls = "" if distinct == "TRUE" else " NULLS NOT DISTINCT"
        why = "no unique index of the key" if takes_two is None else f"takes two rows whose '{null}' is null"
        create_index = sql.SQL("CREATE UNIQUE INDEX ON {} ({})").format(
            sql.Identifier(*table.parts), _listed(batch.keys)
        )
        raise UsageError(f"table {table.name!r} has {why}: {create_index.as_string(cursor)}{nulls}")


def stage(cursor: Cursor[Any], batch: Batch) -> None:
    """Copy change rows to a table that goes with the transaction."""
    from psycopg import sql

    staged, schema = sql.Identifier(STAGED), batch.rows.schema
    cursor.execute(sql.SQL("CREATE TEMPORARY TABLE {} ({}) ON COMMIT DROP").format(staged, _columns(schema)))
    copied = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT csv)").format(staged, _listed(schema.names))
    with cursor.copy(copied) as copy:
        copy.write(as_csv(batch.rows))


def apply(cursor: Cursor[Any], parts: tuple[str, ...], batch: Batch) -> None:
    """Apply what is staged."""
    from psycopg import sql

    names = {
        "target": sql.Identifier(*parts), "staged": sql.Identifier(STAGED), "version": sql.Identifier(VERSION),
        "change": sql.Identifier(CHANGE), "gone": sql.Literal(DELETE),
    }  # fmt: skip
    for same in sames(batch):
        cursor.execute(
            sql.SQL(
                "DELETE FROM {target} AS stored USING pg_temp.{staged} AS given"
                " WHERE {same} AND given.{change} = {gone} AND coalesce(stored.{version}, -1) < given.{version}"
            ).format(same=same, **names)
        )
    columns = batch.schema.names
    sets = sql.SQL(", ").join(
        sql.SQL("{one} = EXCLUDED.{one}").format(one=sql.Identifier(name)) for name in columns if name not in batch.keys
    )
    cursor.execute(
        sql.SQL(
            "INSERT INTO {target} AS stored ({columns}) SELECT {columns} FROM pg_temp.{staged} WHERE {change} <> {gone}"
            " ON CONFLICT ({keys}) DO UPDATE SET {sets} WHERE coalesce(stored.{version}, -1) < EXCLUDED.{version}"
        ).format(columns=_listed(columns), keys=_listed(batch.keys), sets=sets, **names)
    )


def sames(batch: Batch) -> list[Composed]:
    """Of the rows to delete, how their keys are found: one condition for each set of columns that are null together.

    `IS NOT DISTINCT FROM` would say it at once, and no index answers it.
    """
    from psycopg import sql

    gone = batch.rows.filter(pc.equal(batch.rows.column(CHANGE), DELETE))
    nulls = pa.table(
        [pc.is_null(gone.column(name)) for name in batch.keys], names=[str(i) for i in range(len(batch.keys))]
    )
    found = nulls.group_by(nulls.column_names).aggregate([]).to_pylist()

    def one(name: str, null: bool) -> Composed:
        text = "stored.{} IS NULL AND given.{} IS NULL" if null else "stored.{} = given.{}"
        return sql.SQL(text).format(sql.Identifier(name), sql.Identifier(name))

    return [
        sql.SQL(" AND ").join(one(name, null) for name, null in zip(batch.keys, row.values(), strict=True))
        for row in found
    ]


def said(error: BaseException) -> str:
    """What PostgreSQL says, in one line."""
    diagnosis = getattr(error, "diag", None)
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return str(getattr(diagnosis, "message_primary", None) or (lines[0] if lines else type(error).__name__))


def _columns(schema: pa.Schema) -> Composed:
    from psycopg import sql

    return sql.SQL(", ").join(sql.SQL("{} " + type_of(one)).format(sql.Identifier(one.name)) for one in schema)


def _listed(names: Sequence[str]) -> Composed:
    from psycopg import sql

    return sql.SQL(", ").join(sql.Identifier(name) for name in names)


def _one(cursor: Cursor[Any]) -> tuple[Any, ...]:
    found = cursor.fetchone()
    assert found is not None
    return tuple(found)
