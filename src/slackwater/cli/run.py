"""`slackwater run`: a query over recorded streams, into a folder."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.table import Table

from slackwater.cli.measure import own_measure, resident, sized, waited_for
from slackwater.cli.options import NOWHERE, Shown
from slackwater.cli.paging import paged
from slackwater.cli.prepare import Prepared
from slackwater.cli.runtimes import Runtime
from slackwater.cli.terminal import interruptible, progress, warn_at_first, warn_at_last
from slackwater.core.engines import computed_by
from slackwater.core.errors import UsageError
from slackwater.observe.foreseen import how_often
from slackwater.observe.report import Report
from slackwater.observe.report_view import latency_in_words, slack_of
from slackwater.runtime.recorded import RecordedRun
from slackwater.sinks.folder import OutputFolder
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
    console.print(f"written to {out}", soft_wrap=True, highlight=False, markup=False)
    if report.interrupted:
        console.print("interrupted: everything emitted so far is written; held tuples were not flushed")
