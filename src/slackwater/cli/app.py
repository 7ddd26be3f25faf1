"""The command line: run, verify, advise, explain, page, queries, calibrate, demo, workload, reproduce.

Exit codes: 0 fine, 2 wrong use or query, 3 data that cannot be read, 1 anything else, 130 interrupted.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from slackwater.cli.options import (
    Controlled,
    Count,
    Epoch,
    Figure,
    Json,
    Out,
    PageHost,
    PagePort,
    PageToken,
    QueryAndStreams,
    Quiet,
    RuntimeName,
    Seed,
    Settings,
    Shown,
    Stay,
    Where,
    in_groups,
)
from slackwater.cli.queries import queries_app
from slackwater.core.errors import DataError, SlackwaterError, UsageError

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
@in_groups
def run(
    asked: QueryAndStreams,
    where: Where,
    settings: Settings,
    shown: Shown,
    out: Out = None,
    count: Count = False,
    json_: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run a query, or a file of queries, over recorded streams."""
    from slackwater.cli.explain import explain_query
    from slackwater.cli.prepare import PreparedFile, note_left_out, text_of
    from slackwater.cli.query_file import run_file, runs_as_json, show_runs
    from slackwater.cli.run import needed, run_query, show

    runtime = where.chosen()
    prepared = asked.prepared(settings)
    if isinstance(prepared, PreparedFile):
        for name, one in prepared.queries.items():
            note_left_out(one, f"query {name}: ")
        done = run_file(prepared, runtime, needed(out), count, settings.arrival_time, quiet or json_, shown)
        _print(json_, lambda: runs_as_json(done), lambda: show_runs(done, needed(out), Console()))
        if any(ran.report.interrupted for ran in done.values()):
            raise typer.Exit(INTERRUPTED)
        if any(ran.failure is not None for ran in done.values()):
            raise typer.Exit(DataError.exit_code)
        return
    if prepared.bound.explain:
        explain_query(prepared, count)
        return
    note_left_out(prepared)
    name = "query" if text_of(asked.query) == asked.query else Path(asked.query).stem
    report = run_query(prepared, runtime, needed(out), count, settings.arrival_time, quiet, name, shown)
    _print(json_, report.as_json, lambda: show(report, needed(out), Console()))
    if report.interrupted:
        raise typer.Exit(INTERRUPTED)


@app.command()
@in_groups
def verify(
    asked: QueryAndStreams,
    where: Where,
    settings: Settings,
    count: Count = False,
    period: Annotated[
        str | None,
        typer.Option(
            "--period", help="The period over which recall is measured \\[default: that of WITH RECALL, else 1 minute]."
        ),
    ] = None,
    interval: Annotated[str, typer.Option("--interval", help="How often recall is measured.")] = "1 second",
    json_: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run a query, or a file of queries, and compare with the truth, computed by DuckDB on the sorted input."""
    from slackwater.cli.prepare import PreparedFile, positive_duration_of
    from slackwater.cli.query_file import is_sound, show_verdicts, verdicts_as_json, verify_file
    from slackwater.cli.verify import show, verify_query

    runtime = where.chosen()
    over = None if period is None else positive_duration_of("period", period)
    every = positive_duration_of("interval", interval)
    prepared = asked.prepared(settings)
    if isinstance(prepared, PreparedFile):
        judged = verify_file(prepared, runtime, count, settings.arrival_time, over, every, quiet or json_)
        _print(json_, lambda: verdicts_as_json(judged), lambda: show_verdicts(judged, Console()))
        sound = all(map(is_sound, judged.values()))
    elif prepared.bound.explain:
        raise UsageError("verify compares results, and an EXPLAIN query has none; leave EXPLAIN out")
    else:
        verified = verify_query(prepared, runtime, count, settings.arrival_time, over, every, quiet or json_)
        _print(json_, verified.as_json, lambda: show(verified, Console()))
        sound = verified.verdict.sound
    if not sound:
        raise typer.Exit(1)


@app.command()
@in_groups
def advise(
    asked: QueryAndStreams,
    settings: Settings,
    for_: Annotated[
        str | None, typer.Option("--for", help="spark: the withWatermark line of Spark's own operators as well.")
    ] = None,
    slack: Annotated[
        list[str] | None, typer.Option("--slack", help="A slack to look at, beside those that suggest themselves.")
    ] = None,
    error: Annotated[
        float | None,
        typer.Option("--error", help="Aggregates: how far off a window may be \\[default: WITH ERROR, else 0.01]."),
    ] = None,
    epoch: Epoch = None,
    figure: Figure = None,
    json_: Json = False,
) -> None:
    """Say which slack loses what: recall or error, latency and state for every slack, from one pass."""
    from slackwater.cli.advise import advise_query, asked_for, draw, show
    from slackwater.cli.demo_view import drawable

    drawable(figure)
    wanted = asked_for(epoch, slack or [], error, for_)
    advice = advise_query(asked.prepared(settings), wanted, settings.arrival_time)
    _print(json_, advice.as_json, lambda: show(advice, Console()))
    draw(advice, figure)


@app.command()
@in_groups
def explain(asked: QueryAndStreams, count: Count = False, json_: Json = False, figure: Figure = None) -> None:
    """Print the physical plan of a query, or of a file of queries, from its outputs down to its sources."""
    from slackwater.cli.demo_view import drawable
    from slackwater.cli.explain import explain_query

    drawable(figure)
    explain_query(asked.prepared(), count, json_, figure)


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
    minutes: Annotated[float | None, typer.Option("--minutes", help="How long \\[default: soccer 23, zoo 12].")] = None,
) -> None:
    """Write a seeded workload: one parquet file per stream, and its query."""
    from slackwater.cli.workload import make, write_workload

    write_workload(make(name, seed, minutes), out)


@app.command()
def demo(
    seconds: Annotated[
        int | None,
        typer.Option("--seconds", help="How much of the game to play \\[default: 60, with --runtime local 120]."),
    ] = None,
    seed: Seed = 0,
    fast: Annotated[bool, typer.Option("--fast", help="No live table, no slow motion: the summary alone.")] = False,
    runtime: RuntimeName = "spark",
    figure: Figure = None,
    page: Annotated[
        bool | None, typer.Option("--page/--no-page", help="Serve a live page of the game \\[unless --fast].")
    ] = None,
    page_port: PagePort = None,
    control: Controlled = False,
    stay: Stay = False,
) -> None:
    """Two teams, positions out of order: who comes within 5 metres of whom, and what waiting costs."""
    from slackwater.cli.demo import play

    shown = Shown(not fast if page is None else page, page_port=page_port, control=control, stay=stay)
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
    from slackwater.cli.paging import serve_recorded

    serve_recorded(folder, Shown(True, host, port, token), Console())


@app.command()
def reproduce(
    id_: Annotated[str | None, typer.Argument(metavar="ID", help="A figure or table, as in 003-fig7.")] = None,
    list_: Annotated[bool, typer.Option("--list", help="Name the experiments.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="6 minutes and one seed in place of the full length.")] = False,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder for the figure and its numbers \\[default: reproduced/ID].")
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
        Path | None,
        typer.Option("--out", help="File for the costs \\[default: costs.json in the user's cache folder]."),
    ] = None,
    json_: Json = False,
) -> None:
    """Measure what operators cost on this machine, in about a minute, and plan with these costs from then on."""
    from slackwater.cli.calibrate import as_json, calibrate_costs, keep, show

    found = calibrate_costs(Console(stderr=True))
    path = keep(found.costs, out)
    _print(json_, lambda: as_json(found, path), lambda: show(found, path, Console()))


def _print(as_data: bool, content: Callable[[], Any], show: Callable[[], None]) -> None:
    """The outcome of a command as JSON, or as people read it."""
    if as_data:
        print(json.dumps(content(), indent=2))
    else:
        show()


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
    # Without soft wrapping a narrow terminal would break the line that shows the position in the query.
    Console(stderr=True).print(f"error: {message}", style="bold red", highlight=False, markup=False, soft_wrap=True)


if __name__ == "__main__":
    main()
