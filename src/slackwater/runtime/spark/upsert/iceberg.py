"""Iceberg as a table that is kept up to date.

Invariant: the snapshot of a MERGE has the name of the run and the number of the micro-batch in its summary, and a start
passes over what a snapshot says is there. Where snapshots have expired, versions alone make a repetition harmless.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from pyspark.sql import SparkSession

from slackwater.runtime.spark.upsert.merge import MergedTable

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
        """Settings under which a snapshot is this micro-batch of this run."""
        return {f"{PROPERTIES}{OF_RUN}": run, f"{PROPERTIES}{BATCH}": str(number)}

    def before_merge(self) -> tuple[str, ...]:
        """Forget the table as it was read before."""
        return (f"REFRESH TABLE {self.identifier}",)

    def last_of(self, spark: SparkSession, run: str) -> int:
        """The last micro-batch of this run among the snapshots that there are."""
        summaries = spark.table(f"{self.identifier}.snapshots").select("summary").collect()
        numbers = [int(row["summary"][BATCH]) for row in summaries if row["summary"].get(OF_RUN) == run]
        return max(numbers, default=-1)
