"""`slackwater verify`: run a query, or a file of them, and have an independent engine say what each should have
answered."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

from slackwater.cli.paging import say
from slackwater.cli.prepare import Prepared, PreparedFile, Runtime
from slackwater.cli.run import QueriesOfFile, table_of
from slackwater.cli.terminal import (
    interruptible,
    progress,
    warn_at_first,
    warn_at_last,
)
from slackwater.core.batch import ROW, TS
from slackwater.core.errors import UsageError
from slackwater.core.quality import Recall, RelativeError
from slackwater.core.rates import Resize
from slackwater.core.time import SECOND, format_duration, readable
from slackwater.language.bound import BoundQuery
from slackwater.observe.report import Report, utc_text
from slackwater.observe.report_view import own_measure
from slackwater.runtime.recorded import RecordedRun
from slackwater.sources.replay import Replay, replay
from slackwater.verify import Changed, JudgedInput, Verdict, check_rates_judged, judge

RECALLS = (0.9, 0.95, 0.99, 1.0)
ERRORS = (0.0, 0.01, 0.05, 0.1)


@dataclass(frozen=True)
class Verified:
    """A run and its verdict."""

    report: Report
    verdict: Verdict
    target: float | None
    period: int
    interval: int
    on_arrival: bool = False
    """Whether results may leave in any order."""

    def as_json(self) -> dict[str, Any]:
        levels = self.levels()
        report = self.report.as_json()
        kept = (
            "tuples",
            "in_time",
            "late",
            "filtered",
            "rejected",
            "epochs",
            "slack_ms",
            "latency_ms",
            "latency_by_cause_ms",
            "measured_quality",
            "outlook",
            "runtime",
            "shards",
        )
        return {
            "sound": self.verdict.sound,
            **self.verdict.to_json(),
            "fulfilment": {f"{x:g}": self.verdict.fulfilment(x) for x in levels},
            "target": self.target,
            "period_ms": self.period / 1000,
            "interval_ms": self.interval / 1000,
            "measured": [
                {"t_ms": t / 1000, self.verdict.measure: value if np.isfinite(value) else None}
                for t, value in self.verdict.measurements
            ],
            **{name: report[name] for name in kept if name in report},
        }

    def levels(self) -> tuple[float, ...]:
        usual = RECALLS if self.verdict.measure == "recall" else ERRORS
        return usual if self.target is None else tuple(sorted({*usual, self.target}))


def verify_query(
    prepared: Prepared, runtime: Runtime, count_only: bool, arrival_time: str | None,
    period: int | None, interval: int, quiet: bool,
) -> Verified:  # fmt: skip
    """Run a query and judge it."""
    query = prepared.bound.query
    check_rates_judged(query)
    physical = prepared.plan(count_only, identities=True)
    arrivals = replay(physical, prepared.sources, prepared.time_unit, arrival_time, prepared.ranks)
    first = warn_at_first(physical, arrivals)
    with runtime.begin(physical, arrivals, prepared.sources, prepared.time_unit) as run:
        run.warm_up()
        with interruptible(run), progress(run, quiet) as bar:
            rows = list(run.tables(bar.tick))
        warn_at_last(run, first)
    if run.interrupted:
        raise KeyboardInterrupt
    return judge_run(query, run, arrivals, rows, count_only, period, interval)


def judge_run(
    query: BoundQuery, run: RecordedRun, arrivals: Replay, rows: list[pa.Table], count_only: bool,
    period: int | None, interval: int,
) -> Verified:  # fmt: skip
    """The verdict on a run that is over; without a period, by that of the target."""
    quality = query.quality
    if period is None:
        period = quality.over if isinstance(quality, Recall) else 60 * SECOND
    target = quality.target if isinstance(quality, Recall) else None
    if isinstance(quality, RelativeError):
        target = quality.bound
    inputs = [_judged(run, arrivals, position) for position in run.plan.inputs_of_entries]
    verdict = judge(
        query, inputs, rows, count_only=count_only, period=period, interval=interval, resizes=_in_force(run),
        in_epochs=run.in_epochs,
    )  # fmt: skip
    return Verified(run.report(), verdict, target, period, interval, query.emit.on_arrival)


def _in_force(run: RecordedRun) -> list[Resize]:
    """Where windows follow rates: what was in force, from the beginning on."""
    known = [one for _, one in run.resizes]
    changes = sum(seen.resized + 1 for seen in run.observe().rates)
    if len(known) != changes:
        raise UsageError(
            f"of {changes:,} changes of windows {changes - len(known):,} are not known any more, nor is the true"
            " answer; verify in shorter epochs"
        )
    return known


def _judged(run: RecordedRun, arrivals: Replay, position: int) -> JudgedInput:
    """The rows of one input that were not rejected, with their identity and how they fared."""
    table = arrivals.tables[position]
    words = arrivals.inputs[position].words
    late = np.zeros(table.num_rows, np.bool_)
    watermark = np.zeros(table.num_rows, np.int64)
    row, met = run.side_outputs.watermarks(position)
    late[row], watermark[row] = True, met
    keep = np.ones(table.num_rows, np.bool_)
    keep[run.side_outputs.rejected(position)] = False
    arrived = np.flatnonzero(arrivals.stream == position)
    came = arrivals.row[arrived]
    place = np.zeros(table.num_rows, np.int64)
    place[came] = arrived
    own = {"_row": words[ROW], "_ts": words[TS], "_place": place, "_late": late, "_watermark": watermark}
    taken = [name for name in own if name in table.column_names]
    read = {name for name, _, _ in run.plan.inputs[position].columns}
    for name in taken:
        if name in read:
            raise UsageError(f"verify needs the column name {name} for itself; rename it in the stream")
    table = table.drop_columns(taken)
    for name, values in own.items():
        table = table.append_column(name, pa.array(values))
    return JudgedInput(table.take(pa.array(came[keep[came]])))


def show(verified: Verified, console: Console) -> None:
    """The verdict as a table, the measurements in one line each level."""
    verdict, changed = verified.verdict, verified.verdict.changed
    table = _plain_table()
    if changed is None or changed.corrected is None:
        _add_answer(table, verified)
    else:
        console.print(_two_answers(verdict, changed.corrected, changed.corrections))
    if changed is not None:
        _add_changes(table, changed)
    own = verified.report.observation.quality
    if own is not None and own.share is not None:
        table.add_row("measured by itself", own_measure(own))
    foreseen = verified.report.as_json()["outlook"]
    if foreseen is not None and foreseen["said"] is not None:
        table.add_row("target", foreseen["said"])
    table.add_row("late tuples", f"{verified.report.observation.late:,} of {verified.report.tuples:,}")
    console.print(table)
    if not verdict.measurements:
        console.print(f"no measurement: the streams are shorter than one period of {format_duration(verified.period)}")
        return
    what = "recall" if verdict.measure == "recall" else "relative error"
    period = f" over {format_duration(verified.period)}, every {format_duration(verified.interval)}"
    scope = period if verdict.measure == "recall" else " per window"
    console.print(f"\n{what}{scope}: {len(verdict.measurements):,} measurements")
    _show_periods(verdict, console)
    sign = "≥" if verdict.measure == "recall" else "≤"
    for level in verified.levels():
        met = verdict.fulfilment(level)
        mark = "  <- the target" if level == verified.target else ""
        console.print(f"Φ({what} {sign} {level:g}) = {met:.4f}{mark}")


def _plain_table() -> Table:
    return Table(show_header=False, box=None, pad_edge=False)


def _add_answer(table: Table, verified: Verified) -> None:
    """The answer, where there is one."""
    verdict = verified.verdict
    table.add_row("results", f"{verdict.results:,}")
    table.add_row("true_results", f"{verdict.true_results:,}")
    explained = f"{verdict.missing_late:,} because of late tuples, {verdict.missing_unexplained:,} unexplained"
    table.add_row("missing", f"{verdict.missing:,} ({explained})")
    table.add_row("missing_unexplained", f"{verdict.missing_unexplained:,}")
    table.add_row("spurious", f"{verdict.spurious:,}")
    table.add_row("out_of_order", "any order" if verified.on_arrival else f"{verdict.out_of_order:,}")
    if verdict.displaced:
        table.add_row("displaced", f"{verdict.displaced:,} (there only because late tuples are not)")
    table.add_row("recall_overall", f"{verdict.recall_overall:.6f}")


def _two_answers(first: Verdict, corrected: Verdict, corrections: int) -> Table:
    """The first answer beside the one after corrections; what is missing there came too late to be corrected."""
    table = Table(box=None, pad_edge=False)
    table.add_column("")
    for heading in ("first answer", "after corrections"):
        table.add_column(heading, justify="right")
    table.add_row("corrections", "", f"{corrections:,}")
    answers = (first, corrected)
    counts = ("results", "true_results", "missing", "missing_late", "missing_unexplained", "spurious", "displaced")
    for name in counts:
        found = [getattr(one, name) for one in answers]
        if name != "displaced" or any(found):
            table.add_row(name, *(f"{count:,}" for count in found))
    table.add_row("out_of_order", f"{first.out_of_order:,}", "any order")
    table.add_row("recall_overall", *(f"{one.recall_overall:.6f}" for one in answers))
    if first.measure == "error":
        table.add_row("exact", *(_share(one.fulfilment(0)) for one in answers))
    return table


def _add_changes(table: Table, changed: Changed) -> None:
    """What is said of rows of open windows, and of the rules that all changes keep."""
    early = changed.early
    if early is not None:
        table.add_row("early rows", f"{early.rows:,} of {early.results:,} results")
        for name, after in (("first row", early.first_after), (f"row within {early.near:g}", early.near_after)):
            if after is not None and early.final_after is not None:
                final = f"the final row {readable(early.final_after)}"
                table.add_row(name, f"{readable(after)} after its window begins, {final} (medians)")
        if early.covered is not None:
            table.add_row("expected error", f"covers the truth in {_share(early.covered)} of the early rows")
    for fault in changed.faults:
        table.add_row("broken changes", str(fault))


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def _show_periods(verdict: Verdict, console: Console, most: int = 12) -> None:
    """Every measurement, or a dozen of them, evenly spread, where there are more."""
    count = len(verdict.measurements)
    picked = sorted({round(i * (count - 1) / (most - 1)) for i in range(most)}) if count > most else range(count)
    table = Table(box=None, pad_edge=False)
    table.add_column("measured at")
    table.add_column(verdict.measure, justify="right")
    for i in picked:
        t, value = verdict.measurements[i]
        table.add_row(utc_text(t), f"{value:.6f}" if np.isfinite(value) else "never emitted")
    console.print(table)
    if count > most:
        console.print(f"({len(picked)} of {count:,} shown; --json has all)")


def verify_file(
    prepared: PreparedFile, runtime: Runtime, count_only: bool, arrival_time: str | None,
    period: int | None, interval: int, quiet: bool,
) -> dict[str, Verified | str]:  # fmt: skip
    """Run all queries and judge each; a query that failed has its reason in place of a verdict."""
    prepared.file.of_each(lambda query: check_rates_judged(prepared.queries[query.name].bound.query))
    plans = prepared.plans(count_only, identities=True)
    judges = _Judges(prepared, count_only, arrival_time, period, interval)
    QueriesOfFile(prepared, plans, runtime, arrival_time, quiet).run(judges)
    return judges.judged


@dataclass
class _Judges:
    """Keeps the results of each query until it is at its end, and judges it then."""

    prepared: PreparedFile
    count_only: bool
    arrival_time: str | None
    period: int | None
    interval: int
    judged: dict[str, Verified | str] = field(default_factory=dict)
    _rows: dict[str, list[pa.Table]] = field(default_factory=lambda: defaultdict(list))

    def take(self, name: str, table: pa.Table) -> None:
        self._rows[name].append(table)

    def end(self, name: str, run: RecordedRun, failure: str | None) -> None:
        if run.interrupted:
            raise KeyboardInterrupt
        rows = self._rows.pop(name, [])
        if failure is not None:
            self.judged[name] = failure
            return
        one = self.prepared.queries[name]
        arrivals = replay(run.plan, one.sources, one.time_unit, self.arrival_time, one.ranks)
        self.judged[name] = judge_run(one.bound.query, run, arrivals, rows, self.count_only, self.period, self.interval)


def is_sound(judged: Verified | str) -> bool:
    """Whether a query did what it should."""
    return not isinstance(judged, str) and judged.verdict.sound


def show_verdicts(judged: Mapping[str, Verified | str], console: Console) -> None:
    """A line for every query with its verdict, and what went wrong."""
    verdicts = [one.verdict for one in judged.values() if not isinstance(one, str)]
    corrected = ["corrected"] * any(one.changed is not None for one in verdicts)
    table = table_of("query", "verdict", "results", "missing", "spurious", "recall", *corrected, "target met")
    for name, one in judged.items():
        if isinstance(one, str):
            table.add_row(name, "failed")
            continue
        verdict = one.verdict
        unexplained = f" ({verdict.missing_unexplained:,} unexplained)" if verdict.missing_unexplained else ""
        met = "-" if one.target is None else f"Φ({one.target:g}) = {verdict.fulfilment(one.target):.4f}"
        table.add_row(
            name,
            "sound" if verdict.sound else "wrong",
            f"{verdict.results:,}",
            f"{verdict.missing:,}{unexplained}",
            f"{verdict.spurious:,}",
            f"{verdict.recall_overall:.4f}",
            *(_corrected(verdict) for _ in corrected),
            met if verdict.measurements else "not measured",
        )
    console.print(table)
    for name, one in judged.items():
        if isinstance(one, str):
            say(f"query {name} failed: {one}", console)
        elif one.verdict.changed is not None:
            for fault in one.verdict.changed.faults:
                say(f"query {name} broke the rules of changes: {fault}", console)


def _corrected(verdict: Verdict) -> str:
    """What the answer after corrections comes to."""
    after = None if verdict.changed is None else verdict.changed.corrected
    if after is None:
        return "-"
    wrong = f" ({after.missing_unexplained + after.spurious:,} wrong)" if not after.sound else ""
    right = after.recall_overall if after.measure == "recall" else after.fulfilment(0)
    return f"{1.0 if right is None else right:.4f}{wrong}"


def verdicts_as_json(judged: Mapping[str, Verified | str]) -> dict[str, Any]:
    """What `verify --json` prints of a file."""
    queries = {
        name: {"sound": False, "error": one} if isinstance(one, str) else one.as_json() for name, one in judged.items()
    }
    return {"sound": all(map(is_sound, judged.values())), "queries": queries}
