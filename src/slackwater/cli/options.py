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
    from slackwater.cli.prepare import Prepared, PreparedFile, Runtime

HELP = {
    "stream": "NAME=FILE[?column=value&...], once per stream: parquet, CSV or JSON lines, a folder of such files, or a"
    " pattern in quotes ('s=day-*.csv'). Rows are in arrival order, files in the order of their names.",
    "table": "NAME=FILE of a static relation that the query joins: FROM o JOIN name c ON ...",
    "time": "The event-time column.",
    "time_unit": "Unit of integer event times: s, ms, us or ns.",
    "functions": "A Python file that registers functions for the query (slackwater.register).",
    "arrival_time": "COLUMN[:UNIT] with the arrival time: for wall latency, idle timeouts and tuples far ahead.",
    "idle_timeout": "Stop waiting for a stream that is silent for this long.",
    "max_ahead": "A tuple further ahead must be confirmed by later ones \\[default: 10 minutes].",
    "max_behind": "A tuple further behind is late; slack does not follow it \\[default: 1 day].",
    "initial_slack": "Slack of WITH COMPLETE at the start \\[default: 0].",
    "runtime": "Where to run it: local or spark.",
    "epoch": "1: release tuple by tuple (not on Spark); N: every N tuples; a duration: each time the largest clock has"
    " advanced by it \\[default: local: 1; spark: 50000].",
    "shards": "Spark: how many parts the work is cut into \\[default: cores].",
    "master": "Spark: where it runs \\[default: local\\[*]].",
    "checkpoint": "Spark: folder for state; the same command resumes from it.",
    "trigger": "Spark: available (as fast as it can), or a micro-batch every DURATION.",
    "page": "Serve a live page of the run, and print its address.",
    "page_host": "Address of the page; any but this machine's own needs a token \\[default: 127.0.0.1].",
    "page_port": "Port of the page; 0 is any that is free \\[default: 8470, if it is free].",
    "page_token": "Who has no such token sees neither page nor metrics.",
    "control": "Allow the page to change the target.",
    "stay": "Serve the page until Ctrl-C, also when the run is over.",
    "metrics": "Serve metrics for Prometheus on this port of this machine; 0 is any.",
    "log": "Append what happens to the query to this file, as JSON lines.",
    "out": "Folder for results, late and rejected rows and the report.",
    "count": "Count the results per second instead of making rows.",
    "json_": "Print everything as JSON.",
    "quiet": "No progress bar.",
    "figure": "Draw it into FILE.png, FILE.svg or FILE.pdf as well.",
    "seed": "The same seed makes the same streams.",
}
"""What options do, by the names of parameters; `time_unit` is the option --time-unit, and `json_` --json."""
MORE: dict[str, dict[str, Any]] = {"page_token": {"envvar": "SLACKWATER_PAGE_TOKEN"}, "seed": {"min": 0}}
"""What else typer is told of some of them."""


@dataclass(frozen=True)
class QueryAndStreams:
    """A query, or a file of queries, and the streams it reads."""

    query: Annotated[
        str,
        typer.Argument(
            help="A file with the query, or its text. A file may have several: CREATE QUERY name AS SELECT ...; each.",
            show_default=False,
        ),
    ]
    stream: list[str]
    time: str = "ts"
    time_unit: str = "ms"
    functions: Path | None = None
    table: list[str] | None = None

    def prepared(self, settings: Settings | None = None) -> Prepared | PreparedFile:
        """The query, or all queries of a file, bound to their streams."""
        from slackwater.cli.prepare import load_functions, prepare_file, prepare_query, text_of
        from slackwater.language.query_file import is_query_file

        load_functions(self.functions)
        text = text_of(self.query)
        prepare = prepare_file if is_query_file(text) else prepare_query
        overrides = {} if settings is None else settings.overrides()
        return prepare(text, self.stream, self.time, self.time_unit, overrides, self.table or ())


@dataclass(frozen=True)
class Settings:
    """Options of the query that a command line gives, and the column of arrival times."""

    arrival_time: str | None = None
    idle_timeout: str | None = None
    max_ahead: str | None = None
    max_behind: str | None = None
    initial_slack: str | None = None

    def overrides(self) -> dict[str, str | None]:
        """The options of the query by name."""
        return {one.name: getattr(self, one.name) for one in fields(self) if one.name != "arrival_time"}


@dataclass(frozen=True)
class Where:
    """On which runtime a query is run, and how."""

    runtime: str = "local"
    epoch: str | None = None
    shards: int | None = None
    master: str | None = None
    checkpoint: Path | None = None
    trigger: str | None = None

    def chosen(self) -> Runtime:
        """The runtime that is asked for; what does not go with it is refused."""
        from slackwater.cli.prepare import runtime_of

        return runtime_of(self.runtime, self.epoch, self.shards, self.master, self.checkpoint, self.trigger)


@dataclass(frozen=True)
class Shown:
    """What shows the run while it goes on: a page, metrics, a log."""

    page: bool = False
    page_host: str | None = None
    page_port: int | None = None
    page_token: str | None = None
    control: bool = False
    stay: bool = False
    metrics: int | None = None
    log: Path | None = None

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


def stated(name: str, type: Any) -> Any:
    """A parameter as typer takes it: as its annotation says, else as the option of its name."""
    if hasattr(type, "__metadata__"):
        return type
    return Annotated[
        type, typer.Option(f"--{name.strip('_').replace('_', '-')}", help=HELP[name], **MORE.get(name, {}))
    ]


def in_groups(command: Callable[..., None]) -> Callable[..., None]:
    """A command whose parameters are, for typer, options by their names; those that are groups are all of their fields.

    >>> @in_groups
    ... def shown(where: Where, count: bool = False) -> None:
    ...     print(where.runtime, count)
    >>> list(inspect.signature(shown).parameters)[:2], shown(runtime="spark", count=True)
    spark True
    (['runtime', 'epoch'], None)
    """
    types = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {}
    flat: list[inspect.Parameter] = []
    for one in inspect.signature(command).parameters.values():
        own, own_types = [one], types
        if is_dataclass(types[one.name]):
            group = groups[one.name] = types[one.name]
            own, own_types = (
                list(inspect.signature(group).parameters.values()),
                get_type_hints(group, include_extras=True),
            )
        flat += [
            each.replace(annotation=stated(each.name, own_types[each.name]), kind=inspect.Parameter.KEYWORD_ONLY)
            for each in own
        ]

    def grouped(**given: Any) -> None:
        made = {
            name: group(**{one.name: given.pop(one.name) for one in fields(group) if one.name in given})
            for name, group in groups.items()
        }
        command(**made, **given)

    grouped.__name__, grouped.__doc__ = command.__name__, command.__doc__
    grouped.__signature__ = inspect.Signature(flat)  # type: ignore[attr-defined]
    return grouped
