"""What a command says on the side: on the error stream, so that what it prints can still be read by a program."""

from __future__ import annotations

from rich.console import Console

from slackwater.plan.physical import PhysicalPlan
from slackwater.runtime.recorded import RecordedRun
from slackwater.runtime.side_outputs.rejections import rejected_at_first, rejected_rows
from slackwater.sources.replay import Replay


def warn_at_first(plan: PhysicalPlan, arrivals: Replay) -> bool:
    """Say what is odd about streams before they are run; whether rows are rejected for it."""
    rejected = rejected_at_first(plan, arrivals)
    for sentence in (*arrivals.notes, *rejected):
        warn(sentence)
    return bool(rejected)


def warn_at_last(run: RecordedRun, reported: bool) -> None:
    """Say what was not said yet, and that most rows of a stream were rejected, unless that was told at first."""
    for sentence in run.take_news():
        warn(sentence)
    if not reported:
        for sentence in rejected_rows(run.plan, run.replay, run.side_outputs):
            warn(sentence)


def warn(sentence: str, console: Console | None = None) -> None:
    """One sentence for whoever watches, on the error stream; where something is drawn there, by who draws it."""
    (console or Console(stderr=True)).print(
        f"warning: {sentence}", style="yellow", highlight=False, markup=False, soft_wrap=True
    )
