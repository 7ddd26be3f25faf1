"""What the demo shows: the race as a frame and as a picture, its outcome as a table, and the trade-off in words.

Invariant: every number shown was measured by a run; 80 columns are enough, and no colour carries meaning. Results leave
in timestamp order, so at any time those emitted are compared with the true ones up to the watermark, and over a period
with those between two watermarks.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich import box
from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from slackwater.cli.demo_race import Contender, behind
from slackwater.core.batch import Floats, Words
from slackwater.core.errors import UsageError
from slackwater.core.quality import Complete, NoWait, Quality, Recall
from slackwater.core.state import Emission
from slackwater.core.time import AFTER_ALL, BEFORE_ALL, MILLISECOND, SECOND, format_duration, readable
from slackwater.observe.report import Report
from slackwater.observe.value import QueryProgress, nothing_observed


@dataclass(frozen=True)
class Truth:
    """The true results by their timestamps, as a running count.

    >>> truth = Truth(np.array([5, 7]), np.array([2, 3]))
    >>> truth.total, truth.up_to(4), truth.up_to(5), truth.up_to(100)
    (3, 0, 2, 3)
    """

    times: Words
    counts: Words

    @classmethod
    def of(cls, emissions: Iterable[Emission]) -> Truth:
        """The results of a run that lost none."""
        parts = [(one.ts, np.ones_like(one.ts) if one.multiplicity is None else one.multiplicity) for one in emissions]
        nothing = np.zeros(0, np.int64)
        times = np.concatenate([nothing, *(ts for ts, _ in parts)])
        weights = np.concatenate([nothing, *(multiplicity for _, multiplicity in parts)])
        order = np.argsort(times, kind="stable")
        return cls(times[order], np.cumsum(weights[order]))

    @property
    def total(self) -> int:
        return int(self.counts[-1]) if len(self.counts) else 0

    def up_to(self, time: int) -> int:
        """How many results have a timestamp up to this one."""
        before = int(np.searchsorted(self.times, time, "right"))
        return int(self.counts[before - 1]) if before else 0


def recent_recall(progress: Sequence[QueryProgress], truth: Truth, period: int) -> list[float | None]:
    """Each time the recall of the results of the last period, or since the beginning; None before there is any.

    >>> from dataclasses import replace
    >>> from slackwater.observe.value import nothing_observed
    >>> truth = Truth(np.array([0, 10, 20, 30]), np.array([1, 2, 3, 4]))
    >>> course = ((BEFORE_ALL, 0), (10, 1), (20, 1), (30, 2))
    >>> seen = [replace(nothing_observed(2), watermark=time, results=results) for time, results in course]
    >>> recent_recall([QueryProgress(observed=one) for one in seen], truth, period=20)
    [None, 0.5, 0.3333333333333333, 0.5]
    """
    found: list[float | None] = []
    before = 0
    seen = [one.observed for one in progress]
    for i, now in enumerate(seen):
        if now.watermark == BEFORE_ALL:
            found.append(None)
            continue
        watermark = now.watermark
        if watermark == AFTER_ALL and len(truth.times):
            # Once everything is emitted the period ends with the last result.
            watermark = int(truth.times[-1])
        while before + 1 < i and seen[before + 1].watermark <= watermark - period:
            before += 1
        since = seen[before] if seen[before].watermark <= watermark - period else None
        true = truth.up_to(watermark) - (0 if since is None else truth.up_to(since.watermark))
        made = now.results - (0 if since is None else since.results)
        found.append(min(1.0, made / true) if true else None)
    return found


FORMATS = (".png", ".svg", ".pdf")
METHODS = {Complete: "Max-K-slack", NoWait: "No-K-slack", Recall: "steady"}
BARS = "▁▂▃▄▅▆▇█"
SPARKS = 16
WIDTH = 80
NOTHING = "-"
LEAST_SCALE = float(SECOND)
Pick = Callable[[float, float], float]


@dataclass(frozen=True)
class Outcome:
    """How one way of waiting ended. Times are milliseconds, None where no result came before the end."""

    name: str
    results: int
    true_results: int
    latency: float | None
    latency_p95: float | None
    slack: float
    late: int
    target: float | None = None
    """The recall that was asked for."""
    measured: float | None = None
    """The recall that the run has itself measured."""
    fulfilment: float | None = None
    """The share of periods in which it has measured the target to be met."""

    @classmethod
    def of(cls, report: Report, true_results: int) -> Outcome:
        content = report.as_json()
        latency = content["latency_ms"]
        slack = content["slack_ms"]["avg"]
        results, late = content["results"], content["late"]
        own = content["measured_quality"] or {"target": None, "measured": None, "phi": None}
        return cls(
            report.quality, results, true_results, latency["avg"], latency["p95"], slack, late,
            own["target"], own["measured"], own["phi"],
        )  # fmt: skip

    @property
    def recall(self) -> float:
        return self.results / self.true_results if self.true_results else 1.0


def seconds_of(milliseconds: float | None) -> str:
    """A duration to three digits, and to whole milliseconds, so that a table has room for it.

    >>> seconds_of(16.897), seconds_of(1025.8), seconds_of(17606.1), seconds_of(0), seconds_of(None)
    ('17 ms', '1.03 s', '17.6 s', '0 s', '-')
    """
    return NOTHING if milliseconds is None else readable(round(float(f"{milliseconds:.3g}")) * MILLISECOND)


def percent(share: float) -> str:
    """A share with one digit, and never 100 % unless nothing is missing.

    >>> percent(0.4703), percent(0.99996), percent(1.0)
    ('47.0 %', '99.9 %', '100 %')
    """
    return "100 %" if share >= 1 else f"{min(share * 100, 99.9):.1f} %"


def sparkline(values: Sequence[float | None], largest: float) -> str:
    """Values as bars between 0 and the largest; a dot where there is none.

    >>> sparkline([0, None, 4, 8], 8)
    '▁·▅█'
    """
    top = len(BARS) - 1
    return "".join(
        "·" if value is None else BARS[min(top, int(value * len(BARS) / (largest or 1)))] for value in values
    )


def _history(
    progress: Sequence[QueryProgress], values: Sequence[float | None], tuples: int, worst: Pick
) -> list[float | None]:
    """The worst value in each part of the game so far."""
    parts: list[float | None] = [None] * SPARKS
    for one, value in zip(progress, values, strict=True):
        if value is not None:
            part = min(SPARKS - 1, one.observed.tuples * SPARKS // max(1, tuples))
            before = parts[part]
            parts[part] = value if before is None else worst(before, value)
    return parts


def frame(
    contenders: Sequence[Contender], begin: int, length: int, tuples: int, truth: Truth, period: int
) -> RenderableType:
    """The race so far; the game begins at event time `begin`, lasts `length` and has so many tuples."""
    # A contender may note its progress while this is drawn.
    noted = [list(contender.progress) for contender in contenders]
    nothing = QueryProgress(observed=nothing_observed(2))
    latest = [course[-1] if course else nothing for course in noted]
    recalls = [recent_recall(course, truth, period) for course in noted]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("waiting", no_wrap=True)
    for contender in contenders:
        table.add_column(_in_two_lines(contender.name), justify="right", min_width=SPARKS)

    def row(name: str, cells: Sequence[str], style: str = "") -> None:
        table.add_row(name, *cells, style=style)

    row("asked for", [_asked(contender.quality) for contender in contenders])
    row("pairs found", [f"{one.results:,}" for one in latest])
    row(f"recall, last {format_duration(period)}", [_percent(seen[-1] if seen else None) for seen in recalls], "bold")
    row("by its own ledger", [_percent(_measured(one)) for one in latest])
    row("slack", [seconds_of(one.observed.slack / 1000) for one in latest])
    row("latency now", [NOTHING if (late := behind(one)) is None else seconds_of(late / 1000) for one in latest])
    row("late tuples", [f"{one.late:,}" for one in latest])
    row("held to be sorted", [f"{one.held:,}" for one in latest])
    histories = [_history(course, seen, tuples, min) for course, seen in zip(noted, recalls, strict=True)]
    row("recall, █ 100 %", [sparkline(history, 1.0) for history in histories])
    slack: list[list[float | None]] = [[one.observed.slack for one in course] for course in noted]
    latency: list[list[float | None]] = [[behind(one) for one in course] for course in noted]
    for name, values in (("slack", slack), ("latency", latency)):
        histories = [_history(course, seen, tuples, max) for course, seen in zip(noted, values, strict=True)]
        scale = max([LEAST_SCALE, *(value for history in histories for value in history if value is not None)])
        row(f"{name}, █ {seconds_of(scale / 1000)}", [sparkline(history, scale) for history in histories])
    return Group(_clock_line(latest, begin, length, tuples), table)


def _in_two_lines(name: str) -> str:
    return name.replace(" OVER ", "\nOVER ")


def _asked(quality: Quality) -> str:
    return _target(quality.target if isinstance(quality, Recall) else None)


def _target(share: float | None) -> str:
    return NOTHING if share is None else f"{100 * share:g} %"


def _measured(one: QueryProgress) -> float | None:
    """The quality that the run has itself measured so far, where it has a target."""
    return None if one.observed.quality is None else one.observed.quality.share


def _percent(share: float | None) -> str:
    return NOTHING if share is None else percent(share)


def _clock_line(latest: Sequence[QueryProgress], begin: int, length: int, tuples: int) -> RenderableType:
    """Where the game is: its time, its tuples, a bar."""
    seen = max(one.observed.tuples for one in latest)
    clock = max(max(one.observed.clocks) for one in latest)
    clock = begin if clock == BEFORE_ALL else clock
    line = Table.grid(padding=(0, 2))
    line.add_row(
        f"event time {_game_time(clock - begin)} of {_game_time(length)}",
        f"{seen:>{len(f'{tuples:,}')},} tuples in",
        ProgressBar(total=max(1, tuples), completed=seen, width=24),
    )
    return line


def _game_time(micros: int) -> str:
    minutes, seconds = divmod(micros // SECOND, 60)
    return f"{minutes}:{seconds:02d}"


def outcome_table(outcomes: Sequence[Outcome]) -> Table:
    """What each way of waiting found, and what it cost."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("waiting", no_wrap=True)
    for title in ("asked", "recall", "pairs", "latency", "95 % in", "slack", "late"):
        table.add_column(title, justify="right")
    for one in outcomes:
        times = (seconds_of(value) for value in (one.latency, one.latency_p95, one.slack))
        found = (_target(one.target), Text(percent(one.recall), "bold"), f"{one.results:,}")
        table.add_row(_in_two_lines(one.name), *found, *times, f"{one.late:,}")
    return table


def in_words(none: Outcome, asked: Outcome, most: Outcome) -> str:
    """The trade-off as sentences.

    >>> none = Outcome("NO WAIT", 47, 100, 17.0, 60.0, 0.0, 9)
    >>> asked = Outcome("RECALL 0.95 OVER 20 s", 97, 100, 113.0, 300.0, 276.0, 2, 0.95, 0.97, 1.0)
    >>> most = Outcome("COMPLETE", 100, 100, None, None, 26e3, 0)
    >>> print(in_words(none, asked, most).replace(". ", ".\\n"))
    NO WAIT answered after 17 ms on average and lost 53 pairs: it found 47.0 %.
    COMPLETE found 100 %, but answered only when the game was over.
    RECALL asked for 95 %, got 97.0 % and answered after 113 ms on average.
    """
    lost = none.true_results - none.results
    slower = most.latency is None or (asked.latency is not None and most.latency > asked.latency)
    wanted = f"asked for {_target(asked.target)}, got {percent(asked.recall)}"
    return (
        f"{none.name} answered {_when(none)} and lost {lost:,} pairs: it found {percent(none.recall)}. "
        f"{most.name} found {percent(most.recall)}{', but' if slower else ' and'} answered {_when(most)}. "
        f"{asked.name.split()[0]} {wanted} and answered {_when(asked)}."
    )


def own_ledger(asked: Outcome, period: int) -> str:
    """What a run with a target knows of itself.

    >>> asked = Outcome("RECALL 0.95 OVER 20 s", 97, 100, 113.0, 300.0, 276.0, 2, 0.95, 0.97, 1.0)
    >>> print(own_ledger(asked, 20_000_000))
    By its own ledger, which knows no truth, it has 97.0 %, and 100 % of all spans of 20 s met the target.
    """
    if asked.measured is None:
        return "The game was too short for its own ledger."
    met = ""
    if asked.fulfilment is not None:
        met = f", and {percent(asked.fulfilment)} of all spans of {format_duration(period)} met the target"
    return f"By its own ledger, which knows no truth, it has {percent(asked.measured)}{met}."


def _when(one: Outcome) -> str:
    return "only when the game was over" if one.latency is None else f"after {seconds_of(one.latency)} on average"


def paragraph(text: str, width: int) -> str:
    """Text in lines that never part a number from its unit.

    >>> print(paragraph("It came after 17.6 s of waiting.", 18))
    It came after
    17.6 s of waiting.
    """
    bound = re.sub(r"(\d) (ms|s|%)(?!\w)", "\\1\N{NO-BREAK SPACE}\\2", text)
    return textwrap.fill(bound, min(width, WIDTH)).replace("\N{NO-BREAK SPACE}", " ")


def drawable(path: Path | None) -> None:
    """Refuse a path at which no picture can be written, before anything is played."""
    if path is not None and path.suffix.lower() not in FORMATS:
        raise UsageError(f"--figure {path}: name a file that ends in {', '.join(FORMATS)}")
    if path is not None and not path.absolute().parent.is_dir():
        raise UsageError(f"--figure {path}: there is no folder {path.absolute().parent}")


def draw(contenders: Sequence[Contender], truth: Truth, begin: int, target: Recall, path: Path) -> None:
    """Draw all contenders into a file; the game begins at event time `begin`."""
    # Drawing takes a while to import, and most games are not drawn.
    from slackwater.figures.race import Seen, draw_race

    race = []
    for contender in contenders:
        # The last one is at the end of the input, where everything is emitted.
        course = [one for one in contender.progress[:-1] if max(one.observed.clocks) != BEFORE_ALL]
        race.append(
            Seen(
                contender.name,
                METHODS[type(contender.quality)],
                (_floats([max(one.observed.clocks) for one in course]) - begin) / SECOND,
                _floats(recent_recall(course, truth, target.over)),
                _floats([_measured(one) for one in course]),
                _floats([one.observed.slack for one in course]) / SECOND,
                _floats([behind(one) for one in course]) / SECOND,
            )
        )
    draw_race(race, target, path)


def _floats(values: Sequence[float | None]) -> Floats:
    return np.array([np.nan if value is None else value for value in values], np.float64)
