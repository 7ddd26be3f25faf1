"""One trial in the zoo: a query with a target over one kind of disorder, and what came of it.

Invariants:
- The truth is counted without the engine (`join_truth`, `sum_truth`): by sorting and counting, and
  event times alone decide, never the order of arrival.
- Where clocks are wrong, quality and latency are *the others'*. Results of a join that a tuple with a wrong clock takes
  part in are counted neither in the answer nor in the truth. To a sum such a tuple comes with the value 0, so it moves
  whatever it can move but the sum; and only windows of the present are judged. What is reported is held against
  everything, as `slackwater verify` does: all tuples but the rejected ones.
- The best constant and the best schedule know the future, and which clocks are wrong: they are found without those.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np
import pyarrow as pa

from papers.experiments.fulfilment import (
    EDGE,
    ENOUGH,
    errors,
    least_slack,
    recalls,
    share_at_least,
    share_at_most,
)
from papers.experiments.stages import Stage
from papers.experiments.sweep import CLAIRVOYANT, Row, Trial
from papers.experiments.trials import WatchedRun
from slackwater.core.errors import QueryError, UsageError
from slackwater.core.state import Emission
from slackwater.core.time import MILLISECOND, SECOND
from slackwater.plan.planner import plan
from slackwater.sinks.rows import RowMaker
from slackwater.sources.binding import bind_to_tables
from slackwater.sources.replay import replay
from slackwater.workloads import EPOCH_MS
from slackwater.workloads.disorder import ZOO, DisorderKind, ZooMember
from slackwater.workloads.workload import Floats, Integers

WITHIN_MS = 2_000
RANGE_MS, SLIDE_MS = 5_000, 250
"""The windows of the join and of the sum; a test holds them against the texts of the queries."""
SCHEDULE = "schedule"
MINUTES, PERIOD_S, CONFIDENCE = 12.0, 60, 0.95
START = EPOCH_MS * MILLISECOND
LADDER_MS = (0, *sorted({10 * round(1.25**step) for step in range(43)}))
"""Slacks that the best schedule chooses from: a quarter more at each step, up to two minutes."""

Streams = dict[str, pa.Table]


@dataclass
class Answer:
    """What a run gave."""

    everything: dict[int, float] = field(default_factory=dict)
    """Results by second (joins), or sums by the end of their window (µs)."""
    others: dict[int, float] = field(default_factory=dict)
    """The same without what a wrong clock takes part in."""
    drain: dict[int, float] = field(default_factory=dict)
    waited_ms: dict[int, float] = field(default_factory=dict)
    """By minute of result time: how many of the others' results came before the end, and how long all of them took."""
    report: dict[str, Any] = field(default_factory=dict)
    slack_over_time: list[tuple[float, float]] = field(default_factory=list)
    rejected: dict[str, Any] = field(default_factory=dict)
    """Rows by stream."""

    @property
    def latency_ms(self) -> float:
        return sum(self.waited_ms.values()) / max(sum(self.drain.values()), 1.0)


def member_of(stage: Stage) -> ZooMember:
    """The kind of disorder that a stage is about."""
    return ZOO[stage.workload.removeprefix("zoo/")]


def run(stage: Stage, clause: str, options: str = "", without_wrong: bool = False) -> Answer:
    """Run the question of a stage with a target, the way of `slackwater run`."""
    streams = _right(stage) if without_wrong else _marked(stage)
    told_apart = stage.joins and not without_wrong and member_of(stage).kind is DisorderKind.WRONG_CLOCKS
    question = stage.query
    if told_apart:
        question = f"SELECT a.wrong AS one, b.wrong AS other {question[question.index('FROM') :]}"
    text = f"{question} WITH {clause}" + (f" OPTIONS ({options})" if options else "")
    physical = plan(bind_to_tables(text, streams, "ts").query, count_only=stage.joins and not told_apart)
    watched = WatchedRun(physical, replay(physical, streams, "ms"), stage.epochs)
    answer = Answer()
    rows = None if stage.joins else RowMaker(physical, watched.replay.codebook)
    for emission in watched.emissions():
        if rows is not None:
            _note_sums(answer, emission, rows, stage)
        else:
            _note_results(answer, emission, told_apart, stage)
    answer.report = watched.report().as_json()
    answer.slack_over_time = watched.slack_over_time
    names = [one.stream.source for one in physical.inputs]
    answer.rejected = {name: np.unique(watched.side_outputs.rejected(i)) for i, name in enumerate(names)}
    return answer


def _note_results(answer: Answer, emission: Emission, told_apart: bool, stage: Stage) -> None:
    weight = np.ones(len(emission.ts)) if emission.multiplicity is None else emission.multiplicity.astype(np.float64)
    _add(answer.everything, emission.ts // SECOND, weight)
    if told_apart:
        weight = weight * np.all([column == 0 for column in emission.columns], axis=0)
    _add(answer.others, emission.ts // SECOND, weight)
    _note_waiting(answer, emission, emission.ts, weight, stage)


def _note_sums(answer: Answer, emission: Emission, rows: RowMaker, stage: Stage) -> None:
    table = rows.table(emission)
    ends = np.asarray(table["window_end"].cast("int64").to_numpy(), np.int64)
    answer.everything.update(zip(ends.tolist(), table["total"].to_pylist(), strict=True))
    answer.others = answer.everything
    _note_waiting(answer, emission, emission.ts, np.ones(len(emission.ts)), stage)


def _note_waiting(answer: Answer, emission: Emission, ts: Any, weight: Floats, stage: Stage) -> None:
    if emission.flushed:
        return
    minute = (ts - START) // (60 * SECOND)
    present = (ts >= START) & (minute < _minutes(stage))
    _add(answer.drain, minute[present], weight[present])
    _add(answer.waited_ms, minute[present], (weight * (emission.clock - ts) / MILLISECOND)[present])


def _add(found: dict[int, float], place: Any, count: Floats) -> None:
    places, inverse = np.unique(place, return_inverse=True)
    for one, many in zip(places.tolist(), np.bincount(inverse, count, len(places)).tolist(), strict=True):
        found[one] = found.get(one, 0.0) + many


def _minutes(stage: Stage) -> float:
    return stage.minutes or MINUTES


@lru_cache(maxsize=2)
def _marked_of(stage: Stage) -> Streams:
    """The streams; where clocks are wrong, a column says whose, and their values are 0."""
    streams = stage.streams.streams
    if member_of(stage).kind is not DisorderKind.WRONG_CLOCKS:
        return streams
    found = {}
    for name, table in streams.items():
        wrong = _wrong(table)
        values = pa.array(np.where(wrong, 0.0, table["v"].to_numpy()))
        table = table.set_column(table.column_names.index("v"), "v", values)
        found[name] = table.append_column("wrong", pa.array(wrong))
    return found


def _marked(stage: Stage) -> Streams:
    return _marked_of(_plain(stage))


def _right(stage: Stage) -> Streams:
    """The streams without tuples whose clocks are wrong."""
    streams = _marked(stage)
    if member_of(stage).kind is not DisorderKind.WRONG_CLOCKS:
        return streams
    return {name: table.filter(pa.array(_wrong(table) == 0)) for name, table in streams.items()}


def _wrong(table: pa.Table) -> Any:
    return (table["ts"].to_numpy() != table["sent"].to_numpy()).astype(np.int64)


def _plain(stage: Stage) -> Stage:
    return replace(stage, epoch_ms=0, further="")


@lru_cache(maxsize=4)
def _truth_of(stage: Stage, others: bool) -> dict[int, float]:
    return _true(stage, _right(stage) if others else _marked(stage))


def _true(stage: Stage, streams: Streams) -> dict[int, float]:
    return join_truth(streams) if stage.joins else sum_truth(streams["a"])


def others_truth(stage: Stage) -> dict[int, float]:
    """What is judged: the answer to the tuples of right clocks."""
    return _truth_of(replace(stage, epoch_ms=0), others=True)


def whole_truth(stage: Stage, answer: Answer) -> dict[int, float]:
    """What a report is held against: everything but what was rejected."""
    if not any(len(rows) for rows in answer.rejected.values()):
        return _truth_of(replace(stage, epoch_ms=0), others=False)
    streams = dict(_marked(stage))
    for name, rows in answer.rejected.items():
        keep = np.ones(streams[name].num_rows, np.bool_)
        keep[rows] = False
        streams[name] = streams[name].filter(pa.array(keep))
    return _true(stage, streams)


def judged_from(stage: Stage) -> float:
    """Seconds from the start: what ends before is not judged.

    Where delays are alike that is the first minute. Where they change, a period must begin after the first event.
    """
    member, length = member_of(stage), 60 * _minutes(stage)
    period = PERIOD_S if stage.joins and member.kind is DisorderKind.CHANGING else 0
    return member.known_after * length + period


def judged(stage: Stage, answer: Answer) -> tuple[Floats, Floats]:
    """Seconds from the start, and the recall of the period up to there, or the error of the window that ends there."""
    true = others_truth(stage)
    if stage.joins:
        ends, found = recalls(answer.others, true, PERIOD_S)
        ends = ends - EPOCH_MS / 1000
    else:
        found = errors(answer.others, true)
        ends = (np.array(sorted(true), np.float64) - START) / SECOND
    return ends, found


def fulfilment(stage: Stage, answer: Answer, target: float, since: float) -> tuple[float, float]:
    """Φ of the target, and of .99 of it: periods with enough recall, or windows close enough (twice the same)."""
    ends, found = judged(stage, answer)
    found = found[ends > since]
    if stage.joins:
        return share_at_least(found, target), share_at_least(found, 0.99 * target)
    return share_at_most(found, target), share_at_most(found, target)


@lru_cache(maxsize=256)
def constant(stage: Stage, slack_ms: int) -> Answer:
    """The answer with a fixed slack, to the tuples of right clocks alone."""
    return run(stage, f"DELAY {slack_ms} MILLISECONDS" if slack_ms else "NO WAIT", without_wrong=True)


def best_schedule(stage: Stage, target: float) -> tuple[list[int], float]:
    """The least slack of each minute, with hindsight, and the latency that results would have had.

    A minute is answered as by a constant slack, and it is enough when that minute's own results meet the target. So
    it is free to change from minute to minute, which no run is; no run need reach it.
    """
    true = others_truth(stage)
    slacks, results, waited = [], 0.0, 0.0
    for minute in range(round(_minutes(stage))):
        mine = {at: value for at, value in true.items() if _minute_of(stage, at) == minute}
        slack = _least(partial(_meets, stage, mine, target))
        answer = constant(stage, slack)
        slacks.append(slack)
        results += answer.drain.get(minute, 0.0)
        waited += answer.waited_ms.get(minute, 0.0)
    return slacks, waited / max(results, 1.0)


def _least(meets: Callable[[int], bool]) -> int:
    """The least slack of the ladder that meets, taking it that more does too; the longest where none does."""
    return LADDER_MS[min(bisect_left(LADDER_MS, True, key=meets), len(LADDER_MS) - 1)]


def _minute_of(stage: Stage, at: int) -> int:
    since = at * SECOND - START if stage.joins else at - START - 1
    return int(since // (60 * SECOND))


def _meets(stage: Stage, true: dict[int, float], target: float, slack_ms: int) -> bool:
    if not true:
        return True
    answer = constant(stage, slack_ms)
    if stage.joins:
        made = sum(answer.others.get(second, 0.0) for second in true)
        return made >= target * sum(true.values()) - EDGE
    return share_at_most(errors(answer.others, true), target) >= CONFIDENCE


@dataclass(frozen=True)
class ZooTrial(Trial):
    """One controller, or one of the clairvoyants, asked for a quality."""

    @property
    def searched(self) -> bool:
        return self.way in (CLAIRVOYANT, SCHEDULE)

    def measured(self) -> Row:
        stage = self.stage
        row: Row = {
            "workload": stage.workload, "seed": stage.seed, "minutes": stage.minutes, "window_s": None, "change": "",
            "way": self.way, "target": self.target, "period_s": self.period_s, "parameter": self.parameter,
            "value": self.value, "offered": True, "asks": "recall" if stage.joins else "error",
            "kind": member_of(stage).kind.value,
        }  # fmt: skip
        assert self.target is not None
        if self.way == SCHEDULE:
            slacks, latency = best_schedule(stage, self.target)
            return row | {"latency_ms": latency, "slack_ms": float(np.mean(slacks)), "slack_by_minute": slacks}
        try:
            answer = self._searched() if self.searched else run(stage, self.clause, self.options)
        except (UsageError, QueryError) as error:
            return row | {"offered": False, "refused": str(error).split("\n")[0]}
        return row | self._as_reported(answer)

    def _searched(self) -> Answer:
        stage, target = self.stage, self.target
        assert target is not None
        # A constant knows of the first event too, so it is no excuse.
        least = least_slack(lambda slack: fulfilment(stage, constant(stage, slack), target, PERIOD_S)[0] >= ENOUGH)
        if least is None:
            raise UsageError("no constant slack of two minutes or less is enough")
        return constant(stage, least)

    def _as_reported(self, answer: Answer) -> Row:
        stage, target, report = self.stage, self.target, answer.report
        assert target is not None
        phi, phi99 = fulfilment(stage, answer, target, judged_from(stage))
        row: Row = {
            "latency_ms": answer.latency_ms, "slack_ms": report["slack_ms"]["avg"], "seconds": report["seconds"],
            "phi": phi, "phi99": phi99, "late": report["late"], "rejected": report["rejected"],
        }  # fmt: skip
        if not self.searched:
            row |= self._reported(answer)
        if self.series:
            ends, found = judged(stage, answer)
            thin = slice(None, None, 1 if stage.joins else 4)
            drawn = zip(ends[thin].round(2).tolist(), found[thin].round(5).tolist(), strict=True)
            row["quality_over_time"] = list(drawn)
            row["slack_over_time"] = _thinned(answer.slack_over_time)
        return row

    def _reported(self, answer: Answer) -> Row:
        """What the query said of itself, beside what is true."""
        assert self.target is not None
        true = whole_truth(self.stage, answer)
        if self.stage.joins:
            share = sum(answer.everything.values()) / max(sum(true.values()), 1.0)
        else:
            share = share_at_most(errors(answer.everything, true), self.target)
        reported = answer.report["measured_quality"]
        row: Row = {"true": share}
        if reported is None or reported["measured"] is None:
            return row
        inside = reported["low"] - 1e-9 <= share <= reported["high"] + 1e-9
        return row | {
            "reported": reported["measured"], "low": reported["low"], "high": reported["high"],
            "off": abs(reported["measured"] - share), "inside": float(inside),
        }  # fmt: skip


def _thinned(slacks: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The slack where it changed, to draw."""
    return [one for i, one in enumerate(slacks) if i in (0, len(slacks) - 1) or one[1] != slacks[i - 1][1]]


def join_truth(streams: Mapping[str, pa.Table]) -> dict[int, float]:
    """How many results of the join fall into each second of result time.

    >>> a, b = (pa.table({"ts": ts, "key": [1] * len(ts)}) for ts in ([1000, 4000], [1500, 3500, 9000]))
    >>> join_truth({"a": a, "b": b})
    {1: 1.0, 4: 1.0}
    """
    (ts, key), (other_ts, other_key) = ((_column(streams[name], "ts"), _column(streams[name], "key")) for name in "ab")
    found: dict[int, float] = {}
    for one in np.intersect1d(key, other_key).tolist():
        mine, theirs = np.sort(ts[key == one]), np.sort(other_ts[other_key == one])
        # A pair counts where its later tuple is; of two at the same time that is the first stream's.
        for late, early, shift in ((mine, theirs, 1), (theirs, mine, 0)):
            upto = np.searchsorted(early, late + shift, "left")
            count = upto - np.searchsorted(early, late - WITHIN_MS, "left")
            _add_seconds(found, late // 1000, count.astype(np.float64))
    return {second: found[second] for second in sorted(found)}


def sum_truth(table: pa.Table) -> dict[int, float]:
    """The sum of every window that has a tuple, by its end in microseconds."""
    ts, v = _column(table, "ts"), table["v"].to_numpy()
    order = np.argsort(ts, kind="stable")
    ts, total = ts[order], np.concatenate(([0.0], np.cumsum(v[order])))
    first = ts // SLIDE_MS * SLIDE_MS + SLIDE_MS
    ends = np.unique(np.concatenate([first + step for step in range(0, RANGE_MS, SLIDE_MS)]))
    sums = total[np.searchsorted(ts, ends, "left")] - total[np.searchsorted(ts, ends - RANGE_MS, "left")]
    return dict(zip((1000 * ends).tolist(), sums.tolist(), strict=True))


def _column(table: pa.Table, name: str) -> Integers:
    return np.asarray(table[name].to_numpy(), np.int64)


def _add_seconds(found: dict[int, float], second: Integers, count: Floats) -> None:
    seconds, place = np.unique(second, return_inverse=True)
    for one, many in zip(seconds.tolist(), np.bincount(place, count, len(seconds)).tolist(), strict=True):
        if many:
            found[one] = found.get(one, 0.0) + many
