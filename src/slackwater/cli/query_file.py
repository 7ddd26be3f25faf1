"""`slackwater run` and `verify` of a file of named queries.

Invariant: nothing is run or written before all queries have been read, bound and planned. A query that fails while it
runs stops alone: the others go on, and what it has emitted before is written, with the reason in its report.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
from rich.console import Console
from rich.table import Table

from slackwater.cli.measure import own_measure
from slackwater.cli.options import NOWHERE, Shown
from slackwater.cli.paging import Paged, paged
from slackwater.cli.prepare import PreparedFile
from slackwater.cli.run import write_side_outputs
from slackwater.cli.runtimes import Local, Runtime
from slackwater.cli.terminal import interruptible, progress_of, progress_of_all, warn
from slackwater.cli.verify import Verified, judge_run
from slackwater.core.errors import UsageError
from slackwater.core.time import MILLISECOND, readable
from slackwater.observe.report import Report
from slackwater.operators.query_set.kernel import FAILED
from slackwater.plan.physical import PhysicalPlan
from slackwater.runtime.local.queries import LocalQueries
from slackwater.runtime.recorded import RecordedRun
from slackwater.runtime.side_outputs.rejections import rejected_rows
from slackwater.sinks.folder import OutputFolder, folder_name
from slackwater.sources.replay import replay
from slackwater.verify import Verdict, check_rates_judged


class Receiver(Protocol):
    """What is done with what queries give."""

    def take(self, name: str, table: pa.Table) -> None:
        """More results of a query, in its output order."""

    def end(self, name: str, run: RecordedRun, failure: str | None) -> None:
        """A query is at its end; where it has failed, this is why."""


@dataclass(frozen=True)
class QueryRan:
    """The outcome of one query of a file."""

    report: Report
    failure: str | None
    out: Path

    def as_json(self) -> dict[str, Any]:
        return {**self.report.as_json(), "error": self.failure, "out": str(self.out)}


def run_file(
    prepared: PreparedFile,
    runtime: Runtime,
    out: Path,
    count_only: bool,
    arrival_time: str | None,
    quiet: bool,
    asked: Shown = NOWHERE,
) -> dict[str, QueryRan]:
    """Run all queries, each into a folder of its own; returns the reports that were written."""
    plans = prepared.plans(count_only)
    folders = _Folders(out, plans)
    with paged(asked, out) as shown:
        _Set(prepared, plans, runtime, arrival_time, quiet).run(folders, shown)
        shown.end({name: ran.failure for name, ran in folders.done.items()})
    return folders.done


class _Folders:
    """A folder for each query, as the run of a single one fills it."""

    def __init__(self, out: Path, plans: Mapping[str, PhysicalPlan]) -> None:
        self._folders = {name: OutputFolder(out / folder_name(name)) for name in plans}
        self.done: dict[str, QueryRan] = {}

    def take(self, name: str, table: pa.Table) -> None:
        self._folders[name].results.write(table)

    def end(self, name: str, run: RecordedRun, failure: str | None) -> None:
        folder = self._folders[name]
        folder.results.close()
        write_side_outputs(run, folder)
        ran = QueryRan(run.report(), failure, folder.path)
        folder.report(dict(ran.report.as_json()) | ({} if failure is None else {"error": failure}))
        self.done[name] = ran


@dataclass(frozen=True)
class _Set:
    """All queries of a file, to be run over one reading of their streams."""

    prepared: PreparedFile
    plans: Mapping[str, PhysicalPlan]
    runtime: Runtime
    arrival_time: str | None
    quiet: bool

    def run(self, to: Receiver, shown: Paged | None = None) -> None:
        """Run them to their end, and hand over what each gives."""
        (self._here if isinstance(self.runtime, Local) else self._on_spark)(to, shown or Paged())

    def _here(self, to: Receiver, shown: Paged) -> None:
        assert isinstance(self.runtime, Local), "chosen above"
        streams, reported = self.prepared.streams, set[str]()
        run = LocalQueries(
            self.plans, streams.sources, streams.time_unit, self.runtime.epochs, arrival_time=self.arrival_time,
            ranks=streams.ranks,
        )  # fmt: skip
        for note in run.notes:
            warn(note)
        for name, one in run.runs.items():
            shown.watch(name, one, self.prepared.queries[name].bound.quality_stated)
        with interruptible(run), progress_of_all(run.runs, self.quiet) as bar:
            for name, table in run.tables(bar.tick):
                to.take(name, table)
        for name, one in run.runs.items():
            _warn_of_rejected(one, reported)
            status = run.status(name)
            to.end(name, one, status.reason if status.status == FAILED else None)

    def _on_spark(self, to: Receiver, shown: Paged) -> None:
        """The same as one streaming query."""
        # Without Spark nothing of this can be imported.
        from slackwater.runtime.spark.replay.recording import SparkRuntime

        assert isinstance(self.runtime, SparkRuntime), "there are two runtimes"
        if self.arrival_time is not None:
            raise UsageError("--arrival-time is not offered on Spark; leave it out, or take --runtime local")
        if shown.is_there:
            raise UsageError(
                "--page, --metrics and --log of a file of queries are offered in this process; leave --runtime spark"
                " out, or start the queries with slackwater.queries and watch them with slackwater.watch, metrics or"
                " log_events"
            )
        streams, reported = self.prepared.streams, set[str]()
        with self.runtime.begin_set(self.plans, streams.sources, streams.time_unit, streams.ranks) as run:
            for note in run.notes:
                warn(note)
            with interruptible(run), progress_of(len(run), lambda: run.done, self.quiet) as bar:
                run.drive(bar.tick)
            for name, one in run.runs().items():
                for table in one.tables():
                    to.take(name, table)
                for sentence in one.take_news():
                    warn(f"query {name}: {sentence}")
                _warn_of_rejected(one, reported)
                to.end(name, one, run.failure_of(name))


def _warn_of_rejected(run: RecordedRun, reported: set[str]) -> None:
    """Warns once of each reason: queries of one stream reject the same rows."""
    for sentence in rejected_rows(run.plan, run.replay, run.side_outputs):
        if sentence not in reported:
            warn(sentence)
        reported.add(sentence)


def verify_file(
    prepared: PreparedFile, runtime: Runtime, count_only: bool, arrival_time: str | None,
    period: int | None, interval: int, quiet: bool,
) -> dict[str, Verified | str]:  # fmt: skip
    """Run all queries and judge each; a query that failed has its reason in place of a verdict."""
    prepared.file.of_each(lambda query: check_rates_judged(prepared.queries[query.name].bound.query))
    plans = prepared.plans(count_only, identities=True)
    judges = _Judges(prepared, count_only, arrival_time, period, interval)
    _Set(prepared, plans, runtime, arrival_time, quiet).run(judges)
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


def show_runs(done: Mapping[str, QueryRan], out: Path, console: Console) -> None:
    """A line for every query, and what went wrong."""
    table = _table("query", "results", "late", "slack", "latency", "quality")
    for name, ran in done.items():
        content = ran.report.as_json()
        latency = content["latency_ms"]["avg"]
        quality = ran.report.observation.quality
        table.add_row(
            name,
            f"{content['results']:,}",
            f"{content['late']:,}",
            readable(content["slack_ms"]["avg"] * MILLISECOND),
            "-" if latency is None else readable(latency * MILLISECOND),
            str(content["quality"]) if quality is None else own_measure(quality),
        )
    console.print(table)
    for name, ran in done.items():
        if ran.failure is not None:
            _say(console, f"query {name} failed: {ran.failure}")
    _say(console, f"written to {out}, a folder for each query")
    if any(ran.report.interrupted for ran in done.values()):
        _say(console, "interrupted: everything emitted so far is written; held tuples were not flushed")


def show_verdicts(judged: Mapping[str, Verified | str], console: Console) -> None:
    """A line for every query with its verdict, and what went wrong."""
    verdicts = [one.verdict for one in judged.values() if not isinstance(one, str)]
    corrected = ["corrected"] * any(one.changed is not None for one in verdicts)
    table = _table("query", "verdict", "results", "missing", "spurious", "recall", *corrected, "target met")
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
            _say(console, f"query {name} failed: {one}")
        elif one.verdict.changed is not None:
            for fault in one.verdict.changed.faults:
                _say(console, f"query {name} broke the rules of changes: {fault}")


def _corrected(verdict: Verdict) -> str:
    """What the answer after corrections comes to."""
    after = None if verdict.changed is None else verdict.changed.corrected
    if after is None:
        return "-"
    wrong = f" ({after.missing_unexplained + after.spurious:,} wrong)" if not after.sound else ""
    right = after.recall_overall if after.measure == "recall" else after.fulfilment(0)
    return f"{1.0 if right is None else right:.4f}{wrong}"


def runs_as_json(done: Mapping[str, QueryRan]) -> dict[str, Any]:
    """What `run --json` prints of a file."""
    return {"queries": {name: ran.as_json() for name, ran in done.items()}}


def verdicts_as_json(judged: Mapping[str, Verified | str]) -> dict[str, Any]:
    """What `verify --json` prints of a file."""
    queries = {
        name: {"sound": False, "error": one} if isinstance(one, str) else one.as_json() for name, one in judged.items()
    }
    return {"sound": all(map(is_sound, judged.values())), "queries": queries}


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False)
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number in (0, len(columns) - 1) else "right", no_wrap=not number)
    return table


def _say(console: Console, sentence: str) -> None:
    console.print(sentence, soft_wrap=True, highlight=False, markup=False)
