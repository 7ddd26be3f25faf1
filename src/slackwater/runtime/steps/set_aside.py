"""Late and rejected rows of a running query, until somebody asks for them.

Invariant: at most MOST rows are kept, or as many as came at once; the oldest go first, and those that go are counted.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from slackwater.plan.physical import PhysicalPlan
from slackwater.runtime.aside import LATE, SCHEMA

MOST = 100_000


class SideOutput:
    """Rows by `runtime.side_output.SCHEMA`, oldest first."""

    def __init__(self) -> None:
        self._tables: list[pa.Table] = []
        self._rows = 0
        self.dropped = 0
        """Rows that went before anybody asked."""

    def add(self, table: pa.Table) -> None:
        self._tables.append(table)
        self._rows += table.num_rows
        while self._rows > MOST and len(self._tables) > 1:
            oldest = self._tables.pop(0)
            self._rows -= oldest.num_rows
            self.dropped += oldest.num_rows

    def take(self) -> pa.Table:
        """What is kept; from now on it is not."""
        tables, self._tables, self._rows = self._tables, [], 0
        return pa.concat_tables([SCHEMA.empty_table(), *tables])


def by_stream(plan: PhysicalPlan, side_output: pa.Table) -> tuple[dict[str, pa.Table], dict[str, pa.Table]]:
    """Late and rejected rows, each by the alias of their stream."""
    late, rejected = {}, {}
    streams, reasons = (np.array(side_output.column(name).to_pylist(), dtype=object) for name in ("stream", "reason"))
    for alias in (one.stream.alias for one in plan.inputs):
        late[alias] = side_output.filter(pa.array((streams == alias) & (reasons == LATE), pa.bool_()))
        rejected[alias] = side_output.filter(pa.array((streams == alias) & (reasons != LATE), pa.bool_()))
    return late, rejected
