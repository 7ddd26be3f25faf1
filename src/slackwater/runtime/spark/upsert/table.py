"""What a kind of table does for an upsert.

Invariant: `Target` describes and is shared; what `opened` gives has connections and what it knows of the table, and
belongs to one output of one query.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession


class Opened(Protocol):
    """A table as one output of one query writes it."""

    def apply(self, changes: DataFrame, keys: Sequence[str], number: int, versioned: bool) -> None:
        """Apply the change rows of a micro-batch, unless that has been done. Rows that are not `versioned` are inserts
        of version 0, which any run may add to."""


class Target(Protocol):
    """A table that change rows are applied to."""

    @property
    def name(self) -> str:
        """What users call it."""

    def check(self, what: str) -> None:
        """Refuse a table that cannot be written; nothing is written here."""

    def has_rows_of_another_run(self, spark: SparkSession) -> bool:
        """Whether some run has left change rows in it: their versions say nothing about those of another."""

    def opened(self, run: str) -> Opened:
        """The table for the micro-batches of this run."""


def not_written(name: str, number: int, why: str) -> str:
    """What to say of a micro-batch that is not in a table."""
    return (
        f"table {name!r}: micro-batch {number} could not be written ({why.rstrip('.')}); a start from the same"
        " checkpoint goes on with it, and writes it once"
    )
