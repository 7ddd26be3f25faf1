"""The command line: run, verify, advise, explain, page, queries, calibrate, demo, workload, reproduce.

Exit codes: 0 fine, 2 wrong use or query, 3 data that cannot be read, 1 anything else, 130 interrupted.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from slackwater.cli.options import (
    ArrivalTime,
    Checkpoint,
    Controlled,
    Count,
    Epoch,
    Functions,
    IdleTimeout,
    InitialSlack,
    Json,
    Log,
    Master,
    MaxAhead,
    MaxBehind,
    Metrics,
    PageHost,
    PagePort,
    PageToken,
    Query,
    Quiet,
    Runtime,
    Seed,
    Shards,
    ShowPage,
    Stay,
    Streams,
    Time,
    TimeUnit,
    Trigger,
)
from slackwater.cli.queries import queries_app
from slackwater.core.errors import DataError, SlackwaterError, UsageError

if TYPE_CHECKING:
    from slackwater.cli.prepare import Prepared

app = typer.Typer(
    name="slackwater",
    help="Say how good the answer must be, not how long to wait.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(queries_app, name="queries")
INTERRUPTED = 130


@app.callback(invoke_without_command=True)
def top(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    """Say how good the answer must be, not how long to wait."""
    if version:
        from slackwater import __version__

        print(f"slackwater {__version__}")
        raise typer.Exit


@app.command()
def run(
    query: Query,
    stream: Streams,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder for results, late and rejected rows and the report.")
    ] = None,
    runtime: Runtime = "local",
    epoch: Epoch = None,
    shards: Shards = None,
    master: Master = None,
    checkpoint: Checkpoint = None,
    trigger: Trigger = None,
    time: Time = "ts",
    time_unit: TimeUnit = "ms",
    count: Count = False,
    arrival_time: ArrivalTime = None,
    idle_timeout: IdleTimeout = None,
    max_ahead: MaxAhead = None,
    max_behind: MaxBehind = None,
    initial_slack: InitialSlack = None,
    functions: Functions = None,
    page: ShowPage = False,
    page_host: PageHost = None,
    page_port: PagePort = None,
    page_token: PageToken = None,
    control: Controlled = False,
    stay: Stay = False,
    metrics: Metrics = None,
    log: Log = None,
    json_: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run a query, or a file of queries, over recorded streams."""
    from slackwater.cli.explain import explain_query
    from slackwater.cli.operating import OperatingOptions
    from slackwater.cli.paging import page_options
    from slackwater.cli.prepare import load_functions, prepare_file, prepare_query, text_of
    from slackwater.cli.run import run_query, show
    from slackwater.cli.runtimes import runtime_of
    from slackwater.language.query_file import is_query_file

    where = runtime_of(runtime, epoch, shards, master, checkpoint, trigger)
    shown = page_options(page, page_host, page_port, page_token, control, stay)
    operating = OperatingOptions(metrics, log, page_token)
    load_functions(functions)
    options = _options(idle_timeout, max_ahead, max_behind, initial_slack)
    text = text_of(query)
    if is_query_file(text):
        from slackwater.cli.query_file import run_file, runs_as_json, show_runs

        file = prepare_file(text, stream, time, time_unit, options)
        for name, one in file.queries.items():
            _tell_left_out(one, f"query {name}: ")
        done = run_file(file, where, _needed(out), count, arrival_time, quiet or json_, shown, operating)
        if json_:
            print(json.dumps(runs_as_json(done), indent=2))
        else:
            show_runs(done, _needed(out), Console())
        if any(ran.report.interrupted for ran in done.values()):
            raise typer.Exit(INTERRUPTED)
        if any(ran.failure is not None for ran in done.values()):
            raise typer.Exit(DataError.exit_code)
        return
    prepared = prepare_query(text, stream, time, time_unit, options)
    if prepared.bound.explain:
        explain_query(prepared, count)
        return
    _tell_left_out(prepared)
    name = Path(query).stem if query != text else "query"
    report = run_query(prepared, where, _needed(out), count, arrival_time, quiet, name, shown, operating)
    if json_:
        print(json.dumps(report.as_json(), indent=2))
    else:
        show(report, _needed(out), Console())
    if report.interrupted:
        raise typer.Exit(INTERRUPTED)


@app.command()
def verify(
    query: Query,
    stream: Streams,
    runtime: Runtime = "local",
    epoch: Epoch = None,
    shards: Shards = None,
    master: Master = None,
    checkpoint: Checkpoint = None,
    trigger: Trigger = None,
    time: Time = "ts",
    time_unit: TimeUnit = "ms",
    count: Count = False,
    arrival_time: ArrivalTime = None,
    idle_timeout: IdleTimeout = None,
    max_ahead: MaxAhead = None,
    max_behind: MaxBehind = None,
    initial_slack: InitialSlack = None,
    functions: Functions = None,
    period: Annotated[
        str | None,
        typer.Option("--period", help="The period over which recall is measured [that of WITH RECALL, else 1 minute]."),
    ] = None,
    interval: Annotated[str, typer.Option("--interval", help="How often recall is measured.")] = "1 second",
    json_: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run a query, or a file of queries, and compare with the truth, computed by DuckDB on the sorted input."""
    from slackwater.cli.prepare import load_functions, positive_duration_of, prepare_file, prepare_query, text_of
    from slackwater.cli.runtimes import runtime_of
    from slackwater.cli.verify import show, verify_query
    from slackwater.language.query_file import is_query_file

    where = runtime_of(runtime, epoch, shards, master, checkpoint, trigger)
    over = None if period is None else positive_duration_of("period", period)
    every = positive_duration_of("interval", interval)
    load_functions(functions)
    options = _options(idle_timeout, max_ahead, max_behind, initial_slack)
    text = text_of(query)
    if is_query_file(text):
        from slackwater.cli.query_file import is_sound, show_verdicts, verdicts_as_json, verify_file

        file = prepare_file(text, stream, time, time_unit, options)
        judged = verify_file(file, where, count, arrival_time, over, every, quiet or json_)
        if json_:
            print(json.dumps(verdicts_as_json(judged), indent=2))
        else:
            show_verdicts(judged, Console())
        if not all(map(is_sound, judged.values())):
            raise typer.Exit(1)
        return
    prepared = prepare_query(text, stream, time, time_unit, options)
    if prepared.bound.explain:
        raise UsageError("verify compares results, and an EXPLAIN query has none; leave EXPLAIN out")
    verified = verify_query(prepared, where, count, arrival_time, over, every, quiet or json_)
    if json_:
        print(json.dumps(verified.as_json(), indent=2))
    else:
        show(verified, Console())
    if not verified.verdict.sound:
        raise typer.Exit(1)


@app.command()
def advise(
    query: Query,
    stream: Streams,
    for_: Annotated[
        str | None, typer.Option("--for", help="spark: the withWatermark line of Spark's own operators as well.")
    ] = None,
    slack: Annotated[
        list[str] | None, typer.Option("--slack", help="A slack to look at, beside those that suggest themselves.")
    ] = None,
    error: Annotated[
        float | None, typer.Option("--error", help="Aggregates: how far off a window may be [WITH ERROR, else 0.01].")
    ] = None,
    epoch: Epoch = None,
    time: Time = "ts",
    time_unit: TimeUnit = "ms",
    arrival_time: ArrivalTime = None,
    idle_timeout: IdleTimeout = None,
    max_ahead: MaxAhead = None,
    max_behind: MaxBehind = None,
    initial_slack: InitialSlack = None,
    functions: Functions = None,
    figure: Annotated[
        Path | None, typer.Option("--figure", help="Draw the curve into FILE.png, FILE.svg or FILE.pdf as well.")
    ] = None,
    json_: Json = False,
) -> None:
    """Say which slack loses what: recall or error, latency and state for every slack, from one pass."""
    from slackwater.cli.advise import advise_query, asked_for, check_one_query, show
    from slackwater.cli.demo_view import drawable
    from slackwater.cli.prepare import load_functions, prepare_query, text_of

    drawable(figure)
    asked = asked_for(epoch, slack or [], error, for_)
    load_functions(functions)
    text = text_of(query)
    check_one_query(text)
    options = _options(idle_timeout, max_ahead, max_behind, initial_slack)
    prepared = prepare_query(text, stream, time, time_unit, options)
    show(advise_query(prepared, asked, arrival_time), json_, figure)


@app.command()
def explain(
    query: Query,
    stream: Streams,
    time: Time = "ts",
    time_unit: TimeUnit = "ms",
    count: Count = False,
    functions: Functions = None,
    json_: Json = False,
    figure: Annotated[
        Path | None, typer.Option("--figure", help="Draw the plan into FILE.png, FILE.svg or FILE.pdf as well.")
    ] = None,
) -> None:
    """Print the physical plan of a query, or of a file of queries, from its outputs down to its sources."""
    from slackwater.cli.demo_view import drawable
    from slackwater.cli.explain import explain_query
    from slackwater.cli.prepare import load_functions, prepare_file, prepare_query, text_of
    from slackwater.language.query_file import is_query_file

    drawable(figure)
    load_functions(functions)
    text = text_of(query)
    if is_query_file(text):
        from slackwater.cli.query_file import explain_file

        explain_file(prepare_file(text, stream, time, time_unit, {}), count, json_, figure)
        return
    explain_query(prepare_query(text, stream, time, time_unit, {}), count, json_, figure)


@app.command()
def workload(
    name: Annotated[
        str,
        typer.Argument(
            help="soccer, the game of the demo, or a member of the zoo of disorder, such as zoo/heavy_tail (any other"
            " name lists them all)."
        ),
    ],
    out: Annotated[Path, typer.Option("--out", help="Folder for the streams and the query.")],
    seed: Seed = 0,
    minutes: Annotated[float | None, typer.Option("--minutes", help="How long [soccer 23, zoo 12].")] = None,
) -> None:
    """Write a seeded workload: one parquet file per stream, and its query."""
    from slackwater.cli.workload import make, write_workload

    write_workload(make(name, seed, minutes), out)


@app.command()
def demo(
    seconds: Annotated[
        int | None, typer.Option("--seconds", help="How much of the game to play [60, with --runtime local 120].")
    ] = None,
    seed: Seed = 0,
    fast: Annotated[bool, typer.Option("--fast", help="No live table, no slow motion: the summary alone.")] = False,
    runtime: Runtime = "spark",
    figure: Annotated[
        Path | None, typer.Option("--figure", help="Draw recall, slack and latency over time into FILE.png.")
    ] = None,
    page: Annotated[
        bool | None, typer.Option("--page/--no-page", help="Serve a live page of the game [unless --fast].")
    ] = None,
    page_port: PagePort = None,
    control: Controlled = False,
    stay: Stay = False,
) -> None:
    """Two teams, positions out of order: who comes within 5 metres of whom, and what waiting costs."""
    from slackwater.cli.demo import play
    from slackwater.cli.paging import page_options

    shown = page_options(not fast if page is None else page, None, page_port, None, control, stay)
    play(seconds, seed, Console(), fast, runtime, figure, shown)


@app.command("page")
def page_command(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="The --out folder of a run with --page, or its progress.jsonl.")
    ],
    host: PageHost = None,
    port: PagePort = None,
    token: PageToken = None,
) -> None:
    """Show the page of a run that is over, or was cut off."""
    from slackwater.cli.paging import PageOptions, serve_recorded

    serve_recorded(folder, PageOptions(host, port, token), Console())


@app.command()
def reproduce(
    id_: Annotated[str | None, typer.Argument(metavar="ID", help="A figure or table, as in 003-fig7.")] = None,
    list_: Annotated[bool, typer.Option("--list", help="Name the experiments.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="6 minutes and one seed in place of the full length.")] = False,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder for the figure and its numbers [reproduced/ID].")
    ] = None,
    seed: Seed = 0,
    json_: Json = False,
) -> None:
    """Run an experiment of the papers, and compare the results with theirs; `make setup` installs the experiments."""
    from slackwater.cli.reproduce import installed

    installed()(id_, list_, quick, out, seed, json_)


@app.command()
def calibrate(
    out: Annotated[
        Path | None, typer.Option("--out", help="File for the costs [costs.json in the user's cache folder].")
    ] = None,
    json_: Json = False,
) -> None:
    """Measure what operators cost on this machine, in about a minute, and plan with these costs from then on."""
    from slackwater.cli.calibrate import as_json, calibrate_costs, keep, show

    found = calibrate_costs(Console(stderr=True))
    path = keep(found.costs, out)
    if json_:
        print(json.dumps(as_json(found, path), indent=2))
    else:
        show(found, path, Console())


def _options(
    idle_timeout: str | None, max_ahead: str | None, max_behind: str | None, initial_slack: str | None
) -> dict[str, str | None]:
    return {
        "idle_timeout": idle_timeout,
        "max_ahead": max_ahead,
        "max_behind": max_behind,
        "initial_slack": initial_slack,
    }


def _needed(out: Path | None) -> Path:
    if out is None:
        raise UsageError("--out FOLDER is missing: it says where results, late and rejected rows go")
    return out


def _tell_left_out(prepared: Prepared, whose: str = "") -> None:
    """Say which columns `SELECT *` cannot give."""
    from slackwater.sources.binding import left_out

    for column in left_out(prepared.bound.query, prepared.sources):
        note = f"note: {whose}{column} is left out; a query cannot read it"
        Console(stderr=True).print(note, markup=False, soft_wrap=True)


def main() -> None:
    """The entry point: every failure becomes one message and an exit code."""
    try:
        app()
    except SlackwaterError as error:
        _complain(str(error))
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except MemoryError:
        _complain("there is not enough memory for these streams")
        sys.exit(1)
    except BrokenPipeError:
        # The reader of the output has closed it; nothing more can be printed, not even at the end of the process.
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - it is open for as long as the process lives
        sys.exit(1)
    except OSError as error:
        _complain(f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error))
        sys.exit(1)


def _complain(message: str) -> None:
    # Without soft wrapping a narrow terminal would break the line that shows the place in the query.
    Console(stderr=True).print(f"error: {message}", style="bold red", highlight=False, markup=False, soft_wrap=True)


if __name__ == "__main__":
    main()
