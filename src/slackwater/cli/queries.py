"""`slackwater queries DIR ...`: look at a set of queries that runs on Spark, and change it while it runs.

Invariant: nothing is decided here. A change is asked of the process that runs the set (`sw.queries(...).start(DIR)`),
which checks it as it checks its own, and what it refuses is reported as an error. Spark is not started for it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from slackwater.core.errors import UsageError

queries_app = typer.Typer(
    no_args_is_help=True,
    help="List and change the queries of a set that runs on Spark, by the checkpoint folder it was started with. A run"
    " of the local runtime is over recorded files and belongs to one process: change it from Python.",
)
Name = Annotated[str, typer.Argument(help="The name of the query.", show_default=False)]


@queries_app.callback()
def of_set(
    context: typer.Context,
    checkpoint: Annotated[
        str, typer.Argument(help="The checkpoint folder of the set, as a path of this machine.", show_default=False)
    ],
) -> None:
    """The set that all commands are about."""
    folder = checkpoint.removeprefix("file://")
    if "://" in folder:
        raise UsageError(
            f"{checkpoint} is not on this machine, and requests are files of the checkpoint folder; change the set in"
            " the program that runs it, by what sw.queries(...).start gave"
        )
    context.obj = Path(folder)


@queries_app.command("list")
def list_queries(
    context: typer.Context, json_: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False
) -> None:
    """List the queries: which are paused, have ended or have failed and why, and their targets."""
    from slackwater.runtime.spark.fence import has_ended
    from slackwater.runtime.spark.locations import STATE
    from slackwater.runtime.spark.store import LocalStore

    known, ended = _log_of(context.obj), has_ended(LocalStore(str(context.obj / STATE)))
    found = [_shown(one, "ended" if ended else "running") for one in known]
    if json_:
        print(json.dumps({"queries": found}, indent=2))
        return
    table = Table(box=None, pad_edge=False)
    for column in ("query", "state", "target", "text"):
        table.add_column(column)
    for one in found:
        reason = "" if one["reason"] is None else f": {one['reason']}"
        table.add_row(one["query"], f"{one['state']}{reason}", one["target"] or "as its text says", one["text"])
    Console().print(table)


@queries_app.command()
def add(
    context: typer.Context,
    name: Name,
    query: Annotated[str, typer.Argument(help="A file with the query, or its text.", show_default=False)],
    out: Annotated[str, typer.Option("--out", help="Folder for its results.")],
    late: Annotated[str | None, typer.Option("--late", help="Folder for its late rows.")] = None,
    rejected: Annotated[str | None, typer.Option("--rejected", help="Folder for its rejected rows.")] = None,
) -> None:
    """Add a query over the streams of the set; it begins with what arrives from now on."""
    from slackwater.cli.prepare import text_of

    given = {"results": out, "late": late, "rejected": rejected}
    sinks = {what: _absolute(folder) for what, folder in given.items() if folder is not None}
    _ask(context.obj, "add", name, f"query {name} is added", text=text_of(query), sinks=sinks)


@queries_app.command()
def drop(context: typer.Context, name: Name) -> None:
    """End a query: it emits nothing more, and its state is dropped."""
    _ask(context.obj, "drop", name, f"query {name} is dropped")


@queries_app.command()
def pause(context: typer.Context, name: Name) -> None:
    """Pause a query: it takes nothing in and emits nothing, and its state stays."""
    _ask(context.obj, "pause", name, f"query {name} is paused from the next micro-batch on")


@queries_app.command()
def resume(context: typer.Context, name: Name) -> None:
    """Resume a paused query."""
    _ask(context.obj, "resume", name, f"query {name} goes on with the next micro-batch")


@queries_app.command()
def target(
    context: typer.Context,
    name: Name,
    quality: Annotated[
        str, typer.Argument(help="As behind WITH: 'RECALL 0.99 OVER 1 MINUTE', 'DELAY 2 SECONDS'.", show_default=False)
    ],
    at_most: Annotated[str | None, typer.Option("--at-most", help="The most slack that is chosen for it.")] = None,
) -> None:
    """Ask for another quality of a query."""
    done = f"query {name} has the target {quality} from the next micro-batch on"
    _ask(context.obj, "target", name, done, target=quality, at_most=at_most)


def _ask(checkpoint: Path, change: str, name: str, done: str, **more: Any) -> None:
    from slackwater.runtime.spark.requests import Request, ask

    _log_of(checkpoint)
    ask(checkpoint, Request(change, name, **more))
    Console().print(done, markup=False, highlight=False, soft_wrap=True)


def _log_of(checkpoint: Path) -> list[Any]:
    """The queries as the control messages have them; refuses a folder that is no checkpoint of a set."""
    from slackwater.runtime.spark.control import CONTROL, in_force, read_messages
    from slackwater.runtime.spark.store import LocalStore

    folder = checkpoint / CONTROL
    if not folder.is_dir():
        raise UsageError(
            f"{checkpoint} is not the checkpoint of queries: it has no folder {CONTROL}; name the folder that sw.start"
            " or sw.queries(...).start was given"
        )
    messages = read_messages(LocalStore(str(folder)))
    return list(in_force(messages).values())


def _shown(known: Any, otherwise: str) -> dict[str, Any]:
    state = "failed" if known.failure is not None else "paused" if known.paused else otherwise
    return {
        "query": known.name,
        "state": state,
        "reason": known.failure,
        "target": known.target,
        "text": " ".join(known.text.split()),
    }


def _absolute(folder: str) -> str:
    """A path as the process that runs the set finds it, wherever that was started."""
    return folder if "://" in folder or folder.startswith("file:") else str(Path(folder).resolve())
