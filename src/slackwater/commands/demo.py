"""`slackwater demo`: who comes within 5 metres of whom, and what waiting for late positions costs and saves.

Invariant: the streams are generated from the seed and the queries go the way of any other (bind, plan, replay, run), so
that the outcome depends on the length of the game and on the seed alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

import pyarrow as pa
from rich.console import Console
from rich.live import Live

from slackwater.commands.demo_race import TUPLE_RELEASE, Contender, LocalContender, race
from slackwater.commands.demo_spark import micro_batches, spark_contenders
from slackwater.commands.demo_view import Outcome, frame, in_words, outcome_table, paragraph, percent, seconds_of
from slackwater.commands.runtimes import DEFAULT_EPOCH, LOCAL, SPARK
from slackwater.language.bind import bind
from slackwater.model.errors import SlackwaterError, UsageError
from slackwater.model.time import MILLISECOND, SECOND, format_duration
from slackwater.operators.pipeline import Epochs
from slackwater.plan.physical import PhysicalPlan
from slackwater.plan.planner import plan
from slackwater.runtime.local.run import LocalRun
from slackwater.sources.files import schema_of
from slackwater.sources.replay import Replay, replay
from slackwater.workloads import EPOCH_MS, disorder_statistics, positions

LEAST_SECONDS = 5
LIVE_SECONDS = 25.0
"""A game that is longer is played faster."""
TELLING_SECONDS = 60
"""In a shorter game the generated streams have no room for their largest delays."""
WAYS = {
    "NO WAIT": "only for the slower of the streams",
    "DELAY 1 SECOND": "a time you choose",
    "COMPLETE": "as long as the largest delay so far",
}

_JOIN = """\
SELECT a.sid AS player, b.sid AS opponent
FROM s1 AS a [RANGE 5 SECONDS], s2 AS b [RANGE 5 SECONDS]
WHERE dist(a.x, a.y, b.x, b.y) < 5"""


def query_text(waiting: str) -> str:
    """The query of the demo.

    >>> print(query_text("NO WAIT").splitlines()[-1])
    WITH NO WAIT
    """
    return f"{_JOIN}\nWITH {waiting}"


def playable(runtime: str, console: Console) -> str:
    """The runtime asked for, or the local one where Spark cannot be had; says so then."""
    if runtime == SPARK:
        from slackwater.runtime.spark.session import JAVA, java_is_there

        if not java_is_there():
            console.print(f"{JAVA}. Playing without Spark.\n", highlight=False, markup=False)
            return LOCAL
    return runtime


def play(seconds: int, seed: int, console: Console, fast: bool = False, runtime: str = LOCAL) -> tuple[Outcome, ...]:
    """Play so many seconds of a game and show what each way of waiting made of it; returns what was shown.

    On a terminal with a live table, in this process in slow motion; elsewhere, or if `fast`, the summary alone.
    """
    if runtime not in DEFAULT_EPOCH:
        raise UsageError(f"--runtime {runtime}: it is {LOCAL} or {SPARK}")
    if seconds < LEAST_SECONDS:
        raise UsageError(f"--seconds {seconds}: a game of the demo lasts at least {LEAST_SECONDS} seconds")
    try:
        outcomes = _play(seconds, seed, console, console.is_terminal and not fast, runtime)
    except KeyboardInterrupt:
        console.print("interrupted before the end of the game")
        raise
    _conclude(outcomes, seconds, console)
    if runtime == SPARK:
        cut = format_duration(micro_batches(seconds).span)
        console.print()
        _say(f"Spark played it in micro-batches of {cut}; inside one, tuples are put in order for free.", console)
    return outcomes


def _play(seconds: int, seed: int, console: Console, watched: bool, runtime: str) -> tuple[Outcome, ...]:
    streams = positions(seed, seconds / 60).streams
    tuples = sum(table.num_rows for table in streams.values())
    _introduce(seconds, streams, console)
    # On Spark the machine code of tuple release would be compiled for nothing else.
    epochs = micro_batches(seconds) if runtime == SPARK else TUPLE_RELEASE
    with _contenders(streams, seconds, console, runtime) as contenders:
        with console.status("looking for the true pairs: one run that waits for the whole game"):
            true_results = count_true_results(streams, seconds, epochs)
        if watched:
            with Live(console=console, auto_refresh=False) as live:

                def show() -> None:
                    live.update(frame(contenders, EPOCH_MS * MILLISECOND, seconds * SECOND, tuples), refresh=True)

                reports = race(contenders, tuples, min(seconds, LIVE_SECONDS), show)
        else:
            with console.status("replaying"):
                reports = race(contenders, tuples, 0)
    return tuple(Outcome.of(report, true_results) for report in reports)


@contextmanager
def _contenders(
    streams: Mapping[str, pa.Table], seconds: int, console: Console, runtime: str
) -> Iterator[Sequence[Contender]]:
    queries = [_prepared(way, streams) for way in WAYS]
    if runtime == SPARK:
        with ExitStack() as begun:
            with console.status("starting Spark, compiling kernels (first time only)"):
                contenders = begun.enter_context(spark_contenders(queries, streams, micro_batches(seconds)))
            yield contenders
        return
    with console.status("compiling kernels (first time only)"):
        local = [LocalContender(*query) for query in queries]
        for contender in local:
            contender.warm_up()
    yield local


def count_true_results(streams: Mapping[str, pa.Table], seconds: int, epochs: Epochs = TUPLE_RELEASE) -> int:
    """The number of pairs when nothing can come late, because the slack is as long as the game."""
    run = LocalRun(*_prepared(f"DELAY {seconds} SECONDS", streams), epochs)
    for _ in run.tables():
        pass
    if run.interrupted:
        raise KeyboardInterrupt
    seen = run.observe()
    if seen.late:
        raise SlackwaterError(f"{seen.late} tuples came later than the game is long; this should not happen")
    return seen.results


def _prepared(waiting: str, streams: Mapping[str, pa.Table]) -> tuple[PhysicalPlan, Replay]:
    schemas = {name: schema_of(name, table, "ts") for name, table in streams.items()}
    # Rows would be thrown away here; counting pairs is the same join without making them.
    physical = plan(bind(query_text(waiting), schemas).query, counted=True)
    return physical, replay(physical, streams, "ms")


def _introduce(seconds: int, streams: Mapping[str, pa.Table], console: Console) -> None:
    found = [disorder_statistics(table.column("ts").to_numpy()) for table in streams.values()]
    tuples, late = sum(one.tuples for one in found), sum(one.out_of_order for one in found)
    largest = max(one.max_delay_ms for one in found)
    _say(
        f"Two soccer teams wear position sensors: {seconds} s of play, {tuples:,} tuples in two streams. "
        f"{percent(late / tuples)} of them come out of order, most by some milliseconds, the worst by "
        f"{seconds_of(largest)}. Which opponents come within 5 metres of each other within 5 seconds?",
        console,
    )
    console.print()
    for line in query_text("...").splitlines():
        console.print(f"  {line}", style="bold", highlight=False, markup=False)
    console.print()


def _conclude(outcomes: tuple[Outcome, ...], seconds: int, console: Console) -> None:
    none, some, most = outcomes
    console.print(outcome_table(outcomes))
    _say(
        f"{none.true_results:,} pairs are true. Latency is the waiting, in event time; pairs that came with the end "
        "of the game do not count in it.",
        console,
    )
    console.print()
    _say(in_words(none, some, most), console, style="bold")
    if seconds < TELLING_SECONDS:
        _say(f"The largest delays need a longer game to show: --seconds {TELLING_SECONDS} or more.", console)
    console.print("\nThe last line of a query says how long to wait:", highlight=False)
    for way, meaning in WAYS.items():
        console.print(f"  [bold]WITH {way:<16}[/bold]{meaning}", highlight=False)


def _say(text: str, console: Console, style: str = "") -> None:
    console.print(paragraph(text, console.width), style=style, highlight=False, markup=False)
