"""`slackwater demo`: who comes within 5 metres of whom, and what waiting for late positions costs and saves.

Invariant: the streams are generated from the seed and the queries go the way of any other (bind, plan, replay, run), so
that the outcome depends on the length of the game and on the seed alone.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner

from slackwater.cli.demo_race import (
    TUPLE_RELEASE,
    Contender,
    LocalContender,
    micro_batches,
    race,
    spark_contenders,
    starting_spark,
)
from slackwater.cli.demo_view import (
    Outcome,
    Truth,
    draw,
    drawable,
    frame,
    in_words,
    outcome_table,
    own_ledger,
    paragraph,
    percent,
    seconds_of,
)
from slackwater.cli.options import NOWHERE, Shown
from slackwater.cli.paging import paged, say
from slackwater.cli.prepare import DEFAULT_EPOCH, LOCAL, SPARK
from slackwater.core.errors import SlackwaterError, UsageError
from slackwater.core.quality import Recall
from slackwater.core.time import MILLISECOND, SECOND, format_duration
from slackwater.language.bind import bind
from slackwater.operators.pipeline import Epochs
from slackwater.plan.physical import PhysicalPlan
from slackwater.plan.planner import plan
from slackwater.runtime.local.run import LocalRun
from slackwater.sources.files import schema_of
from slackwater.sources.replay import Replay, replay
from slackwater.workloads import EPOCH_MS, disorder_statistics, positions

LEAST_SECONDS, MOST_SECONDS = 5, 24 * 3600
CODE_SECONDS = 30
"""In a game of this length everything is compiled that a longer one needs."""
LIVE_SECONDS = 25.0
"""A game that is longer is played faster."""
TELLING_SECONDS = 60
"""In a shorter game the generated streams have no room for their largest delays."""
DEFAULT_SECONDS = {LOCAL: 120, SPARK: 60}
"""On Spark three queries share the cores, and a longer game would take longer than anyone watches."""
TARGETS = {LOCAL: Recall(0.95, 20 * SECOND), SPARK: Recall(0.99, 20 * SECOND)}
"""A micro-batch puts its own tuples in order, so on Spark more is found without slack, and more must be asked for."""
OTHER_WAYS = {"DELAY 1 SECOND": "a time you choose"}

_JOIN = """\
SELECT a.sid AS player, b.sid AS opponent
FROM s1 AS a [RANGE 5 SECONDS], s2 AS b [RANGE 5 SECONDS]
WHERE dist(a.x, a.y, b.x, b.y) < 5"""


def ways_of(target: Recall) -> dict[str, str]:
    """The last lines of the queries that race, and what they mean.

    >>> list(ways_of(Recall(0.95, 20 * SECOND)))
    ['NO WAIT', 'RECALL 0.95 OVER 20 SECONDS', 'COMPLETE']
    """
    return {
        "NO WAIT": "only for the slower of the streams",
        f"RECALL {target.target:g} OVER {target.over // SECOND} SECONDS": "as little as "
        f"{100 * target.target:g} % of the pairs allow",
        "COMPLETE": "as long as the largest delay so far",
    }


def query_text(waiting: str) -> str:
    """The query of the demo.

    >>> print(query_text("NO WAIT").splitlines()[-1])
    WITH NO WAIT
    """
    return f"{_JOIN}\nWITH {waiting}"


def _must_be_there(runtime: str) -> None:
    """Refuse what cannot be played on, with the remedy."""
    if runtime not in DEFAULT_EPOCH:
        raise UsageError(f"--runtime {runtime}: it is {LOCAL} or {SPARK}")
    if runtime == SPARK:
        from slackwater.runtime.spark.session import JAVA, java_is_there

        if not java_is_there():
            raise UsageError(f"{JAVA}, or play without Spark: slackwater demo --runtime {LOCAL}")


def play(
    seconds: int | None, seed: int, console: Console, fast: bool = False, runtime: str = LOCAL,
    figure: Path | None = None, asked: Shown = NOWHERE,
) -> tuple[Outcome, ...]:  # fmt: skip
    """Play so many seconds of a game and show what each way of waiting made of it; returns what was shown.

    On a terminal with a live table, in this process in slow motion; elsewhere, or if `fast`, the summary alone. With a
    `figure`, the race is also drawn into that file; with a page, it is shown there as well.
    """
    _must_be_there(runtime)
    seconds = DEFAULT_SECONDS[runtime] if seconds is None else seconds
    if not LEAST_SECONDS <= seconds <= MOST_SECONDS:
        raise UsageError(
            f"--seconds {seconds}: a game of the demo lasts at least {LEAST_SECONDS} seconds, and at most"
            f" {MOST_SECONDS:,}"
        )
    drawable(figure)
    try:
        outcomes = _play(seconds, seed, console, console.is_terminal and not fast, runtime, figure, asked)
    except KeyboardInterrupt:
        console.print("interrupted before the end of the game")
        raise
    _conclude(outcomes, seconds, TARGETS[runtime], console)
    if runtime == SPARK:
        cut = format_duration(micro_batches(seconds).span)
        console.print()
        free = f"Spark played it in micro-batches of {cut}; inside one, tuples are put in order for free, so that "
        enough = outcomes[0].recall >= TARGETS[runtime].target
        free += "even without slack more is found than was asked for" if enough else "slack is for longer delays only"
        _say(f"{free}.", console)
    if figure is not None:
        say(f"\ndrawn into {figure}", console)
    return outcomes


def _play(
    seconds: int, seed: int, console: Console, watched: bool, runtime: str, figure: Path | None, asked: Shown,
) -> tuple[Outcome, ...]:  # fmt: skip
    streams = positions(seed, seconds / 60).streams
    tuples = sum(table.num_rows for table in streams.values())
    target = TARGETS[runtime]
    _introduce(seconds, streams, console)
    # On Spark the machine code of tuple release would be compiled for nothing else.
    epochs = micro_batches(seconds) if runtime == SPARK else TUPLE_RELEASE
    with ExitStack() as begun:
        shown = begun.enter_context(paged(asked, page_folder()))
        # Spark starts while this process compiles what its workers will look for.
        spark = begun.enter_context(starting_spark()) if runtime == SPARK else None
        queries = [_prepared(way, streams) for way in ways_of(target)]
        with console.status(f"{'starting Spark, ' if spark else ''}compiling kernels (first time only)"):
            for query in queries:
                LocalRun(*query, epochs).warm_up()
        with console.status("looking for the true pairs: one run that waits for the whole game"):
            truth = true_pairs(streams, seconds, epochs)
        contenders: Sequence[Contender]
        if spark is None:
            contenders = [LocalContender(*query) for query in queries]
        else:
            with console.status("starting Spark"):
                contenders = begun.enter_context(spark_contenders(spark, queries, streams, epochs))
        begin = EPOCH_MS * MILLISECOND
        for contender in contenders:
            contender.show_on(shown)
        # A page is watched, wherever the output goes.
        pace = min(seconds, LIVE_SECONDS) if watched or asked.page else 0.0
        if watched:
            with Live(console=console, auto_refresh=False) as live:
                waiting = Spinner("dots", "the first micro-batch: Spark plans it, workers start and load the kernels")

                def show() -> None:
                    moving = spark is None or any(contender.progress for contender in contenders)
                    now = frame(contenders, begin, seconds * SECOND, tuples, truth, target.over) if moving else waiting
                    live.update(now, refresh=True)

                reports = race(contenders, tuples, pace, show)
        else:
            with console.status("replaying"):
                reports = race(contenders, tuples, pace)
        shown.end()
        if figure is not None:
            draw(contenders, truth, begin, target, figure)
    return tuple(Outcome.of(report, truth.total) for report in reports)


def make_machine_code() -> None:
    """Compile what a game on Spark needs, so that the first one begins as soon as any other; `make setup` does."""
    from slackwater.runtime.spark.warm_up import load_kernels

    load_kernels()
    streams = positions(0, CODE_SECONDS / 60).streams
    epochs = micro_batches(CODE_SECONDS)
    for way in ways_of(TARGETS[SPARK]):
        for _ in LocalRun(*_prepared(way, streams), epochs).emissions():
            pass
    true_pairs(streams, CODE_SECONDS, epochs)


def page_folder() -> Path:
    """Where the history of the last demo is kept."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "slackwater" / "demo"


def true_pairs(streams: Mapping[str, pa.Table], seconds: int, epochs: Epochs = TUPLE_RELEASE) -> Truth:
    """The pairs when nothing can come late, because the slack is as long as the game."""
    run = LocalRun(*_prepared(f"DELAY {seconds} SECONDS", streams), epochs)
    truth = Truth.of(run.emissions())
    if run.interrupted:
        raise KeyboardInterrupt
    seen = run.observe()
    if seen.late:
        raise SlackwaterError(f"{seen.late} tuples came later than the game is long; this should not happen")
    return truth


def _prepared(waiting: str, streams: Mapping[str, pa.Table]) -> tuple[PhysicalPlan, Replay]:
    schemas = {name: schema_of(name, table, "ts") for name, table in streams.items()}
    # Rows would be thrown away here; counting pairs is the same join without making them.
    physical = plan(bind(query_text(waiting), schemas).query, count_only=True)
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


def _conclude(outcomes: tuple[Outcome, ...], seconds: int, target: Recall, console: Console) -> None:
    none, asked, most = outcomes
    console.print(outcome_table(outcomes))
    _say(
        f"{none.true_results:,} pairs are true. Latency is the waiting, in event time; pairs that came with the end "
        "of the game do not count in it.",
        console,
    )
    console.print()
    _say(in_words(none, asked, most), console, style="bold")
    _say(own_ledger(asked, target.over), console)
    if seconds < TELLING_SECONDS:
        _say(f"The largest delays need a longer game to show: --seconds {TELLING_SECONDS} or more.", console)
    console.print("\nThe last line of a query says how long to wait:", highlight=False)
    for way, meaning in (ways_of(target) | OTHER_WAYS).items():
        console.print(f"  [bold]WITH {way:<29}[/bold]{meaning}", highlight=False)


def _say(text: str, console: Console, style: str = "") -> None:
    console.print(paragraph(text, console.width), style=style, highlight=False, markup=False)
