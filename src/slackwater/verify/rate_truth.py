"""All pairs of tuples that join where windows follow rates: numbered and enumerated by DuckDB, for what was in force.

Invariant: the tuples of a stream are numbered by (event time, arrival). Whenever time moves on, a window of n tuples
lets go all but its last n and those of the time of the first of these, and what has left does not come back; so it
holds the numbers above the largest that any time so far has let go. Tuples of one time come and go together, so every
pair is certain.

Which sizes were in force, and how near in time members had to be, is reported by the run: they are learnt of the
streams' past, and not part of what is judged.
"""

# ruff: noqa: S608 (every name and number put into the SQL is made in this package)

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from slackwater.core.errors import UsageError
from slackwater.core.rates import Resize
from slackwater.core.time import BEFORE_ALL
from slackwater.language.bound import BoundQuery, JoinQuery, is_chain, rates_anywhere, streams_read
from slackwater.verify.row_truth import number
from slackwater.verify.sql import Renderer

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
            number(self.connection, j, which)
        self.connection.execute(f"CREATE OR REPLACE TEMP TABLE in_force AS {self._in_force()}")
        found = " UNION ALL ".join(self._triggered_by(trigger) for trigger in (0, 1))
        self.connection.execute(f"CREATE TABLE {name} AS {found}")

    def _in_force(self) -> str:
        """Of every time there is: how near members must be, and the numbers that have left windows (`gone_<j>`)."""
        columns = {
            "nth": list(range(len(self.resizes))),
            "since": [one.at for one in self.resizes],
            "size_0": [one.sizes[0] for one in self.resizes],
            "size_1": [one.sizes[1] for one in self.resizes],
            "within": [one.within for one in self.resizes],
        }
        self.connection.register("reported", pa.table(columns, pa.schema([(name, pa.int64()) for name in columns])))
        # Of several that came into force at once the last one stays.
        reported = "SELECT * FROM reported QUALIFY nth = max(nth) OVER (PARTITION BY since)"
        times = "SELECT r.at FROM reached_0 r UNION SELECT r.at FROM reached_1 r"
        step = f"SELECT t.at AS time, f.* FROM ({times}) t ASOF JOIN ({reported}) f ON t.at >= f.since"
        for j in (0, 1):
            step = _reaching(f"before_{j}", step, "time", ">", j)
            # The first tuple that stays, and how many there are before its time.
            stays = f"SELECT number_{j} AS stays, rank() OVER (ORDER BY ts_{j}) - 1 AS earlier FROM numbered_{j}"
            step = (
                f"SELECT t.*, coalesce(n.earlier, 0) AS left_{j} FROM ({step}) t"
                f" LEFT JOIN ({stays}) n ON n.stays = t.before_{j} - t.size_{j} + 1 AND t.before_{j} > t.size_{j}"
            )
        gone = ", ".join(f"max(left_{j}) OVER (ORDER BY time) AS gone_{j}" for j in (0, 1))
        return f"SELECT time, within, {gone} FROM ({step})"

    def _triggered_by(self, trigger: int) -> str:
        """A SELECT of the pairs whose first newest member is of this stream."""
        i, j = trigger, 1 - trigger
        step = (
            f"SELECT t.*, gone_{j}, ts_{i} - within AS oldest FROM numbered_{i} t JOIN in_force f ON t.ts_{i} = f.time"
        )
        for name, when, compared in (("upto", f"ts_{i}", ">="), ("old", "oldest", ">")):
            step = _reaching(name, step, when, compared, j)
        step = f"SELECT *, unnest(range(greatest(gone_{j}, old) + 1, upto + 1)) AS number_{j} FROM ({step})"
        order = "<" if j < i else "<="
        pairs = (
            f"SELECT * FROM ({step}) JOIN numbered_{j} USING (number_{j})"
            f" WHERE ts_{j} {order} ts_{i} AND {self.render.all_of(self.query.conditions)}"
        )
        return f"SELECT row_0, met_0, row_1, met_1, ts_{i} AS time, true AS certain FROM ({pairs})"


def _reaching(name: str, select: str, when: str, compared: str, stream: int) -> str:
    """A SELECT with one column more: the last number of a stream before (or at) a time, 0 where there is none."""
    return (
        f"SELECT t.*, coalesce(r.number, 0) AS {name} FROM ({select}) t"
        f" ASOF LEFT JOIN reached_{stream} r ON t.{when} {compared} r.at"
    )


def check_rates_judged(query: BoundQuery) -> None:
    """Refuse what cannot be judged of windows that follow rates."""
    if rates_anywhere(query) and (is_chain(query) or len(streams_read(query)) > 2):
        raise UsageError(_SEVERAL)
