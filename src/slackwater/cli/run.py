"""`slackwater run`: a query, or a file of named queries, over recorded streams, each into a folder.

Invariant: nothing is run or written before all queries have been read, bound and planned. A query of a file that fails
while it runs stops alone: the others go on, and what it has emitted before is written, with the reason in its report.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
from rich.console import Console
from rich.table import Table

from slackwater.cli.options import NOWHERE, Shown
from slackwater.cli.paging import Paged, paged, say
from slackwater.cli.prepare import Local, Prepared, PreparedFile, Runtime
from slackwater.cli.terminal import (
    interruptible,
    progress,
    progress_of,
    progress_of_all,
    warn,
    warn_at_first,
    warn_at_last,
)
from slackwater.core.engines import computed_by
from slackwater.core.errors import UsageError
from slackwater.core.time import MILLISECOND, readable
from slackwater.observe.foreseen import how_often
from slackwater.observe.report import Report
from slackwater.observe.report_view import latency_in_words, own_measure, resident, sized, slack_of, waited_for
from slackwater.operators.query_set.kernel import FAILED
from slackwater.plan.physical import PhysicalPlan
from slackwater.runtime.local.queries import LocalQueries
from slackwater.runtime.recorded import RecordedRun
from slackwater.runtime.side_outputs.rejections import rejected_rows
from slackwater.sinks.folder import OutputFolder, folder_name
from slackwater.sources.replay import replay


def run_query(
    prepared: Prepared,
    runtime: Runtime,
    out: Path,
    count_only: bool,
    arrival_time: str | None,
    quiet: bool,
    name: str = "query",
    asked: Shown = NOWHERE,
) -> Report:
    """Run a query and write what it emits; returns the report that was written. A page shows it under this name."""
    physical = prepared.plan(count_only)
    arrivals = replay(physical, prepared.sources, prepared.time_unit, arrival_time, prepared.ranks)
    first = warn_at_first(physical, arrivals)
    with runtime.begin(physical, arrivals, prepared.sources, prepared.time_unit) as run:
        run.warm_up()
        folder = OutputFolder(out)
        with paged(asked, out) as shown:
            shown.watch(name, run, prepared.bound.quality_stated)
            with interruptible(run), progress(run, quiet) as bar:
                for table in run.tables(bar.tick):
                    folder.results.write(table)
            folder.results.close()
            shown.end()
        write_side_outputs(run, folder)
        report = run.report()
        warn_at_last(run, first)
    folder.report(report.as_json())
    return report


def write_side_outputs(run: RecordedRun, folder: OutputFolder) -> None:
    """Write the late and the rejected rows of every stream, where there are any."""
    for position, one in enumerate(run.plan.inputs):
        sides = {"late": run.side_outputs.late_rows(position), "rejected": run.side_outputs.rejected_rows(position)}
        for what, rows in sides.items():
            if rows.num_rows:
                folder.side_output(what, one.stream.alias, rows)


def needed(out: Path | None) -> Path:
    """The folder that results go to; refuses to run without one."""
    if out is None:
        raise UsageError("--out FOLDER is missing: it says where results, late and rejected rows go")
    return out


MOSTLY_LATE = (
    "a large part came late although slack was chosen for a target: a clock may have run ahead, or been set back;"
    " option clock_by names the parts of a stream whose clocks are wrong"
)


def show(report: Report, out: Path, console: Console) -> None:
    """The report as a short table."""
    content = report.as_json()
    latency = content["latency_ms"]
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_row("results", f"{content['results']:,}")
    if report.emit.amends is not None:
        table.add_row(report.emit.amends, f"{content['amended']:,}")
    table.add_row(
        "tuples",
        f"{content['tuples']:,}: {content['in_time']:,} in time, {content['late']:,} late, "
        f"{content['filtered']:,} filtered, {content['rejected']:,} rejected"
        + (f", {content['held']:,} still held" if content["held"] else ""),
    )
    for reason, count in content["rejected_reasons"].items():
        table.add_row("", f"rejected as {reason}: {count:,}")
    for stream, times in content["idle_timeouts"].items():
        table.add_row("", f"idle timeout let the others go on without {stream}: {times:,} times")
    for wrong in report.wrong_clocks:
        table.add_row("", str(wrong))
    if report.mostly_late:
        table.add_row("", MOSTLY_LATE)
    table.add_row(*slack_of(content))
    if latency["avg"] is not None:
        table.add_row("latency", latency_in_words(latency))
        table.add_row("by cause", waited_for(content))
    if content["waiting_advice"] is not None:
        table.add_row("", content["waiting_advice"])
    if report.observation.quality is not None:
        table.add_row("quality", own_measure(report.observation.quality))
    if report.observation.outlook is not None:
        if content["outlook"]["said"] is not None:
            table.add_row("target", content["outlook"]["said"])
        table.add_row("cap", how_often(report.observation.outlook))
    table.add_row("memory", resident(content["memory"]))
    for join in content.get("rates", ()):
        table.add_row("windows", sized(join))
    if report.observation.engines is not None:
        table.add_row("engines", computed_by(report.observation.engines))
    rate = content["throughput_tps"]
    table.add_row("speed", f"{rate:,.0f} tuples/s" if rate else "no tuples")
    console.print(table)
    say(f"written to {out}", console)
    if report.interrupted:
        console.print("interrupted: everything emitted so far is written; held tuples were not flushed")


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
        QueriesOfFile(prepared, plans, runtime, arrival_time, quiet).run(folders, shown)
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
class QueriesOfFile:
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


def show_runs(done: Mapping[str, QueryRan], out: Path, console: Console) -> None:
    """A line for every query, and what went wrong."""
    table = table_of("query", "results", "late", "slack", "latency", "quality")
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
            say(f"query {name} failed: {ran.failure}", console)
    say(f"written to {out}, a folder for each query", console)
    if any(ran.report.interrupted for ran in done.values()):
        say("interrupted: everything emitted so far is written; held tuples were not flushed", console)


def runs_as_json(done: Mapping[str, QueryRan]) -> dict[str, Any]:
    """What `run --json` prints of a file."""
    return {"queries": {name: ran.as_json() for name, ran in done.items()}}


def table_of(*columns: str) -> Table:
    """An empty table with a line a query."""
    table = Table(box=None, pad_edge=False)
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number in (0, len(columns) - 1) else "right", no_wrap=not number)
    return table
