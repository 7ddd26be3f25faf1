"""A counted join against the truth, second by second: members are not known, so only the sums can be compared.

Invariant: the truth over all rows bounds a second's count from above, the truth over rows in time from below, since a
late row can only take results away. What exceeds the first is spurious; what lacks to the second no late row
explains.
"""

# ruff: noqa: S608 (every name and number put into the SQL is made in this package)

from __future__ import annotations

from typing import Any

import numpy as np

from slackwater.core.schema import Kind
from slackwater.core.time import BEFORE_ALL, SECOND
from slackwater.language.bound import JoinQuery
from slackwater.verify.counted_truth import count_by_second
from slackwater.verify.produced import store
from slackwater.verify.recall import Int64s, RecallPeriods
from slackwater.verify.sql import Renderer
from slackwater.verify.verdict import Trial, Verdict

_Counts = tuple[Int64s, Int64s]


def judge_counted_join(trial: Trial[JoinQuery]) -> Verdict:
    """Compare (second, count) rows with the true counts. Periods are taken in whole seconds, [t - P, t)."""
    connection, query, render = trial.connection, trial.query, trial.render
    streams = range(len(query.streams))
    truth = count_by_second(connection, query, render, [f"s{i}" for i in streams])
    in_time = _in_time(connection, query, render, truth)
    counts, out_of_order = counts_of(trial)
    seconds = np.unique(np.concatenate((truth[0], counts[0])))
    true, least, given = (spread(seconds, found) for found in (truth, in_time, counts))
    missing = int(np.maximum(true - given, 0).sum())
    unexplained = int(np.maximum(least - given, 0).sum())
    recalls = recall_by_second(seconds, true, given, trial.periods)
    spurious = int(np.maximum(given - true, 0).sum())
    return Verdict(
        "recall",
        int(given.sum()),
        int(true.sum()),
        missing - unexplained,
        unexplained,
        spurious,
        out_of_order,
        recalls,
    )


def _in_time(connection: Any, query: JoinQuery, render: Renderer, truth: _Counts) -> _Counts:
    names = [f"in_time_{i}" for i in range(len(query.streams))]
    late = 0
    for i, name in enumerate(names):
        connection.execute(f"CREATE TEMP TABLE {name} AS SELECT * FROM s{i} WHERE met_{i} = {BEFORE_ALL}")
        late += connection.execute(f"SELECT (SELECT count(*) FROM s{i}) - (SELECT count(*) FROM {name})").fetchone()[0]
    return count_by_second(connection, query, render, names) if late else truth


def recall_by_second(
    seconds: Int64s, true: Int64s, given: Int64s, periods: RecallPeriods
) -> tuple[tuple[int, float], ...]:
    """Recall over periods of whole seconds, [t - P, t)."""
    some = true > 0
    # One microsecond into each second, the period (t - P, t] of a whole second t holds exactly the seconds of [t - P,
    # t).
    first = periods.first - periods.first % SECOND
    whole = RecallPeriods(first, _whole(periods.last), _whole(periods.period), _whole(periods.interval))
    return whole.recalls(seconds[some] + 1, true[some], np.minimum(true, given)[some])


def counts_of(trial: Trial[JoinQuery]) -> tuple[_Counts, int]:
    """The seconds of the rows of a counted join and what they count, and how often time went down."""
    columns = {"second": ("second", Kind.TIME), "n": ("count", Kind.INT)}
    stored = store(trial.connection, "produced", columns, "second", trial.produced)
    seconds, counts = trial.connection.execute(
        f"SELECT sw_floor(second, {SECOND}) AS of, CAST(sum(n) AS BIGINT) AS n FROM produced GROUP BY of ORDER BY of"
    ).fetchnumpy().values()  # fmt: skip
    return (seconds, counts), stored.descents


def spread(seconds: Int64s, counts: _Counts) -> Int64s:
    """Counts of some seconds as those of all the seconds given, 0 where there is none."""
    found = np.zeros(len(seconds), np.int64)
    found[np.searchsorted(seconds, counts[0])] = counts[1]
    return found


def _whole(micros: int) -> int:
    """Rounded up to a whole second."""
    return -(-micros // SECOND) * SECOND
