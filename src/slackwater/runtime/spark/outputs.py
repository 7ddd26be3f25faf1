"""What writes the rows of an output: a folder, a format of Spark, a topic, a table that is kept up to date, a function.

Invariant: a micro-batch that runs again is written as if it had run once, as far as its sink can promise that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Self

from pyspark.sql import DataFrame, SparkSession


class Writer:
    """Writes the rows of one output of one query."""

    takes_changes: ClassVar[bool] = False
    """Whether rows may correct earlier ones; what only appends would show both."""
    only_rows: ClassVar[bool] = True
    """Whether a micro-batch without rows need not be written, unless it may have been written before."""

    @property
    def folder(self) -> str | None:
        """The folder that it writes to; None where it writes elsewhere."""
        return None

    def with_key(self, declared: tuple[str, ...] | None) -> Self:
        """It for a query whose plan declares this key of its change rows, or none; what appends has no use for it."""
        return self

    def check(self, columns: Sequence[str], what: str) -> None:
        """Refuse what cannot be written here, before anything starts."""

    def of_run(self, run: str, what: str) -> Self:
        """It as one query has it, whose micro-batches are told by this name from those of another checkpoint."""
        return self

    def refuse_other_runs(self, spark: SparkSession, what: str) -> None:
        """Refuse rows of another checkpoint, where their numbers or versions would begin again."""

    def write(self, frame: DataFrame, number: int) -> None:
        """Write the rows of one micro-batch."""
        raise NotImplementedError
