"""All pairs of tuples that join where windows follow rates: numbered and enumerated by DuckDB, for what was in force.

Invariant: the tuples of a stream are numbered by (event time, arrival). While a window of n tuples is in force, number
k of its stream pushes out all up to k - n; when a smaller one comes into force, it lets go all but its last; what has
left does not come back. So a window holds the numbers above the largest `number reached - size` of all sizes so far. A
pair is `certain` where every order of equal times has it, as in `row_truth.py`.

Which sizes were in force, and how near in time members had to be, is told by the run: they are what is learnt of the
streams' past, and not part of what is judged.
"""

# ruff: noqa: S608 (every name and number put into the SQL is made in this package)

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from slackwater.judge.sql import Renderer
from slackwater.language.bound import BoundQuery, JoinQuery, is_chain, rates_anywhere, streams_read
from slackwater.model.errors import UsageError
from slackwater.model.rates import Resize
from slackwater.model.time import BEFORE_ALL

_SEVERAL = (
    "verify knows the truth of one join of two streams whose windows follow rates; of several joins each has sizes that"
    " hang on the results of the others. Verify them one by one"
)


@dataclass(frozen=True)
class RateEnumeration:
    """Where the tuples of one query are, and what was in force since when; the first one from the beginning on."""

    connection: Any
    query: JoinQuery
    render: Renderer
    resizes: Sequence[Resize]

    def store(self, name: str, late_ones: bool) -> None:
        """Table `name`: row_<i>, met_<i>, time and certain of every pair.

        Without `late_ones` windows have only the tuples that were in time: what a run can give.
        """
        for j in (0, 1):
            which = "" if late_ones else f" WHERE met_{j} = {BEFORE_ALL}"
            self._make(
                f"numbered_{j}",
                f"SELECT *, row_number() OVER (ORDER BY ts_{j}, place_{j}) AS number_{j} FROM s{j}{which}",
            )
            self._make(
                f"reached_{j}", f"SELECT ts_{j} AS at, max(number_{j}) AS number FROM numbered_{j} GROUP BY ts_{j}"
            )
        self._make("in_force", self._in_force())
        found = " UNION ALL ".join(self._triggered_by(trigger) for trigger in (0, 1))
        self.connection.execute(f"CREATE TABLE {name} AS {found}")

    def _make(self, name: str, select: str) -> None:
        self.connection.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS {select}")

    def _in_force(self) -> str:
        """What is in force since when, each with the numbers that had left the windows by then (`gone_<j>`)."""
        told = [*self.resizes]
        columns = {
            "nth": list(range(len(told))),
            "since": [one.at for one in told],
            "until": [one.at for one in told[1:]] + [2**62],
            "size_0": [one.sizes[0] for one in told],
            "size_1": [one.sizes[1] for one in told],
            "within": [one.within for one in told],
        }
        self.connection.register("told", pa.table(columns, pa.schema([(name, pa.int64()) for name in columns])))
        step = "SELECT * FROM told"
        for j in (0, 1):
            step = _reaching(f"last_{j}", step, "until", ">", j)
        so_far = "OVER (ORDER BY nth ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
        gone = ", ".join(f"coalesce(max(last_{j} - size_{j}) {so_far}, 0) AS gone_{j}" for j in (0, 1))
        # Of several that came into force at once the last one stays.
        return f"SELECT * FROM (SELECT *, {gone} FROM ({step})) WHERE since < until"

    def _triggered_by(self, trigger: int) -> str:
        """A SELECT of the pairs whose first newest member is of this stream."""
        i, j = trigger, 1 - trigger
        step = (
            f"SELECT t.*, size_0, size_1, gone_{j}, ts_{i} - within AS oldest"
            f" FROM numbered_{i} t ASOF JOIN in_force f ON t.ts_{i} >= f.since"
        )
        for name, moment, compared, of in (
            ("before", f"ts_{i}", ">", j), ("upto", f"ts_{i}", ">=", j), ("ours", f"ts_{i}", ">=", i),
            ("old", "oldest", ">", j),
        ):  # fmt: skip
            step = _reaching(name, step, moment, compared, of)
        step = (
            f"SELECT *, unnest(range(greatest(gone_{j}, before - size_{j}, old) + 1, upto + 1)) AS number_{j}"
            f" FROM ({step})"
        )
        order = "<" if j < i else "<="
        pairs = (
            f"SELECT * FROM ({step}) JOIN numbered_{j} USING (number_{j})"
            f" WHERE ts_{j} {order} ts_{i} AND {self.render.all_of(self.query.conditions)}"
        )
        certain = f"number_{j} > upto - size_{j} AND (ts_{j} < ts_{i} OR number_{i} > ours - size_{i})"
        return f"SELECT row_0, met_0, row_1, met_1, ts_{i} AS time, {certain} AS certain FROM ({pairs})"


def _reaching(name: str, select: str, moment: str, compared: str, stream: int) -> str:
    """A SELECT with one column more: the last number of a stream before (or at) a moment, 0 where there is none."""
    return (
        f"SELECT t.*, coalesce(r.number, 0) AS {name} FROM ({select}) t"
        f" ASOF LEFT JOIN reached_{stream} r ON t.{moment} {compared} r.at"
    )


def check_rates_judged(query: BoundQuery) -> None:
    """Refuse what cannot be judged of windows that follow rates."""
    if rates_anywhere(query) and (is_chain(query) or len(streams_read(query)) > 2):
        raise UsageError(_SEVERAL)
