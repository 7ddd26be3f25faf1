"""Tables of Spark that take MERGE: Delta and Iceberg.

Invariant: a micro-batch is one MERGE, which a format commits whole or not at all. To apply it once more changes
nothing, since a change counts only where its version is higher than that of the row, and Spark repeats no micro-batch
but the last. The name of the run and the number of the micro-batch go into the same commit, so that a process which was
taken for dead, and comes late, is passed over as well. Delta passes over a number that it has, and refuses the second
of two that are written at the same time. Of Iceberg a start passes over what a snapshot says is there; where snapshots
have expired, versions alone make a repetition harmless.
"""

from __future__ import annotations

import os
import re
import secrets
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import (
    ByteType,
    CharType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
    VarcharType,
)

from slackwater.core.errors import SlackwaterError, UsageError
from slackwater.runtime.spark.failures import JvmEndedError, one_sentence
from slackwater.runtime.spark.types import quoted
from slackwater.runtime.spark.upsert.changes import CHANGE, DELETE, VERSION, check_fits, newest, not_written, parts_of
from slackwater.runtime.spark.versions import build_of, versions_with

RUN = "slackwater.run"
"""The property of a table that names the run whose change rows it has."""
GLOBAL = "spark.sql.globalTempDatabase"
"""The setting that names the database of views that sessions share."""
TRIES = 4
"""How often a MERGE is made where somebody else changes the table at the same time, for one to make its files fewer."""
CONFLICT = re.compile(r"DELTA_CONCURRENT|Concurrent\w+Exception|Found conflicting files|CommitFailedException")
WHOLE = [ByteType, ShortType, IntegerType, LongType]


@dataclass(frozen=True)
class MergedTable(ABC):
    """A table of the catalog, or in a folder."""

    name: str

    format: ClassVar[str]
    marker: ClassVar[str]
    """A class of the JVM that a session has where the format is there."""
    settings: ClassVar[Mapping[str, str]]
    """The settings of a session that make it merge."""

    @property
    def identifier(self) -> str:
        """The table as SQL takes it."""
        return ".".join(map(quoted, parts_of(self.name, "`")))

    @abstractmethod
    def marks(self, run: str, number: int) -> dict[str, str]:
        """Settings under which a commit says which micro-batch of which run it is."""

    def properties(self, columns: Sequence[str]) -> dict[str, str]:
        """What a table of these columns is created with."""
        return {}

    def last_of(self, spark: SparkSession, run: str) -> int:
        """The last micro-batch of this run that the table says it has, where it is we who must look; else -1."""
        return -1

    def before_merge(self) -> tuple[str, ...]:
        """Statements by which a session notices what others have done to the table, where it does not by itself."""
        return ()

    def check(self, what: str) -> None:
        _ = self.identifier
        spark = SparkSession.getActiveSession()
        if spark is not None:
            self.check_session(spark, what)

    def check_session(self, spark: SparkSession, what: str) -> None:
        """Refuse a session without the format, or one that was not told to merge."""
        jvm = getattr(spark, "_jvm", None)
        if jvm is None:
            # Over Connect only the server knows.
            return
        build, title = build_of(self.format), self.format.capitalize()
        wanted = {"spark.jars.packages": build, **self.settings} if build else dict(self.settings)
        if not _has_class(jvm, self.marker):
            if build is None:
                served = versions_with(self.format)
                raise UsageError(
                    f"{what}: no build of {title} is known for Spark {spark.version}; there is one for"
                    f" {', '.join(served)}: pip install 'pyspark=={served[-1]}.*'"
                )
            raise UsageError(f"{what}: this session has no {title}; start it with sw.session(**{wanted})")
        extension = self.settings["spark.sql.extensions"]
        if extension not in (spark.conf.get("spark.sql.extensions", "") or ""):
            raise UsageError(
                f"{what}: this session does not know the MERGE of {title}; start it with sw.session(**{wanted})"
            )

    def has_rows_of_another_run(self, spark: SparkSession) -> bool:
        """Whether it has rows, and says that they are those of change rows."""
        if schema_of(spark, self.identifier) is None or self.claimed_by(spark) is None:
            return False
        return bool(spark.table(self.identifier).limit(1).count())

    def claimed_by(self, spark: SparkSession) -> str | None:
        """The run that has left change rows in the table."""
        found = spark.sql(f"SHOW TBLPROPERTIES {self.identifier}").collect()
        return next((row["value"] for row in found if row["key"] == RUN), None)

    def opened(self, run: str) -> Merging:
        return Merging(self, run)


class Merging:
    """A table as one output of one query merges into it."""

    def __init__(self, table: MergedTable, run: str) -> None:
        self._table, self._run = table, run
        self._written: int | None = None
        self._own: SparkSession | None = None
        """A session for our statements, whose settings nobody else gets."""

    def apply(self, changes: DataFrame, keys: Sequence[str], number: int, versioned: bool) -> None:
        left = TRIES
        while True:
            left -= 1
            try:
                with one_sentence():
                    return self._apply(changes, keys, number, versioned)
            except (UsageError, JvmEndedError):
                raise
            except SlackwaterError as error:
                if not left or CONFLICT.search(str(error)) is None:
                    raise SlackwaterError(not_written(self._table.name, number, str(error))) from None

    def _apply(self, changes: DataFrame, keys: Sequence[str], number: int, versioned: bool) -> None:
        table, spark = self._table, changes.sparkSession
        own = self._own = self._own or session_of_its_own(spark)
        if self._written is None:
            table.check_session(spark, f"upsert into {table.name!r}")
            self._prepare(own, changes, versioned)
            self._written = table.last_of(own, self._run)
        if number <= self._written:
            return
        if own is not spark:
            # Over Connect there is no such session. There versions alone make a repetition harmless.
            for name, value in table.marks(self._run, number).items():
                own.conf.set(name, value)
        view = f"slackwater_{secrets.token_hex(8)}"
        newest(changes, keys).createGlobalTempView(view)
        try:
            shared = f"{quoted(str(spark.conf.get(GLOBAL, 'global_temp')))}.{view}"
            for statement in table.before_merge():
                own.sql(statement)
            own.sql(merge_of(table.identifier, shared, [one for one in changes.columns if one != CHANGE], keys))
        finally:
            spark.catalog.dropGlobalTempView(view)
        self._written = number

    def _prepare(self, spark: SparkSession, changes: DataFrame, versioned: bool) -> None:
        """Create the table, or refuse one that does not fit."""
        table, schema = self._table, changes.drop(CHANGE).schema
        there = schema_of(spark, table.identifier)
        if there is None:
            made = spark.createDataFrame([], schema).writeTo(table.identifier).using(table.format)
            for name, value in (table.properties(schema.names) | ({RUN: self._run} if versioned else {})).items():
                made = made.tableProperty(name, value)
            made.create()
            return
        check_fits(_types(there), _types(schema), holds, table.name, lambda type: type.simpleString())
        if versioned and table.claimed_by(spark) != self._run:
            text = self._run.replace("\\", "\\\\").replace("'", "\\'")
            spark.sql(f"ALTER TABLE {table.identifier} SET TBLPROPERTIES ('{RUN}' = '{text}')")


def merge_of(table: str, view: str, columns: Sequence[str], keys: Sequence[str]) -> str:
    """The statement that applies the newest changes of a view.

    >>> print(merge_of("`t`", "v", ["k", "_version"], ["k"]))
    MERGE INTO `t` AS stored USING v AS given ON stored.`k` <=> given.`k`
    WHEN MATCHED AND given._change = 'delete' AND coalesce(stored._version, -1) < given._version THEN DELETE
    WHEN MATCHED AND coalesce(stored._version, -1) < given._version THEN UPDATE SET `_version` = given.`_version`
    WHEN NOT MATCHED AND given._change <> 'delete' THEN INSERT (`k`, `_version`) VALUES (given.`k`, given.`_version`)
    """
    named = {name: quoted(name) for name in columns}
    same = " AND ".join(f"stored.{named[name]} <=> given.{named[name]}" for name in keys)
    newer = f"coalesce(stored.{VERSION}, -1) < given.{VERSION}"
    sets = ", ".join(f"{one} = given.{one}" for name, one in named.items() if name not in keys)
    listed, values = ", ".join(named.values()), ", ".join(f"given.{one}" for one in named.values())
    # Names are in quotes.
    clauses = (
        f"MERGE INTO {table} AS stored USING {view} AS given ON {same}",
        f"WHEN MATCHED AND given.{CHANGE} = '{DELETE}' AND {newer} THEN DELETE",
        f"WHEN MATCHED AND {newer} THEN UPDATE SET {sets}",
        f"WHEN NOT MATCHED AND given.{CHANGE} <> '{DELETE}' THEN INSERT ({listed}) VALUES ({values})",  # noqa: S608
    )
    return "\n".join(clauses)


def session_of_its_own(spark: SparkSession) -> SparkSession:
    """A session with the settings of another one, which it does not share with it; over Connect that one."""
    shared = getattr(spark, "_jsparkSession", None)
    return spark if shared is None else SparkSession(spark.sparkContext, shared.cloneSession())


def schema_of(spark: SparkSession, identifier: str) -> StructType | None:
    """The columns of a table; None where there is none."""
    try:
        return spark.table(identifier).schema
    except AnalysisException:
        # The name of this error is another one for every kind of table; whatever it is, creating will tell.
        return None


def _types(schema: StructType) -> dict[str, DataType]:
    return {one.name: one.dataType for one in schema}


def holds(stored: DataType, given: DataType) -> bool:
    """Whether every value of one type is one of another.

    >>> holds(LongType(), IntegerType()), holds(IntegerType(), LongType()), holds(DecimalType(12, 2), DecimalType(9, 3))
    (True, False, False)
    """
    kind, own = type(given), type(stored)
    if kind in WHOLE and own in WHOLE:
        return WHOLE.index(own) >= WHOLE.index(kind)
    if isinstance(given, DecimalType) and isinstance(stored, DecimalType):
        return stored.scale >= given.scale and stored.precision - stored.scale >= given.precision - given.scale
    texts = (StringType, CharType, VarcharType)
    if isinstance(given, texts) and isinstance(stored, texts):
        return True
    wider = isinstance(given, FloatType) and isinstance(stored, DoubleType)
    return wider or stored.simpleString() == given.simpleString()


def _has_class(jvm: object, name: str) -> bool:
    try:
        jvm.java.lang.Thread.currentThread().getContextClassLoader().loadClass(name)  # type: ignore[attr-defined]
    # py4j has a class of its own for each thing that can go wrong here.
    except Exception:
        return False
    return True


UNUSUAL = " ,;{}()\n\t="


@dataclass(frozen=True)
class DeltaTable(MergedTable):
    """A path, which has a slash, or a table of the catalog."""

    format: ClassVar[str] = "delta"
    marker: ClassVar[str] = "io.delta.sql.DeltaSparkSessionExtension"
    settings: ClassVar[Mapping[str, str]] = {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    }

    @property
    def identifier(self) -> str:
        if "/" not in self.name:
            return super().identifier
        path = self.name if ":/" in self.name else os.path.abspath(self.name)
        return f"delta.{quoted(path.rstrip('/'))}"

    def properties(self, columns: Sequence[str]) -> dict[str, str]:
        """Names with letters that parquet does not take are mapped to others within the files."""
        unusual = any(letter in UNUSUAL for name in columns for letter in name)
        return {"delta.columnMapping.mode": "name"} if unusual else {}

    def marks(self, run: str, number: int) -> dict[str, str]:
        return {
            "spark.databricks.delta.write.txnAppId": run,
            "spark.databricks.delta.write.txnVersion": str(number),
        }


PROPERTIES = "spark.sql.iceberg.snapshot-property."
OF_RUN, BATCH = "slackwater-run", "slackwater-batch"
"""What the summary of a snapshot says: whose it is, and the number of its micro-batch."""


@dataclass(frozen=True)
class IcebergTable(MergedTable):
    """A table of a catalog of Iceberg."""

    format: ClassVar[str] = "iceberg"
    marker: ClassVar[str] = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
    settings: ClassVar[Mapping[str, str]] = {
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
    }

    def marks(self, run: str, number: int) -> dict[str, str]:
        return {f"{PROPERTIES}{OF_RUN}": run, f"{PROPERTIES}{BATCH}": str(number)}

    def before_merge(self) -> tuple[str, ...]:
        return (f"REFRESH TABLE {self.identifier}",)

    def last_of(self, spark: SparkSession, run: str) -> int:
        summaries = spark.table(f"{self.identifier}.snapshots").select("summary").collect()
        numbers = [int(row["summary"][BATCH]) for row in summaries if row["summary"].get(OF_RUN) == run]
        return max(numbers, default=-1)
