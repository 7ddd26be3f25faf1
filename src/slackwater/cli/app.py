"""The command line: run, verify, advise, explain, page, queries, calibrate, demo, workload, reproduce.

Exit codes: 0 fine, 2 wrong use or query, 3 data that cannot be read, 1 anything else, 130 interrupted.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from slackwater.cli.options import QueryAndStreams, Settings, Shown, Where, in_groups
from slackwater.cli.queries import queries_app
from slackwater.core.errors import DataError, SlackwaterError, UsageError

if TYPE_CHECKING:
    from slackwater.cli.prepare import Prepared, PreparedFile

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
    out: Path | None = None,
    count: bool = False,
    json_: bool = False,
    quiet: bool = False,
) -> None:
    """Run a query, or a file of queries, over recorded streams."""
    from slackwater.cli.prepare import PreparedFile, note_left_out, text_of
    from slackwater.cli.run import needed, run_file, run_query, runs_as_json, show, show_runs

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
        _explain(prepared, count)
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
    count: bool = False,
    period: Annotated[
        str | None,
        typer.Option(
            "--period", help="The period over which recall is measured \\[default: that of WITH RECALL, else 1 minute]."
        ),
    ] = None,
    interval: Annotated[str, typer.Option("--interval", help="How often recall is measured.")] = "1 second",
    json_: bool = False,
    quiet: bool = False,
) -> None:
    """Run a query, or a file of queries, and compare with the truth, computed by DuckDB on the sorted input."""
    from slackwater.cli.prepare import PreparedFile, positive_duration_of
    from slackwater.cli.verify import is_sound, show, show_verdicts, verdicts_as_json, verify_file, verify_query

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
    epoch: str | None = None,
    figure: Path | None = None,
    json_: bool = False,
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
def explain(asked: QueryAndStreams, count: bool = False, json_: bool = False, figure: Path | None = None) -> None:
    """Print the physical plan of a query, or of a file of queries, from its outputs down to its sources."""
    from slackwater.cli.demo_view import drawable

    drawable(figure)
    _explain(asked.prepared(), count, json_, figure)


def _explain(
    prepared: Prepared | PreparedFile, count_only: bool, as_data: bool = False, figure: Path | None = None
) -> None:
    """Print the plan in the form that the text of the query names, or as data; draw the same graph into a file."""
    from slackwater.cli.prepare import PreparedFile
    from slackwater.plan.explain import JSON, as_json, as_tree
    from slackwater.plan.graph_of_plan import graph_of
    from slackwater.plan.sharing.graph_of_queries import graph_of_queries

    if isinstance(prepared, PreparedFile):
        stated = {name: one.bound.quality_stated for name, one in prepared.queries.items()}
        graph = graph_of_queries(prepared.plans(count_only), stated)
    else:
        graph = graph_of(prepared.plan(count_only), prepared.bound.quality_stated)
        as_data = as_data or prepared.bound.explain == JSON
    print(as_json(graph) if as_data else as_tree(graph))
    if figure is not None:
        # Drawing takes a while to import, and most plans are only printed.
        from slackwater.figures.plan import draw_plan

        draw_plan(graph, figure)


@app.command()
@in_groups
def workload(
    name: Annotated[
        str,
        typer.Argument(
            help="soccer, the game of the demo, or a member of the zoo of disorder, such as zoo/heavy_tail (any other"
            " name lists them all)."
        ),
    ],
    out: Annotated[Path, typer.Option("--out", help="Folder for the streams and the query.")],
    seed: int = 0,
    minutes: Annotated[float | None, typer.Option("--minutes", help="How long \\[default: soccer 23, zoo 12].")] = None,
) -> None:
    """Write a seeded workload: one parquet file per stream, and its query."""
    from slackwater.workloads import WORKLOADS, write

    if name not in WORKLOADS:
        raise UsageError(f"there is no workload '{name}'; there are {', '.join(WORKLOADS)}")
    made = WORKLOADS[name](seed=seed, **({} if minutes is None else {"minutes": minutes}))
    say_how_to_run(write(made, out), out)


def say_how_to_run(files: Sequence[Path], out: Path) -> None:
    """Print the files of a workload that were written, and the command that runs its query."""
    streams = " ".join(f"--stream {file.stem}={file}" for file in files if file.suffix == ".parquet")
    print(f"wrote {', '.join(str(file) for file in files)}")
    print(f"run it: slackwater run {out / 'query.sql'} {streams} --out DIR")


@app.command()
@in_groups
def demo(
    seconds: Annotated[
        int | None,
        typer.Option("--seconds", help="How much of the game to play \\[default: 60, with --runtime local 120]."),
    ] = None,
    seed: int = 0,
    fast: Annotated[bool, typer.Option("--fast", help="No live table, no slow motion: the summary alone.")] = False,
    runtime: str = "spark",
    figure: Path | None = None,
    page: Annotated[
        bool | None, typer.Option("--page/--no-page", help="Serve a live page of the game \\[unless --fast].")
    ] = None,
    page_port: int | None = None,
    control: bool = False,
    stay: bool = False,
) -> None:
    """Two teams, positions out of order: who comes within 5 metres of whom, and what waiting costs."""
    from slackwater.cli.demo import play

    shown = Shown(not fast if page is None else page, page_port=page_port, control=control, stay=stay)
    play(seconds, seed, Console(), fast, runtime, figure, shown)


@app.command("page")
@in_groups
def page_command(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="The --out folder of a run with --page, or its progress.jsonl.")
    ],
    page_host: str | None = None,
    page_port: int | None = None,
    page_token: str | None = None,
) -> None:
    """Show the page of a run that is over, or was cut off."""
    from slackwater.cli.paging import serve_recorded

    serve_recorded(folder, Shown(True, page_host, page_port, page_token), Console())


@app.command()
@in_groups
def reproduce(
    id_: Annotated[str | None, typer.Argument(metavar="ID", help="A figure or table, as in 003-fig7.")] = None,
    list_: Annotated[bool, typer.Option("--list", help="Name the experiments.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="6 minutes and one seed in place of the full length.")] = False,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder for the figure and its numbers \\[default: reproduced/ID].")
    ] = None,
    seed: int = 0,
    json_: bool = False,
) -> None:
    """Run an experiment of the papers, and compare the results with theirs; `make setup` installs the experiments."""
    # Published datasets and baselines serve those who work on the repository, and stay out of the wheel. Their package
    # names its function by an entry point, so that nothing here imports it.
    from importlib.metadata import entry_points

    for entry in entry_points(group="slackwater.commands", name="reproduce"):
        entry.load()(id_, list_, quick, out, seed, json_)
        return
    raise UsageError(
        "`slackwater reproduce` needs the experiments in papers/ of the repository, which are not installed here: clone"
        " the repository and run `make setup` in it"
    )


@app.command()
@in_groups
def calibrate(
    out: Annotated[
        Path | None,
        typer.Option("--out", help="File for the costs \\[default: costs.json in the user's cache folder]."),
    ] = None,
    json_: bool = False,
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
