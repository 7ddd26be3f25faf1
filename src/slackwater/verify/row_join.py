"""A join with windows that count tuples against the truth.

Invariant: a late tuple enters no window that counts. So there are two truths: that of all tuples, by which recall is
measured, and that of a run in which the late ones were never there, which it must have given. What it gave beyond
the second is spurious; what it gave of the second alone is `displaced`. Where the order of equal times leaves a choice,
what was given is taken as chosen.
"""

# ruff: noqa: S608 (every name and number put into the SQL is made in this package)

from __future__ import annotations

from typing import Any

import numpy as np

from slackwater.core.time import SECOND
from slackwater.language.bound import JoinQuery, follows_rates
from slackwater.verify.counted import counts_of, recall_by_second, spread
from slackwater.verify.join import store_right_rows
from slackwater.verify.rate_truth import RateEnumeration
from slackwater.verify.recall import Int64s
from slackwater.verify.row_truth import RowEnumeration, explained_by_late
from slackwater.verify.verdict import Trial, Verdict


def judge_row_join(trial: Trial[JoinQuery]) -> Verdict:
    """Compare the rows of a join with its true results."""
    connection, query = trial.connection, trial.query
    _store_both(trial)
    members = ", ".join(f"row_{i}" for i in range(len(query.streams)))
    results, out_of_order = store_right_rows(connection, query, trial.render, trial.produced)
    connection.execute(f"CREATE TABLE given AS SELECT DISTINCT {members}, time, true AS hit FROM produced")
    for name in ("truth", "expected"):
        connection.execute(
            f"CREATE TABLE judged_{name} AS SELECT {members}, time, certain, {explained_by_late(query)} AS explained,"
            f" hit IS NOT NULL AS hit FROM {name} LEFT JOIN given USING ({members}, time)"
        )
    true, hits = connection.execute(
        "SELECT count(*) FILTER (certain OR hit), count(*) FILTER (hit) FROM judged_truth"
    ).fetchone()
    expected_hits, lacking = connection.execute(
        "SELECT count(*) FILTER (hit), count(*) FILTER (certain AND NOT hit AND NOT explained) FROM judged_expected"
    ).fetchone()
    (both,) = connection.execute(
        f"SELECT count(*) FROM judged_truth t JOIN judged_expected e USING ({members}, time)"
        " WHERE t.certain AND e.certain AND NOT e.hit AND NOT e.explained"
    ).fetchone()
    (kept,) = connection.execute(
        f"SELECT count(*) FROM judged_truth t JOIN judged_expected e USING ({members}, time) WHERE t.hit"
    ).fetchone()
    recalls = trial.periods.recalls_of(
        connection,
        "SELECT time, count(*) AS true, count(*) FILTER (hit) AS hit FROM judged_truth WHERE certain OR hit"
        " GROUP BY time ORDER BY time",
    )
    return Verdict(
        "recall", results, true, true - hits - both, lacking, results - expected_hits, out_of_order, recalls,
        expected_hits - kept,
    )  # fmt: skip


def judge_counted_row_join(trial: Trial[JoinQuery]) -> Verdict:
    """Compare (second, count) rows with the true counts; each second lies between what is certain and what may be."""
    connection, query = trial.connection, trial.query
    _store_both(trial)
    counts, out_of_order = counts_of(trial)
    certain = _by_second(connection, "truth", "certain")
    possible = _by_second(connection, "truth", "true")
    least = _by_second(connection, "expected", f"certain AND NOT ({explained_by_late(query)})")
    most = _by_second(connection, "expected", "true")
    seconds = np.unique(np.concatenate([found[0] for found in (certain, possible, least, most, counts)]))
    low, high, needed, allowed, given = (spread(seconds, found) for found in (certain, possible, least, most, counts))
    true = np.clip(given, low, high)
    missing, unexplained = np.maximum(true - given, 0), np.maximum(needed - given, 0)
    spurious = np.maximum(given - allowed, 0)
    displaced = np.maximum(given - high, 0) - np.maximum(given - np.maximum(high, allowed), 0)
    recalls = recall_by_second(seconds, true, given, trial.periods)
    return Verdict(
        "recall", int(given.sum()), int(true.sum()), int(np.maximum(missing - unexplained, 0).sum()),
        int(unexplained.sum()), int(spurious.sum()), out_of_order, recalls, int(displaced.sum()),
    )  # fmt: skip


def _store_both(trial: Trial[JoinQuery]) -> None:
    given = trial.connection, trial.query, trial.render
    enumeration: RowEnumeration | RateEnumeration = RowEnumeration(*given)
    if follows_rates(trial.query):
        enumeration = RateEnumeration(*given, trial.resizes)
    enumeration.store("truth", late_ones=True)
    enumeration.store("expected", late_ones=False)


def _by_second(connection: Any, table: str, which: str) -> tuple[Int64s, Int64s]:
    found = connection.execute(
        f"SELECT sw_floor(time, {SECOND}) AS second, count(*) AS n FROM {table} WHERE {which}"
        " GROUP BY second ORDER BY second"
    ).fetchnumpy()
    return found["second"], found["n"]
