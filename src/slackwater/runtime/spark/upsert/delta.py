"""Delta as a table that is kept up to date.

Invariant: the commit of a MERGE has the name of the run and the number of the micro-batch as its transaction. Delta
passes over a number that it has, and refuses the second of two that are written at the same time.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from slackwater.runtime.spark.upsert.changes import quoted
from slackwater.runtime.spark.upsert.merge import MergedTable

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
        """The table as SQL takes it."""
        if "/" not in self.name:
            return super().identifier
        path = self.name if ":/" in self.name else os.path.abspath(self.name)
        return f"delta.{quoted(path.rstrip('/'))}"

    def properties(self, columns: Sequence[str]) -> dict[str, str]:
        """Names with letters that parquet does not take are mapped to others within the files."""
        unusual = any(letter in UNUSUAL for name in columns for letter in name)
        return {"delta.columnMapping.mode": "name"} if unusual else {}

    def marks(self, run: str, number: int) -> dict[str, str]:
        """Settings under which a commit is this micro-batch of this run."""
        return {
            "spark.databricks.delta.write.txnAppId": run,
            "spark.databricks.delta.write.txnVersion": str(number),
        }
