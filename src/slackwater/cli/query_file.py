"""`slackwater run`, `verify` and `explain` of a file of named queries.

Invariant: nothing is run or written before all queries have been read, bound and planned. A query that fails while it
runs stops alone: the others go on, and what it has emitted before is written, with the reason in its report.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
from rich.console import Console
from rich.table import Table

from slackwater.cli.measure import own_measure
from slackwater.cli.prepare import PreparedFile
from slackwater.cli.runtimes import Local, Runtime, of_one_query
from slackwater.cli.terminal import interruptible, warn, warn_at_first, warn_at_last
from slackwater.cli.verify import Verified, judge_run
from slackwater.core.errors import DataError
from slackwater.observe.report import Report
from slackwater.plan.explain import as_json, as_tree
from slackwater.plan.physical import PhysicalPlan
from slackwater.plan.sharing.graph_of_queries import graph_of_queries
from slackwater.runtime.recorded import RecordedRun, Tick, no_tick
from slackwater.sinks.folder import OutputFolder, folder_name
from slackwater.sources.replay import replay
from slackwater.verify import check_rates_judged

ONE_BY_ONE = "on Spark the queries of a file are run one after another, each with a reading of its own"


class RunOfQueries(Protocol):
    """A run of all queries over their recorded streams."""

    @property
    def runs(self) -> Mapping[str, RecordedRun]:
        """What each query amounts to."""

    @property
    def interrupted(self) -> bool: ...

    def tables(self, tick: Tick = no_tick) -> Iterator[tuple[str, pa.Table]]:
        """The results, each table with the name of its query; those of one query in its output order."""

    def interrupt(self) -> None:
        """Stop after the step at hand."""

    def failure(self, name: str) -> str | None:
        """Why a query has failed; None where it has not."""


@dataclass
class OneAfterAnother:
    """Every query by itself, with a reading of its own."""

    prepared: PreparedFile
    plans: Mapping[str, PhysicalPlan]
    runtime: Runtime
    arrival_time: str | None
    runs: dict[str, RecordedRun] = field(default_factory=dict)
    interrupted: bool = False
    _failures: dict[str, str] = field(default_factory=dict)

    def tables(self, tick: Tick = no_tick) -> Iterator[tuple[str, pa.Table]]:
        for name, plan in self.plans.items():
            if self.interrupted:
                return
            one = self.prepared.queries[name]
            arrivals = replay(plan, one.sources, one.time_unit, self.arrival_time, one.places)
            first = warn_at_first(plan, arrivals)
            with of_one_query(self.runtime, name).begin(plan, arrivals, one.sources, one.time_unit) as run:
                self.runs[name] = run
                run.warm_up()
                try:
                    for table in run.tables(tick):
                        yield name, table
                except DataError as error:
                    self._failures[name] = str(error)
                warn_at_last(run, first)

    def interrupt(self) -> None:
        self.interrupted = True
        for run in self.runs.values():
            run.interrupt()

    def failure(self, name: str) -> str | None:
        return self._failures.get(name)


@dataclass(frozen=True)
class QueryRan:
    """What became of one query of a file."""

    report: Report
    failure: str | None
    out: Path

    def as_json(self) -> dict[str, Any]:
        return {**self.report.as_json(), "error": self.failure, "out": str(self.out)}


def explain_file(prepared: PreparedFile, count_only: bool, as_data: bool = False, figure: Path | None = None) -> None:
    """Print the plan of all queries as one graph, or draw it."""
    stated = {name: one.bound.quality_stated for name, one in prepared.queries.items()}
    graph = graph_of_queries(prepared.plans(count_only), stated)
    print(as_json(graph) if as_data else as_tree(graph))
    if figure is not None:
        # Drawing takes a while to import, and most plans are only printed.
        from slackwater.experiments.plan_figure import draw_plan

        draw_plan(graph, figure)


def run_file(
    prepared: PreparedFile, runtime: Runtime, out: Path, count_only: bool, arrival_time: str | None
) -> dict[str, QueryRan]:
    """Run all queries, each into a folder of its own; returns the reports that were written."""
    plans = prepared.plans(count_only)
    run = _begun(prepared, plans, runtime, arrival_time)
    folders = {name: OutputFolder(out / folder_name(name)) for name in plans}
    with interruptible(run):
        for name, table in run.tables(_pass_on(run)):
            folders[name].results.write(table)
    return {name: _written(run, name, folders[name]) for name in plans if name in run.runs}


def _written(run: RunOfQueries, name: str, folder: OutputFolder) -> QueryRan:
    """Write what is told of a query at its end."""
    one = run.runs[name]
    folder.results.close()
    for position, entry in enumerate(one.plan.inputs):
        sides = {"late": one.side_outputs.late_rows(position), "rejected": one.side_outputs.rejected_rows(position)}
        for what, rows in sides.items():
            if rows.num_rows:
                folder.side_output(what, entry.stream.alias, rows)
    ran = QueryRan(one.report(), run.failure(name), folder.path)
    folder.report(dict(ran.report.as_json()) | ({} if ran.failure is None else {"error": ran.failure}))
    return ran


def _begun(
    prepared: PreparedFile, plans: Mapping[str, PhysicalPlan], runtime: Runtime, arrival_time: str | None
) -> RunOfQueries:
    """All queries, ready to give their tables."""

    if not isinstance(runtime, Local):
        warn(ONE_BY_ONE)
    return OneAfterAnother(prepared, plans, runtime, arrival_time)


def _pass_on(run: RunOfQueries) -> Tick:
    """Say what is to be said of a query while it runs."""

    def tick() -> None:
        for name, one in run.runs.items():
            for sentence in one.take_news():
                warn(f"query {name}: {sentence}")

    return tick


def verify_file(
    prepared: PreparedFile, runtime: Runtime, count_only: bool, arrival_time: str | None,
    period: int | None, interval: int,
) -> dict[str, Verified | str]:  # fmt: skip
    """Run all queries and judge each; a query that failed has its reason in place of a verdict."""
    prepared.file.of_each(lambda query: check_rates_judged(prepared.queries[query.name].bound.query))
    plans = prepared.plans(count_only, identities=True)
    rows: dict[str, list[pa.Table]] = {name: [] for name in plans}
    run = _begun(prepared, plans, runtime, arrival_time)
    with interruptible(run):
        for name, table in run.tables(_pass_on(run)):
            rows[name].append(table)
    if run.interrupted:
        raise KeyboardInterrupt
    judged: dict[str, Verified | str] = {}
    for name, plan in plans.items():
        failure = run.failure(name)
        if failure is not None:
            judged[name] = failure
            continue
        one, mine = prepared.queries[name], rows.pop(name)
        arrivals = replay(plan, one.sources, one.time_unit, arrival_time, one.places)
        judged[name] = judge_run(one.bound.query, run.runs[name], arrivals, mine, count_only, period, interval)
    return judged


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
            f"{content['slack_ms']['avg']:,g} ms",
            "-" if latency is None else f"{latency:,g} ms",
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
    table = _table("query", "verdict", "results", "true results", "missing", "spurious", "recall", "target")
    for name, one in judged.items():
        if isinstance(one, str):
            table.add_row(name, "failed")
            continue
        verdict = one.verdict
        met = "-"
        if one.target is not None:
            sign = "≥" if verdict.measure == "recall" else "≤"
            met = f"Φ({verdict.measure} {sign} {one.target:g}) = {verdict.fulfilment(one.target):.4f}"
        table.add_row(
            name,
            "sound" if verdict.sound else "wrong",
            f"{verdict.results:,}",
            f"{verdict.true_results:,}",
            f"{verdict.missing:,} ({verdict.missing_unexplained:,} unexplained)",
            f"{verdict.spurious:,}",
            f"{verdict.recall_overall:.6f}",
            met if verdict.measurements else "not measured",
        )
    console.print(table)
    for name, one in judged.items():
        if isinstance(one, str):
            _say(console, f"query {name} failed: {one}")


def runs_as_json(done: Mapping[str, QueryRan]) -> dict[str, Any]:
    """What `run --json` prints of a file."""
    return {"queries": {name: ran.as_json() for name, ran in done.items()}}


def verdicts_as_json(judged: Mapping[str, Verified | str]) -> dict[str, Any]:
    """What `verify --json` prints of a file."""
    queries = {
        name: {"sound": False, "error": one} if isinstance(one, str) else {"sound": is_sound(one), **one.as_json()}
        for name, one in judged.items()
    }
    return {"sound": all(map(is_sound, judged.values())), "queries": queries}


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False)
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number in (0, len(columns) - 1) else "right")
    return table


def _say(console: Console, sentence: str) -> None:
    console.print(sentence, soft_wrap=True, highlight=False, markup=False)
