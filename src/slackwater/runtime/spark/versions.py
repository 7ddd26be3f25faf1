"""What differs between the versions of PySpark that queries run on, from 3.5 to 4.3.

Invariant: no other module asks for the version. What an older one lacks is done here by what it has, or refused in one
sentence that names the version and the remedy.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pyspark
from pyspark import inheritable_thread_target
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.types import DataType, StructType

from slackwater.core.errors import UsageError

VERSION = tuple(int(part) for part in pyspark.__version__.split(".")[:2])
OLDEST = (3, 5)
SCALA = "2.12" if VERSION < (4, 0) else "2.13"
"""What the names of Spark's own packages end with."""
HAS_DATA_SOURCES = VERSION >= (4, 0)
"""Whether a source of Spark can be written in Python."""
HAS_READ_LIMITS = VERSION >= (4, 2)
"""Whether Spark passes such a source its position, and it may stop short of what there is."""
SIMPLE_FILE_MANAGER = (
    "org.apache.spark.sql.execution.streaming"
    f"{'.checkpointing' if VERSION >= (4, 1) else ''}.FileSystemBasedCheckpointFileManager"
)
"""What writes the logs of a streaming query through Hadoop's older interface for files."""
TABLE_FORMATS: dict[str, dict[tuple[int, int], str]] = {
    "delta": {
        (3, 5): "io.delta:delta-spark_2.12:3.3.3",
        (4, 0): "io.delta:delta-spark_4.0_2.13:4.4.0",
        (4, 1): "io.delta:delta-spark_4.1_2.13:4.4.0",
        (4, 2): "io.delta:delta-spark_4.2_2.13:4.4.0",
    },
    "iceberg": {
        (3, 5): "org.apache.iceberg:iceberg-spark-runtime-3.5_2.12:1.12.0",
        (4, 0): "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.11.0",
        (4, 1): "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
    },
}
"""The newest builds on Maven of formats whose tables take MERGE, in November 2026; a session may have others."""
MOST_TRIED = 1 << 16
PANDAS_3 = "PySpark does not yet fully support pandas"
"""How a warning begins that has nothing to do with us: `mapInArrow` asks for pandas, and hands it no row."""

if TYPE_CHECKING:
    import pyarrow as pa
if TYPE_CHECKING or HAS_DATA_SOURCES:
    from pyspark.sql.datasource import DataSource as DataSource
    from pyspark.sql.datasource import DataSourceReader as DataSourceReader
    from pyspark.sql.datasource import DataSourceStreamReader as DataSourceStreamReader
    from pyspark.sql.datasource import InputPartition as InputPartition
else:

    class DataSource:
        """What PySpark before 4.0 does not have; nothing is made of it there."""

    DataSourceReader = DataSourceStreamReader = InputPartition = DataSource

if TYPE_CHECKING or HAS_READ_LIMITS:
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow as SupportsTriggerAvailableNow
else:

    class SupportsTriggerAvailableNow:
        """What PySpark before 4.2 does not have: a source reads all there is at once."""


def build_of(format: str) -> str | None:
    """The build of a format for this version, as Maven has it."""
    return next((build for version, build in TABLE_FORMATS[format].items() if version == VERSION), None)


def versions_with(format: str) -> list[str]:
    """The versions that there is a build of a format for.

    >>> versions_with("iceberg")
    ['3.5', '4.0', '4.1']
    """
    return [f"{major}.{minor}" for major, minor in TABLE_FORMATS[format]]


def check_version() -> None:
    """Refuse a PySpark that is too old, or that this Python is too new for."""
    if VERSION < OLDEST:
        raise UsageError(f"PySpark {pyspark.__version__} is too old; {remedy(OLDEST)}")
    if VERSION < (4, 0) and find_spec("distutils") is None:
        raise UsageError(
            f"PySpark {pyspark.__version__} needs the module distutils, which Python {sys.version_info[0]}."
            f"{sys.version_info[1]} does not have; {remedy((4, 0))}, or setuptools"
        )


def needs(what: str, version: tuple[int, int], otherwise: str) -> UsageError:
    """The refusal of what only a newer PySpark offers, with another way."""
    newer = f"PySpark {version[0]}.{version[1]} or newer, and this is {pyspark.__version__}"
    return UsageError(f"{what} needs {newer}; {remedy(version)}, or {otherwise}")


def remedy(version: tuple[int, int]) -> str:
    """How to come by a version.

    >>> remedy((4, 0))
    "install a newer one: pip install 'pyspark>=4.0'"
    """
    return f"install a newer one: pip install 'pyspark>={version[0]}.{version[1]}'"


def register(spark: SparkSession, source: type[DataSource]) -> None:
    """Make a format known to a session; where a source cannot be written in Python, refuse it when it is named."""
    if HAS_DATA_SOURCES:
        spark.dataSource.register(source)
        return
    reader: Any = type(spark.readStream)
    before: Any = reader.format
    if before.__module__ == __name__:
        return

    def refusing(self: Any, given: str) -> Any:
        if given.lower() == source.name():
            raise needs(f"format('{given}')", (4, 0), "take spark.readStream.parquet(folder)")
        return before(self, given)

    reader.format = refusing


def map_in_arrow(
    frame: DataFrame, function: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]], schema: StructType | str
) -> DataFrame:
    """The rows that a function makes of the record batches of every partition."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", PANDAS_3, FutureWarning)
        return frame.mapInArrow(function, schema)


def as_table(frame: DataFrame) -> pa.Table:
    """The rows of a DataFrame; timestamps in UTC."""
    if VERSION >= (4, 0):
        return frame.toArrow()
    # What `toArrow` does, which it does not have; nor has a client of Connect.
    collect: Any = getattr(frame, "_collect_as_arrow", None)
    if collect is None:
        raise needs("fetching rows of a DataFrame over Spark Connect", (4, 0), "take a session of this process")
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_schema

    schema = to_arrow_schema(frame.schema)
    batches = collect()
    return pa.Table.from_batches(batches).cast(schema) if batches else schema.empty_table()


def arrow_type_of(spark: DataType) -> pa.DataType:
    """The Arrow type that Spark itself has for one of its types; timestamps in UTC."""
    from pyspark.sql.pandas.types import to_arrow_type

    return to_arrow_type(spark, timezone="UTC") if VERSION >= (4, 2) else to_arrow_type(spark)


def condition_of(error: PySparkException) -> str | None:
    """The name that Spark has for what went wrong."""
    return error.getCondition() if VERSION >= (4, 0) else error.getErrorClass()


def in_thread(spark: SparkSession, function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that another thread calls, whose jobs belong to the query of this one."""
    return inheritable_thread_target(spark)(function) if VERSION >= (4, 0) else inheritable_thread_target(function)


def in_partition_of(frame: DataFrame, partitions: int, partition: Column) -> DataFrame:
    """Every row in the partition of this number."""
    if VERSION >= (4, 1):
        return frame.repartitionById(partitions, partition)
    # A partition is found by a hash.
    names = fn.array(*(fn.lit(name) for name in names_of_partitions(partitions)))
    return frame.repartition(partitions, fn.element_at(names, partition + 1))


def names_of_partitions(tasks: int) -> list[int]:
    """For each of so many partitions a number that Spark's hash sends there."""
    found: dict[int, int] = {}
    for number in range(MOST_TRIED):
        found.setdefault(hashed(number) % tasks, number)
        if len(found) == tasks:
            break
    return [found[task] for task in range(tasks)]


def hashed(number: int) -> int:
    """What Spark's `hash` makes of an int: Murmur3 with the seed 42.

    >>> hashed(0), hashed(1)
    (933211791, -559580957)
    """
    whole = 0xFFFFFFFF
    k = number * 0xCC9E2D51 & whole
    k = (k << 15 | k >> 17) * 0x1B873593 & whole
    h = 42 ^ k
    h = (h << 13 | h >> 19) & whole
    h = (h * 5 + 0xE6546B64 & whole) ^ 4
    h = (h ^ h >> 16) * 0x85EBCA6B & whole
    h = (h ^ h >> 13) * 0xC2B2AE35 & whole
    h ^= h >> 16
    return h - (1 << 32) if h >> 31 else h
