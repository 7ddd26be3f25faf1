"""Arguments and options of commands, each defined once, and groups of those that several commands have.

Invariant: a group is one frozen value. A command has it as one parameter, and each of its fields is an option of the
command.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from slackwater.core.errors import UsageError

if TYPE_CHECKING:
    from slackwater.cli.prepare import Prepared, PreparedFile
    from slackwater.cli.runtimes import Runtime

Query = Annotated[
    str,
    typer.Argument(
        help="A file with the query, or its text. A file may have several: CREATE QUERY name AS SELECT ...; each.",
        show_default=False,
    ),
]
Streams = Annotated[
    list[str],
    typer.Option(
        "--stream",
        help="NAME=FILE[?column=value&...], once per stream: parquet, CSV or JSON lines, a folder of such files, or a"
        " pattern in quotes ('s=day-*.csv'). Rows are in arrival order, files in the order of their names.",
    ),
]
Time = Annotated[str, typer.Option("--time", help="The event-time column.")]
TimeUnit = Annotated[str, typer.Option("--time-unit", help="Unit of integer event times: s, ms, us or ns.")]
Epoch = Annotated[
    str | None,
    typer.Option(
        "--epoch",
        help="1: release tuple by tuple (not on Spark); N: every N tuples; a duration: each time the largest clock has"
        " advanced by it \\[default: local: 1; spark: 50000].",
    ),
]
Shards = Annotated[
    int | None, typer.Option("--shards", help="Spark: how many parts the work is cut into \\[default: cores].")
]
Master = Annotated[str | None, typer.Option("--master", help="Spark: where it runs \\[default: local\\[*]].")]
Checkpoint = Annotated[
    Path | None,
    typer.Option("--checkpoint", help="Spark: folder for state; the same command resumes from it."),
]
Trigger = Annotated[
    str | None,
    typer.Option("--trigger", help="Spark: available (as fast as it can), or a micro-batch every DURATION."),
]
Count = Annotated[bool, typer.Option("--count", help="Count the results per second instead of making rows.")]
ArrivalTime = Annotated[
    str | None,
    typer.Option(
        "--arrival-time",
        help="COLUMN[:UNIT] with the arrival time: for wall latency, idle timeouts and tuples far ahead.",
    ),
]
Functions = Annotated[
    Path | None,
    typer.Option("--functions", help="A Python file that registers functions for the query (slackwater.register)."),
]
IdleTimeout = Annotated[
    str | None, typer.Option("--idle-timeout", help="Stop waiting for a stream that is silent for this long.")
]
MaxAhead = Annotated[
    str | None,
    typer.Option("--max-ahead", help="A tuple further ahead must be confirmed by later ones \\[default: 10 minutes]."),
]
MaxBehind = Annotated[
    str | None,
    typer.Option("--max-behind", help="A tuple further behind is late; slack does not follow it \\[default: 1 day]."),
]
InitialSlack = Annotated[
    str | None, typer.Option("--initial-slack", help="Slack of WITH COMPLETE at the start \\[default: 0].")
]
RuntimeName = Annotated[str, typer.Option("--runtime", help="Where to run it: local or spark.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress bar.")]
Json = Annotated[bool, typer.Option("--json", help="Print everything as JSON.")]
ShowPage = Annotated[bool, typer.Option("--page", help="Serve a live page of the run, and print its address.")]
PageHost = Annotated[
    str | None,
    typer.Option(
        "--page-host", help="Address of the page; any but this machine's own needs a token \\[default: 127.0.0.1]."
    ),
]
PagePort = Annotated[
    int | None,
    typer.Option("--page-port", help="Port of the page; 0 is any that is free \\[default: 8470, if it is free]."),
]
PageToken = Annotated[
    str | None,
    typer.Option(
        "--page-token", envvar="SLACKWATER_PAGE_TOKEN", help="Who has no such token sees neither page nor metrics."
    ),
]
Controlled = Annotated[bool, typer.Option("--control", help="Allow the page to change the target.")]
Stay = Annotated[bool, typer.Option("--stay", help="Serve the page until Ctrl-C, also when the run is over.")]
Metrics = Annotated[
    int | None, typer.Option("--metrics", help="Serve metrics for Prometheus on this port of this machine; 0 is any.")
]
Log = Annotated[
    Path | None, typer.Option("--log", help="Append what happens to the query to this file, as JSON lines.")
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="The same seed makes the same streams.")]
Out = Annotated[Path | None, typer.Option("--out", help="Folder for results, late and rejected rows and the report.")]
Figure = Annotated[Path | None, typer.Option("--figure", help="Draw it into FILE.png, FILE.svg or FILE.pdf as well.")]


@dataclass(frozen=True)
class QueryAndStreams:
    """A query, or a file of queries, and the streams it reads."""

    query: Query
    stream: Streams
    time: Time = "ts"
    time_unit: TimeUnit = "ms"
    functions: Functions = None

    def prepared(self, settings: Settings | None = None) -> Prepared | PreparedFile:
        """The query, or all queries of a file, bound to their streams."""
        from slackwater.cli.prepare import load_functions, prepare_file, prepare_query, text_of
        from slackwater.language.query_file import is_query_file

        load_functions(self.functions)
        text = text_of(self.query)
        prepare = prepare_file if is_query_file(text) else prepare_query
        return prepare(text, self.stream, self.time, self.time_unit, {} if settings is None else settings.overrides())


@dataclass(frozen=True)
class Settings:
    """Options of the query that a command line gives, and the column of arrival times."""

    arrival_time: ArrivalTime = None
    idle_timeout: IdleTimeout = None
    max_ahead: MaxAhead = None
    max_behind: MaxBehind = None
    initial_slack: InitialSlack = None

    def overrides(self) -> dict[str, str | None]:
        """The options of the query by name."""
        return {one.name: getattr(self, one.name) for one in fields(self) if one.name != "arrival_time"}


@dataclass(frozen=True)
class Where:
    """On which runtime a query is run, and how."""

    runtime: RuntimeName = "local"
    epoch: Epoch = None
    shards: Shards = None
    master: Master = None
    checkpoint: Checkpoint = None
    trigger: Trigger = None

    def chosen(self) -> Runtime:
        """The runtime that is asked for; what does not go with it is refused."""
        from slackwater.cli.runtimes import runtime_of

        return runtime_of(self.runtime, self.epoch, self.shards, self.master, self.checkpoint, self.trigger)


@dataclass(frozen=True)
class Shown:
    """What shows the run while it goes on: a page, metrics, a log."""

    page: ShowPage = False
    page_host: PageHost = None
    page_port: PagePort = None
    page_token: PageToken = None
    control: Controlled = False
    stay: Stay = False
    metrics: Metrics = None
    log: Log = None

    def __post_init__(self) -> None:
        of_the_page = {
            "--page-host": self.page_host,
            "--page-port": self.page_port is not None,
            "--control": self.control,
            "--stay": self.stay,
        }
        for name, given in of_the_page.items():
            if given and not self.page:
                raise UsageError(f"{name} is an option of the page; say --page")


NOWHERE = Shown()


def in_groups(command: Callable[..., None]) -> Callable[..., None]:
    """A command whose parameters that are groups are, for typer, all of their fields.

    >>> @in_groups
    ... def shown(where: Where, count: Count = False) -> None:
    ...     print(where.runtime, count)
    >>> list(inspect.signature(shown).parameters)[:2], shown(runtime="spark", count=True)
    spark True
    (['runtime', 'epoch'], None)
    """
    types = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {}
    flat: list[inspect.Parameter] = []
    for one in inspect.signature(command).parameters.values():
        if not is_dataclass(types[one.name]):
            flat.append(one.replace(annotation=types[one.name], kind=inspect.Parameter.KEYWORD_ONLY))
            continue
        group = groups[one.name] = types[one.name]
        of_fields = get_type_hints(group, include_extras=True)
        own = inspect.signature(group).parameters
        flat += [own[each.name].replace(annotation=of_fields[each.name], kind=inspect.Parameter.KEYWORD_ONLY)
                 for each in fields(group)]  # fmt: skip

    def grouped(**given: Any) -> None:
        made = {
            name: group(**{one.name: given.pop(one.name) for one in fields(group) if one.name in given})
            for name, group in groups.items()
        }
        command(**made, **given)

    grouped.__name__, grouped.__doc__ = command.__name__, command.__doc__
    grouped.__signature__ = inspect.Signature(flat)  # type: ignore[attr-defined]
    return grouped
