"""`slackwater advise`: which slack loses what, over recorded streams."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from slackwater.advice.answer import Advice
from slackwater.advice.over import AdviceRequest, advise_over
from slackwater.advice.text import print_whole, rendered
from slackwater.cli.prepare import Prepared, PreparedFile, duration_of, epochs_of
from slackwater.core.errors import UsageError

SPARK = "spark"


def asked_for(epoch: str | None, slacks: list[str], error: float | None, for_: str | None) -> AdviceRequest:
    """What the options of a command line ask for.

    >>> asked_for("1000", ["2 s"], None, "spark")
    AdviceRequest(epochs=Epochs(each_tuple=False, tuples=1000, span=0), slacks=(2000000,), error=None, spark=True)
    """
    if for_ not in (None, SPARK):
        raise UsageError(f"--for {for_}: it is {SPARK}, for the withWatermark of Spark's own operators")
    if error is not None and not 0 <= error < 1:
        raise UsageError(f"--error {error:g}: it is a share, at least 0 and below 1")
    return AdviceRequest(
        epochs_of(epoch or "1"), tuple(duration_of("slack", one) for one in slacks), error, for_ == SPARK
    )  # fmt: skip


def advise_query(prepared: Prepared | PreparedFile, asked: AdviceRequest, arrival_time: str | None) -> Advice:
    """The advice on a query over its streams."""
    if isinstance(prepared, PreparedFile):
        raise UsageError("advise looks at one query; give the text of one of the file's, without CREATE QUERY")
    if prepared.bound.explain:
        raise UsageError("advise counts results, and an EXPLAIN query has none; leave EXPLAIN out")
    return advise_over(
        prepared.bound.query, prepared.sources, prepared.time_unit, asked, arrival_time, prepared.ranks
    )  # fmt: skip


def show(advice: Advice, console: Console) -> None:
    """Print the advice."""
    print_whole(rendered(advice), console)


def draw(advice: Advice, figure: Path | None) -> None:
    """Draw it where that is asked for."""
    if figure is not None:
        # Drawing takes a while to import, and most advice is only printed.
        from slackwater.figures.advice import draw_advice

        draw_advice(advice, figure)
