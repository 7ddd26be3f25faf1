"""Arguments and options that several commands have, each said once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

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
        " advanced by it [local: 1; spark: 50000].",
    ),
]
Shards = Annotated[int | None, typer.Option("--shards", help="Spark: how many parts the work is cut into [cores].")]
Master = Annotated[str | None, typer.Option("--master", help="Spark: where it runs [local\\[*]].")]
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
    str | None, typer.Option("--max-ahead", help="A tuple further ahead must be confirmed by later ones [10 minutes].")
]
MaxBehind = Annotated[
    str | None,
    typer.Option("--max-behind", help="A tuple further behind is late; slack does not follow it [1 day]."),
]
InitialSlack = Annotated[str | None, typer.Option("--initial-slack", help="Slack of WITH COMPLETE at the start [0].")]
Runtime = Annotated[str, typer.Option("--runtime", help="Where to run it: local or spark.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress bar.")]
Json = Annotated[bool, typer.Option("--json", help="Print everything as JSON.")]
ShowPage = Annotated[bool, typer.Option("--page", help="Serve a live page of the run, and print its address.")]
PageHost = Annotated[
    str | None,
    typer.Option("--page-host", help="Address of the page; any but this machine's own needs a token [127.0.0.1]."),
]
PagePort = Annotated[
    int | None, typer.Option("--page-port", help="Port of the page; 0 is any that is free [8470, if it is free].")
]
PageToken = Annotated[
    str | None,
    typer.Option(
        "--page-token", envvar="SLACKWATER_PAGE_TOKEN", help="Who has no such token sees neither page nor metrics."
    ),
]
Controlled = Annotated[bool, typer.Option("--control", help="Let the target be moved on the page.")]
Stay = Annotated[bool, typer.Option("--stay", help="Serve the page until Ctrl-C, also when the run is over.")]
Metrics = Annotated[
    int | None, typer.Option("--metrics", help="Serve metrics for Prometheus on this port of this machine; 0 is any.")
]
Log = Annotated[
    Path | None, typer.Option("--log", help="Append what happens to the query to this file, as JSON lines.")
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="The same seed makes the same streams.")]
